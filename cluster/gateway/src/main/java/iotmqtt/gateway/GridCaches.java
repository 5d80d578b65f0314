package iotmqtt.gateway;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.ignite.cache.CacheAtomicityMode;
import org.apache.ignite.cache.CacheMode;
import org.apache.ignite.cache.CacheRebalanceMode;
import org.apache.ignite.cache.CacheWriteSynchronizationMode;
import org.apache.ignite.cache.PartitionLossPolicy;
import org.apache.ignite.cache.QueryEntity;
import org.apache.ignite.cache.affinity.rendezvous.RendezvousAffinityFunction;
import org.apache.ignite.configuration.CacheConfiguration;
import org.apache.ignite.configuration.TopologyValidator;

/**
 * The caches of the grid: one for each name in {@code iot_mqtt/ports/grid.py}, and the fences.
 *
 * <p>They are configured here rather than in the XML file so that servers and tests have the same ones, and because
 * they differ in nothing an operator would choose except the number of backups.
 */
public final class GridCaches {
    /** What the name of every cache begins with. */
    public static final String PREFIX = "iot_";

    /** The cache of the fences: see {@link Fences}. */
    public static final String FENCES = PREFIX + "fences";

    /** The table SQL sees; its schema is the cache's name. For looking into a cache by hand. */
    private static final String TABLE = "ENTRIES";

    /** The index every table has; {@link KeyRange} asks it. */
    static final String INDEX = "_key_PK";

    /**
     * Few, because each costs memory and a line in every exchange between the servers, and enough for a dozen servers to
     * have an even share.
     */
    private static final int PARTITIONS = 64;

    /** Bytes of a key that lie in the index itself; a longer key is compared by fetching its entry. */
    private static final int INLINE = 64;

    /** The protocol writes a key's length in two bytes. */
    private static final int LONGEST_KEY = 0xFFFF;

    private static final List<String> SMALL = List.of(
            "meta", "sessions", "channels", "subscriptions", "routes", "retained", "queue", "dup", "pubrel", "received",
            "wills", "log_meta", "log_turns", "progress", "segments", "groups", "shares", "devices", "shadows", "commands",
            "plugins");

    /** Large values, in a group of their own. */
    private static final List<String> LARGE = List.of("log", "log_index");

    private static final Set<String> NAMES = Set.copyOf(
            Stream.concat(SMALL.stream(), LARGE.stream()).map(name -> PREFIX + name).toList());

    private static final String GROUP = "iot";
    private static final String LARGE_GROUP = "iot_pages";

    private GridCaches() {}

    /** The group of a writable cache: one group has one set of partitions. */
    static String group(String name) {
        return LARGE.contains(name.substring(PREFIX.length())) ? LARGE_GROUP : GROUP;
    }

    /** Whether a broker may write to the cache of this name. */
    static boolean writable(String name) {
        return NAMES.contains(name);
    }

    /**
     * Every cache's configuration; {@code ignite-server.xml} calls this.
     *
     * @param backups how many further servers hold a copy of each entry
     * @param quorum with fewer servers than this nothing is changed
     */
    public static CacheConfiguration<?, ?>[] configurations(int backups, int quorum) {
        TopologyValidator enough = new EnoughServers(quorum);
        return Stream.of(
                        SMALL.stream().map(name -> partitioned(name, GROUP, backups)),
                        LARGE.stream().map(name -> partitioned(name, LARGE_GROUP, backups)),
                        Stream.of(fences()))
                .flatMap(caches -> caches)
                .map(cache -> cache.setTopologyValidator(enough))
                .toArray(CacheConfiguration<?, ?>[]::new);
    }

    private static CacheConfiguration<byte[], byte[]> partitioned(String name, String group, int backups) {
        return indexed(GridCaches.<byte[], byte[]>safe(PREFIX + name))
                .setCacheMode(CacheMode.PARTITIONED)
                .setBackups(backups)
                // One group has one set of partitions, whose map the servers exchange once for all its caches.
                .setGroupName(group);
    }

    private static CacheConfiguration<Integer, Long> fences() {
        return GridCaches.<Integer, Long>safe(FENCES).setCacheMode(CacheMode.REPLICATED);
    }

    /** What is common: a write is answered when every copy has it, and a lost partition is an error, not an absence. */
    private static <K, V> CacheConfiguration<K, V> safe(String name) {
        return new CacheConfiguration<K, V>(name)
                .setAtomicityMode(CacheAtomicityMode.ATOMIC)
                .setWriteSynchronizationMode(CacheWriteSynchronizationMode.FULL_SYNC)
                .setPartitionLossPolicy(PartitionLossPolicy.READ_WRITE_SAFE)
                .setRebalanceMode(CacheRebalanceMode.ASYNC)
                .setAffinity(new RendezvousAffinityFunction(false, PARTITIONS));
    }

    /** With the keys in an ordered index on every server: pages are read from it, and prefixes removed by it. */
    private static CacheConfiguration<byte[], byte[]> indexed(CacheConfiguration<byte[], byte[]> cache) {
        QueryEntity entity = new QueryEntity(byte[].class.getName(), byte[].class.getName())
                .setTableName(TABLE)
                .setKeyFieldName("K")
                .setValueFieldName("V")
                .addQueryField("K", byte[].class.getName(), null)
                .addQueryField("V", byte[].class.getName(), null)
                // No limit in truth, but without one the index holds ten bytes of a key whatever INLINE says.
                .setFieldsPrecision(Map.of("K", LONGEST_KEY));
        return cache.setQueryEntities(List.of(entity)).setSqlIndexMaxInlineSize(INLINE);
    }
}
