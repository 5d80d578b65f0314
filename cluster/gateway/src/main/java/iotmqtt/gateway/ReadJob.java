package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.cache.Cache;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.cache.CachePeekMode;
import org.apache.ignite.cache.affinity.Affinity;
import org.apache.ignite.cache.query.QueryCursor;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/** Reads a server's part of all that is wanted. */
final class ReadJob implements IgniteCallable<ReadPart> {
    private static final long serialVersionUID = 1L;
    private static final int FEW = 512;

    private final Wanted[] wanted;

    @IgniteInstanceResource
    private transient Ignite ignite;

    ReadJob(List<Wanted> wanted) {
        this.wanted = wanted.toArray(Wanted[]::new);
    }

    /** One cache of each group that is read: the caches of a group have the same partitions, on the same servers. */
    static Collection<String> groups(Iterable<Wanted> wanted) {
        Map<String, String> groups = new LinkedHashMap<>();
        for (Wanted one : wanted) {
            groups.putIfAbsent(GridCaches.group(one.cache), one.cache);
        }
        return groups.values();
    }

    @Override
    public ReadPart call() {
        Collection<String> groups = groups(Arrays.asList(wanted));
        for (String cache : groups) {
            if (!ignite.cache(cache).lostPartitions().isEmpty()) {
                throw new IllegalStateException("partitions of " + cache + " are lost with the servers that had them");
            }
        }
        int[][] before = primary(groups);
        PagePart[] pages = new PagePart[wanted.length];
        int bytes = 0;
        for (int i = 0; i < wanted.length; i++) {
            pages[i] = bytes >= Page.BYTES ? PagePart.UNREAD : page(wanted[i], Page.BYTES - bytes);
            bytes += size(pages[i]);
        }
        return new ReadPart(pages, Arrays.deepEquals(before, primary(groups)) ? before : null);
    }

    private PagePart page(Wanted one, int room) {
        IgniteCache<byte[], byte[]> entries = ignite.cache(one.cache);
        if (one.single()) {
            byte[] value = entries.localPeek(one.prefix, CachePeekMode.PRIMARY);
            return value == null ? null : new PagePart(List.of(one.prefix), List.of(value), false);
        }
        // Several of the caches that a session is in are mostly empty, and a query costs far more than looking.
        if (one.impossible() || entries.localSizeLong(CachePeekMode.PRIMARY) == 0) {
            return null;
        }
        List<byte[]> keys = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        boolean more = false;
        int bytes = 0;
        try (QueryCursor<Cache.Entry<byte[], byte[]>> cursor =
                entries.query(KeyRange.query(one.prefix, one.after, Math.min(one.limit, FEW)))) {
            for (Cache.Entry<byte[], byte[]> entry : cursor) {
                if (keys.size() == one.limit || bytes >= room) {
                    more = true;
                    break;
                }
                byte[] value = entry.getValue();
                keys.add(entry.getKey());
                values.add(value);
                bytes += entry.getKey().length + value.length;
            }
        }
        return keys.isEmpty() ? null : new PagePart(keys, values, more);
    }

    private static int size(PagePart part) {
        int bytes = 0;
        if (part != null) {
            for (int i = 0; i < part.keys.length; i++) {
                bytes += part.keys[i].length + part.values[i].length;
            }
        }
        return bytes;
    }

    private int[][] primary(Collection<String> groups) {
        return groups.stream().map(this::primary).toArray(int[][]::new);
    }

    private int[] primary(String cache) {
        Affinity<byte[]> affinity = ignite.affinity(cache);
        int[] partitions = affinity.primaryPartitions(ignite.cluster().localNode());
        Arrays.sort(partitions);
        return partitions;
    }
}
