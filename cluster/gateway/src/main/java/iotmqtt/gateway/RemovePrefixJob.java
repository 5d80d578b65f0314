package iotmqtt.gateway;

import java.util.Arrays;
import java.util.TreeSet;
import javax.cache.Cache;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.cache.query.QueryCursor;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/** Removes the entries with a prefix that a server is the primary of, some hundred at a time; says how many. */
final class RemovePrefixJob implements IgniteCallable<Integer> {
    private static final long serialVersionUID = 1L;
    private static final int AT_ONCE = 256;

    private final String cache;
    private final byte[] prefix;

    @IgniteInstanceResource
    private transient Ignite ignite;

    RemovePrefixJob(String cache, byte[] prefix) {
        this.cache = cache;
        this.prefix = prefix;
    }

    @Override
    public Integer call() {
        IgniteCache<byte[], byte[]> entries = ignite.cache(cache);
        int removed = 0;
        while (true) {
            // In key order, as every batch is: two that lock the same entries in different orders wait for each other.
            TreeSet<byte[]> keys = new TreeSet<>(Arrays::compareUnsigned);
            try (QueryCursor<Cache.Entry<byte[], byte[]>> cursor =
                    entries.query(KeyRange.query(prefix, null, AT_ONCE))) {
                for (Cache.Entry<byte[], byte[]> entry : cursor) {
                    keys.add(entry.getKey());
                    if (keys.size() == AT_ONCE) {
                        break;
                    }
                }
            }
            if (keys.isEmpty()) {
                return removed;
            }
            entries.removeAll(keys);
            removed += keys.size();
        }
    }
}
