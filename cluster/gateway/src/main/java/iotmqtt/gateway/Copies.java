package iotmqtt.gateway;

import org.apache.ignite.Ignite;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.processors.cache.CacheGroupContext;

/**
 * How many partitions have fewer copies than they should: as long as there are any, no further server may be lost.
 *
 * <p>A copy counts when it is complete. Ignite's public interfaces say on which servers copies are to be, not on which they
 * are already, so this asks the map that the servers exchange; it lags behind the truth by having fewer copies.
 */
final class Copies {
    private final IgniteEx ignite;

    Copies(Ignite ignite) {
        this.ignite = (IgniteEx) ignite;
    }

    /** -1: nobody can tell. @param alone there was never another server: one copy of everything is all there can be */
    int missing(boolean alone) {
        if (!ignite.cluster().state().active()) {
            return Topology.UNKNOWN;
        }
        int servers = ignite.cluster().forServers().nodes().size();
        int missing = 0;
        for (CacheGroupContext group : ignite.context().cache().cacheGroups()) {
            if (!group.userCache()) {
                continue;
            }
            boolean replicated = group.isReplicated();
            int wanted = alone ? 1 : replicated ? servers : group.config().getBackups() + 1;
            for (int partition = 0; partition < group.affinity().partitions(); partition++) {
                if (group.topology().owners(partition).size() < wanted) {
                    missing++;
                }
            }
        }
        return missing;
    }
}
