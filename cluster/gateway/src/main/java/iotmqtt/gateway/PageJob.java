package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.cache.Cache;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.cache.affinity.Affinity;
import org.apache.ignite.cache.query.QueryCursor;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/** Reads a server's part of a page. */
final class PageJob implements IgniteCallable<PagePart> {
    private static final long serialVersionUID = 1L;
    private static final int FEW = 512;

    private final String cache;
    private final byte[] prefix;
    private final byte[] after;
    private final int limit;

    @IgniteInstanceResource
    private transient Ignite ignite;

    PageJob(String cache, byte[] prefix, byte[] after, int limit) {
        this.cache = cache;
        this.prefix = prefix;
        this.after = after;
        this.limit = limit;
    }

    @Override
    public PagePart call() {
        IgniteCache<byte[], byte[]> entries = ignite.cache(cache);
        if (!entries.lostPartitions().isEmpty()) {
            throw new IllegalStateException("partitions of " + cache + " are lost with the servers that had them");
        }
        int[] before = primary();
        List<byte[]> keys = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        boolean more = false;
        int bytes = 0;
        try (QueryCursor<Cache.Entry<byte[], byte[]>> cursor =
                entries.query(KeyRange.query(prefix, after, Math.min(limit, FEW)))) {
            for (Cache.Entry<byte[], byte[]> entry : cursor) {
                if (keys.size() == limit || bytes >= Page.BYTES) {
                    more = true;
                    break;
                }
                byte[] value = entry.getValue();
                keys.add(entry.getKey());
                values.add(value);
                bytes += entry.getKey().length + value.length;
            }
        }
        return new PagePart(keys, values, more, Arrays.equals(before, primary()) ? before : null);
    }

    private int[] primary() {
        Affinity<byte[]> affinity = ignite.affinity(cache);
        int[] partitions = affinity.primaryPartitions(ignite.cluster().localNode());
        Arrays.sort(partitions);
        return partitions;
    }
}
