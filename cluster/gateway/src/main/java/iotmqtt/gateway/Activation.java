package iotmqtt.gateway;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCluster;
import org.apache.ignite.IgniteException;
import org.apache.ignite.cluster.BaselineNode;
import org.apache.ignite.cluster.ClusterNode;
import org.apache.ignite.cluster.ClusterState;
import org.apache.ignite.internal.util.typedef.internal.CU;

/**
 * Makes a cluster that keeps its data on disk active, and its servers holders of data.
 *
 * <p>Ignite does both by itself for a cluster in memory. With persistence it waits for somebody to decide, and we decide:
 * a cluster that has never been active becomes active when a quorum of servers is there; a server that joins becomes a holder of data
 * (the "baseline"); a server that leaves stays one, because its disk may come back, until an operator says otherwise. So a
 * cluster that was stopped is active again when all its servers are there, and not before: an earlier one could go on
 * without what only the later ones have.
 *
 * <p>What Ignite calls lost, since all servers that had it whole were gone, stays so until somebody says otherwise: that is
 * said when all holders of data are back, by {@link LostCopies}.
 *
 * <p>The oldest server alone asks for it, one change at a time, and again when it was refused: changes that several ask
 * for at once fail, and one that fails halfway may leave a server with a history that no other has. It waits until no server
 * has come or gone for a moment: servers that are started together become holders together.
 */
final class Activation {
    private static final Duration CALM = Duration.ofSeconds(1);

    private final IgniteCluster cluster;
    private final LostCopies lost;
    private final Complaint complaint;
    private final Quorum quorum;
    private final LongSupplier nanoTime;
    private final boolean needed;
    private Set<Object> seen = Set.of();
    private long seenSince;
    private volatile String problem;

    Activation(Ignite ignite, LostCopies lost, Complaint complaint, Quorum quorum, LongSupplier nanoTime) {
        this.lost = lost;
        this.cluster = ignite.cluster();
        this.complaint = complaint;
        this.quorum = quorum;
        this.nanoTime = nanoTime;
        this.needed = CU.isPersistenceEnabled(ignite.configuration());
        this.seenSince = nanoTime.getAsLong();
    }

    /** Refuses, with the reason, while the cluster is not active. */
    void check() throws Refusal {
        if (cluster.state() == ClusterState.INACTIVE) {
            String reason = problem;
            throw Refusal.notReady(reason == null ? "the cluster is not active yet" : reason);
        }
    }

    /** Does what is to be done next, if it is this server's turn; to be called again and again. May wait for long. */
    void step() {
        if (!needed) {
            return;
        }
        try {
            boolean inactive = cluster.state() == ClusterState.INACTIVE;
            problem = inactive ? absent() : null;
            if (problem != null) {
                complaint.say(problem);
            } else if (calm() && oldest()) {
                if (inactive) {
                    cluster.state(ClusterState.ACTIVE);
                } else {
                    adopt();
                    if (absent() == null) {
                        lost.find();
                    }
                }
                complaint.over();
            }
        } catch (IgniteException | Refusal e) {
            complaint.say("the cluster cannot be made active, or its holders of data changed, yet: " + e.getMessage());
        }
    }

    /** Whether the same servers have been there for a moment. */
    private boolean calm() {
        Set<Object> now = servers().stream().map(ClusterNode::id).collect(Collectors.toSet());
        if (!now.equals(seen)) {
            seen = now;
            seenSince = nanoTime.getAsLong();
        }
        return nanoTime.getAsLong() - seenSince >= CALM.toNanos();
    }

    private boolean oldest() {
        ClusterNode first = cluster.forServers().forOldest().node();
        return first != null && first.isLocal();
    }

    /** Who has to come before the cluster becomes active; null: nobody. */
    private String absent() {
        Collection<BaselineNode> holders = cluster.currentBaselineTopology();
        if (holders == null) {
            int there = servers().size();
            return quorum.enough(there) ? null : "the cluster is not active yet: it has " + there + " servers";
        }
        List<Object> absent = holders.stream()
                .map(BaselineNode::consistentId)
                .filter(id -> servers().stream().noneMatch(node -> node.consistentId().equals(id)))
                .toList();
        return absent.isEmpty()
                ? null
                : "the cluster is not active: of its servers " + names(holders) + " these are not there: " + absent;
    }

    /** Servers that are here and hold nothing become holders of data. */
    private void adopt() {
        if (cluster.isBaselineAutoAdjustEnabled()) {
            return;
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
    }

    private Collection<ClusterNode> servers() {
        return cluster.forServers().nodes();
    }

    private static List<Object> names(Collection<BaselineNode> holders) {
        return holders.stream().map(BaselineNode::consistentId).toList();
    }
}
