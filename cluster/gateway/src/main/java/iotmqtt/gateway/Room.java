package iotmqtt.gateway;

import java.time.Duration;
import java.util.UUID;
import org.apache.ignite.DataRegionMetrics;
import org.apache.ignite.Ignite;
import org.apache.ignite.configuration.DataRegionConfiguration;

/**
 * Whether there is memory left for what is to be written.
 *
 * <p>A server in memory whose region is full stops, and the one that has its copies is full then, too: so commits are
 * refused before that. What is left is for removals and for the small entries that are swapped.
 */
final class Room {
    private static final String TOPIC = "iotmqtt.gateway.full";
    private static final double FULL = 0.9;
    private static final long REMEMBERED = Duration.ofSeconds(2).toNanos();

    private final Ignite ignite;
    private final boolean bounded;
    private final String region;
    private final long most;
    private volatile boolean told;
    private volatile long toldAt;

    Room(Ignite ignite) {
        DataRegionConfiguration configuration =
                ignite.configuration().getDataStorageConfiguration().getDefaultDataRegionConfiguration();
        this.ignite = ignite;
        this.bounded = !configuration.isPersistenceEnabled();
        this.region = configuration.getName();
        this.most = (long) (configuration.getMaxSize()
                * FULL
                / ignite.configuration().getDataStorageConfiguration().getPageSize());
    }

    void start() {
        ignite.message().localListen(TOPIC, this::remember);
    }

    /** Tells the others if this server is full; to be called often enough that they don't forget it. */
    void tell() {
        if (here()) {
            ignite.message().send(TOPIC, Boolean.TRUE);
        }
    }

    /** Refuses if a server is full. */
    void check() throws Refusal {
        if (here() || told && System.nanoTime() - toldAt < REMEMBERED) {
            throw Refusal.notReady("the memory of the grid is full: remove something, or give iot.ignite.region.bytes more");
        }
    }

    private boolean here() {
        if (!bounded) {
            return false;
        }
        DataRegionMetrics metrics = ignite.dataRegionMetrics(region);
        return metrics != null && metrics.getTotalUsedPages() > most;
    }

    private boolean remember(UUID server, Object full) {
        toldAt = System.nanoTime();
        told = true;
        return true;
    }
}
