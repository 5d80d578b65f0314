package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.ignite.IgniteCluster;
import org.apache.ignite.IgniteLogger;
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
 */
final class Activation {
    private static final int ATTEMPTS = 10;

    private final IgniteCluster cluster;
    private final IgniteLogger log;

    Activation(IgniteCluster cluster, IgniteLogger log) {
        this.cluster = cluster;
        this.log = log;
    }

    void run() {
        if (cluster.state() == ClusterState.INACTIVE) {
            Collection<BaselineNode> holders = cluster.currentBaselineTopology();
            if (holders != null && !present(holders)) {
                log.warning("the cluster is not active: of its servers " + names(holders) + " are not all there");
                return;
            }
            cluster.state(ClusterState.ACTIVE);
        }
        if (!cluster.isBaselineAutoAdjustEnabled()) {
            join();
        }
    }

    /** Two servers that join at once may overwrite each other's decision; so each looks whether it is in. */
    private void join() {
        ClusterNode self = cluster.localNode();
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            Collection<BaselineNode> holders = cluster.currentBaselineTopology();
            if (holders != null && contains(holders, self)) {
                return;
            }
            List<BaselineNode> all = new ArrayList<>(holders == null ? List.of() : holders);
            all.add(self);
            cluster.setBaselineTopology(all);
        }
        log.warning("this server holds no data: it could not join the baseline");
    }

    private boolean present(Collection<BaselineNode> holders) {
        return holders.stream()
                .allMatch(holder -> cluster.forServers().nodes().stream()
                        .anyMatch(node -> node.consistentId().equals(holder.consistentId())));
    }

    private static boolean contains(Collection<BaselineNode> holders, ClusterNode node) {
        return holders.stream().anyMatch(holder -> holder.consistentId().equals(node.consistentId()));
    }

    private static List<Object> names(Collection<BaselineNode> holders) {
        return holders.stream().map(BaselineNode::consistentId).toList();
    }
}
