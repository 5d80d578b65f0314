package iotmqtt.gateway;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.ignite.DataRegionMetrics;
import org.apache.ignite.Ignite;
import org.apache.ignite.configuration.CacheConfiguration;
import org.apache.ignite.configuration.DataRegionConfiguration;

/**
 * How much room the servers have left, and which commits may use it.
 *
 * <p>A server whose memory is full stops, and the one that has its copies is full then, too. So there are three marks:
 *
 * <pre>
 *   0 ────────── OFFERED ────────── DATA ────────── NEEDED ── full
 *    nodes take          commits that    what nodes go on    removals and
 *    what is published   were under way  and make room with  fences only
 * </pre>
 *
 * <p>The nodes are told how much of what is offered is used, and refuse what is published beyond it. Servers tell each
 * other: an entry is on several, and the fullest of all counts. With persistence the disk is the limit.
 */
final class Room {
    private static final String TOPIC = "iotmqtt.gateway.room";
    private static final double OFFERED = 0.80;
    private static final double DATA = 0.92;
    private static final double NEEDED = 0.98;

    /** Of a large disk no more than this share of so many bytes is left alone. */
    static final long LARGE = 4L << 30;

    private static final long REMEMBERED = Duration.ofSeconds(3).toNanos();
    private static final long TELL_AFTER = Duration.ofSeconds(1).toNanos();

    /** A change by this share of the limit is told at once. */
    private static final int NOTABLE = 512;

    private final Ignite ignite;
    private final Connections connections;
    private final boolean persistent;
    private final long size;
    private final long pageSize;
    private final String region;
    private final int copies;
    private final Disk disk;
    private final Map<UUID, Heard> others = new ConcurrentHashMap<>();
    private volatile Use here;
    private volatile Told told = new Told(new Use(0, 0), 0);
    private long toldAt = System.nanoTime() - TELL_AFTER;

    /** Bytes that are used, and that there may be. */
    record Use(long used, long limit) {
        boolean exceeds(double share) {
            return limit > 0 && used > limit - slack(share);
        }

        long offered() {
            return Math.max(0, limit - slack(OFFERED));
        }

        private long slack(double share) {
            return Math.round(Math.min(limit, LARGE) * (1 - share));
        }

        boolean fullerThan(Use other) {
            return (double) used / Math.max(1, limit) > (double) other.used / Math.max(1, other.limit);
        }
    }

    private record Heard(Use use, long at) {}

    /** What nodes were told last. */
    private record Told(Use fullest, long capacity) {
        boolean differsFrom(Told other) {
            long notable = Math.max(1, fullest.limit / NOTABLE);
            return Math.abs(fullest.used - other.fullest.used) >= notable
                    || Math.abs(fullest.limit - other.fullest.limit) >= notable
                    || Math.abs(capacity - other.capacity) >= notable;
        }
    }

    Room(Ignite ignite, Connections connections) {
        DataRegionConfiguration configuration =
                ignite.configuration().getDataStorageConfiguration().getDefaultDataRegionConfiguration();
        this.ignite = ignite;
        this.connections = connections;
        this.persistent = configuration.isPersistenceEnabled();
        this.region = configuration.getName();
        this.size = configuration.getMaxSize();
        this.pageSize = ignite.configuration().getDataStorageConfiguration().getPageSize();
        this.copies = Stream.of(ignite.configuration().getCacheConfiguration())
                        .filter(cache -> cache.getName().equals(GridCaches.PREFIX + "log"))
                        .mapToInt(CacheConfiguration::getBackups)
                        .findAny()
                        .orElse(0)
                + 1;
        this.disk = new Disk(ignite);
        this.here = look();
    }

    void start() {
        ignite.message().localListen(TOPIC, this::remember);
    }

    /** Looks, and tells the other servers and the nodes; to be called several times a second. */
    void beat() {
        Use use = here = look();
        long now = System.nanoTime();
        Told next = new Told(fullest(use, now), capacity(use, now));
        if (now - toldAt < TELL_AFTER && !next.differsFrom(told)) {
            return;
        }
        toldAt = now;
        told = next;
        Outgoing frame = frame();
        connections.all().forEach(connection -> connection.topology(frame));
        ignite.message().send(TOPIC, new long[] {use.used, use.limit});
    }

    /** What a connection is welcomed with. */
    Outgoing frame() {
        Told present = told;
        return Outgoing.room(present.fullest.used, present.fullest.offered(), present.capacity);
    }

    /** Refuses if a server is too full for a commit that puts something. */
    void check(boolean needed) throws Refusal {
        if (here.exceeds(needed ? NEEDED : DATA) || told.fullest.exceeds(needed ? NEEDED : DATA)) {
            throw Refusal.notReady("the " + (persistent ? "disk" : "memory")
                    + " of the grid is full: remove something, or give "
                    + (persistent ? "it a larger one" : "iot.ignite.region.bytes more"));
        }
    }

    private Use fullest(Use own, long now) {
        Use fullest = own;
        for (Heard heard : others.values()) {
            if (now - heard.at < REMEMBERED && heard.use.fullerThan(fullest)) {
                fullest = heard.use;
            }
        }
        return fullest;
    }

    /** How many bytes of entries the servers can offer, each counted once however many have it. */
    private long capacity(Use own, long now) {
        others.entrySet().removeIf(other -> now - other.getValue().at >= REMEMBERED);
        long offered = own.offered();
        for (Heard heard : others.values()) {
            offered += heard.use.offered();
        }
        return offered / Math.min(copies, others.size() + 1);
    }

    private Use look() {
        DataRegionMetrics metrics = ignite.dataRegionMetrics(region);
        if (metrics == null) {
            return new Use(0, persistent ? 0 : size);
        }
        long used = metrics.getTotalUsedPages() * pageSize;
        if (!persistent) {
            return new Use(used, size);
        }
        try {
            return new Use(used, disk.limit(Math.max(used, metrics.getTotalAllocatedPages() * pageSize)));
        } catch (IOException e) {
            return new Use(used, 0);
        }
    }

    private boolean remember(UUID server, Object use) {
        if (!server.equals(ignite.cluster().localNode().id())) {
            long[] told = (long[]) use;
            others.put(server, new Heard(new Use(told[0], told[1]), System.nanoTime()));
        }
        return true;
    }
}
