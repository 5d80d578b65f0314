package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCluster;
import org.apache.ignite.IgniteException;
import org.apache.ignite.cluster.BaselineNode;
import org.apache.ignite.cluster.ClusterNode;
import org.apache.ignite.cluster.ClusterState;

/**
 * Makes a cluster that keeps its data on disk active, and its servers holders of data.
 *
 * <p>Ignite does both by itself for a cluster in memory. With persistence it waits for somebody to decide, and we decide:
 * a cluster that has never been active becomes active with its first server; a server that joins becomes a holder of data
 * (the "baseline"); a server that leaves stays one, because its disk may come back, until an operator says otherwise. So a
 * cluster that was stopped is active again when all its servers are there, and not before: an earlier one could go on
 * without what only the later ones have.
 *
 * <p>The oldest server alone asks for it, one change at a time, and again when it was refused: changes that several ask
 * for at once fail, and one that fails halfway may leave a server with a history that no other has.
 */
final class Activation {
    private final IgniteCluster cluster;
    private final Complaint complaint;

    Activation(Ignite ignite, Complaint complaint) {
        this.cluster = ignite.cluster();
        this.complaint = complaint;
    }

    /** Does what is to be done next, if it is this server's turn; to be called again and again. May wait for long. */
    void step() {
        try {
            if (!oldest()) {
                return;
            }
            String problem = cluster.state() == ClusterState.INACTIVE ? activate() : adopt();
            if (problem != null) {
                complaint.say(problem);
                return;
            }
            complaint.over();
        } catch (IgniteException e) {
            complaint.say("the cluster cannot be made active, or its holders of data changed, yet: " + e.getMessage());
        }
    }

    private boolean oldest() {
        ClusterNode first = cluster.forServers().forOldest().node();
        return first != null && first.isLocal();
    }

    private String activate() {
        Collection<BaselineNode> holders = cluster.currentBaselineTopology();
        if (holders != null) {
            List<Object> absent = holders.stream()
                    .map(BaselineNode::consistentId)
                    .filter(id -> servers().stream().noneMatch(node -> node.consistentId().equals(id)))
                    .toList();
            if (!absent.isEmpty()) {
                return "the cluster is not active: of its servers " + names(holders) + " these are not there: " + absent;
            }
        }
        cluster.state(ClusterState.ACTIVE);
        return null;
    }

    /** Servers that are here and hold nothing become holders of data. */
    private String adopt() {
        if (cluster.isBaselineAutoAdjustEnabled()) {
            return null;
        }
        Collection<BaselineNode> holders = cluster.currentBaselineTopology();
        List<BaselineNode> all = new ArrayList<>(holders == null ? List.of() : holders);
        for (ClusterNode server : servers()) {
            if (all.stream().noneMatch(holder -> holder.consistentId().equals(server.consistentId()))) {
                all.add(server);
            }
        }
        if (holders == null || all.size() > holders.size()) {
            cluster.setBaselineTopology(all);
        }
        return null;
    }

    private Collection<ClusterNode> servers() {
        return cluster.forServers().nodes();
    }

    private static List<Object> names(Collection<BaselineNode> holders) {
        return holders.stream().map(BaselineNode::consistentId).toList();
    }
}
