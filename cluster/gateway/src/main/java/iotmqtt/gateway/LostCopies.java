package iotmqtt.gateway;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.ignite.Ignite;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.processors.cache.CacheGroupContext;
import org.apache.ignite.internal.processors.cache.distributed.dht.topology.GridDhtLocalPartition;
import org.apache.ignite.internal.processors.cache.distributed.dht.topology.GridDhtPartitionState;
import org.apache.ignite.internal.processors.cache.persistence.IgniteCacheDatabaseSharedManager;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/**
 * Partitions on disk that Ignite calls lost, because every server that had them whole was gone, and that are back with those.
 *
 * <p>Told that nothing is lost, Ignite takes every copy for whole, also one that was being filled when the other was gone: what
 * it lacks would be read as absent, and removed from the other. So the copies that have fewer changes than another are given up
 * first, and filled anew.
 */
final class LostCopies {
    private static final Duration AT_MOST = Duration.ofSeconds(10);

    private final Ignite ignite;
    private final Everywhere everywhere;

    LostCopies(Ignite ignite, Everywhere everywhere) {
        this.ignite = ignite;
        this.everywhere = everywhere;
    }

    /** To be called when all servers that hold data are there. */
    void find() throws Refusal {
        List<String> lacking = ignite.cacheNames().stream()
                .filter(name -> !ignite.cache(name).lostPartitions().isEmpty())
                .toList();
        if (!lacking.isEmpty()) {
            HashMap<String, Long> most = new HashMap<>();
            for (Map<String, Long> counters : everywhere.call(new Count(), AT_MOST)) {
                counters.forEach((copy, changes) -> most.merge(copy, changes, Math::max));
            }
            everywhere.call(new GiveUp(most), AT_MOST);
            ignite.resetLostPartitions(lacking);
        }
    }

    private static void eachLost(Ignite ignite, BiConsumer<String, GridDhtLocalPartition> call) {
        for (CacheGroupContext group : ((IgniteEx) ignite).context().cache().cacheGroups()) {
            if (!group.userCache() || !group.persistenceEnabled()) {
                continue;
            }
            for (GridDhtLocalPartition copy : group.topology().currentLocalPartitions()) {
                if (copy.state() == GridDhtPartitionState.LOST) {
                    call.accept(group.groupId() + "/" + copy.id(), copy);
                }
            }
        }
    }

    /** How many changes each lost copy of a server has seen. */
    private static final class Count implements IgniteCallable<HashMap<String, Long>> {
        private static final long serialVersionUID = 1L;

        @IgniteInstanceResource
        private transient Ignite ignite;

        @Override
        public HashMap<String, Long> call() {
            HashMap<String, Long> found = new HashMap<>();
            eachLost(ignite, (name, copy) -> found.put(name, copy.updateCounter()));
            return found;
        }
    }

    /** Copies that have seen fewer are to be filled. */
    private static final class GiveUp implements IgniteCallable<Boolean> {
        private static final long serialVersionUID = 1L;

        private final HashMap<String, Long> most;

        @IgniteInstanceResource
        private transient Ignite ignite;

        GiveUp(HashMap<String, Long> most) {
            this.most = most;
        }

        @Override
        public Boolean call() {
            IgniteCacheDatabaseSharedManager database =
                    ((IgniteEx) ignite).context().cache().context().database();
            eachLost(ignite, (name, copy) -> {
                if (copy.updateCounter() < most.getOrDefault(name, 0L)) {
                    database.checkpointReadLock();
                    try {
                        copy.resetUpdateCounter();
                        copy.setState(GridDhtPartitionState.MOVING);
                    } finally {
                        database.checkpointReadUnlock();
                    }
                }
            });
            return true;
        }
    }
}
