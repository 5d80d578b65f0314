package iotmqtt.gateway;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.lang.IgniteFuture;

/** The requests that change caches: each is read from its frame completely before anything is applied. */
final class CacheWrites {
    private static final int ATTEMPTS = 10;
    private static final int SWAPS_AT_ONCE = 256;
    private static final Duration LONG = Duration.ofSeconds(60);

    private final Ignite ignite;
    private final Everywhere everywhere;
    private final Pages pages;
    private final Room room;

    CacheWrites(Ignite ignite, Everywhere everywhere, Pages pages, Room room) {
        this.ignite = ignite;
        this.everywhere = everywhere;
        this.pages = pages;
        this.room = room;
    }

    /** One cache's part of a commit, keys in order: two putAlls in different orders could wait for each other. */
    private static final class Stretch {
        final String cache;
        final TreeMap<byte[], byte[]> puts = new TreeMap<>(Arrays::compareUnsigned);
        final TreeSet<byte[]> removals = new TreeSet<>(Arrays::compareUnsigned);

        Stretch(String cache) {
            this.cache = cache;
        }
    }

    void commit(Fields fields) throws Refusal {
        boolean needed = need(fields.u8());
        List<Stretch> stretches = new ArrayList<>();
        for (int left = fields.u16(); left > 0; left--) {
            stretches.add(stretch(fields));
        }
        fields.end();
        if (stretches.stream().anyMatch(stretch -> !stretch.puts.isEmpty())) {
            room.check(needed);
        }
        for (Stretch stretch : stretches) {
            IgniteCache<byte[], byte[]> cache = ignite.cache(stretch.cache);
            if (!stretch.puts.isEmpty()) {
                cache.putAll(stretch.puts);
            }
            if (!stretch.removals.isEmpty()) {
                cache.removeAll(stretch.removals);
            }
        }
    }

    private static boolean need(int need) throws Refusal {
        if (need > 1) {
            throw Refusal.badRequest("a commit of an unknown kind, " + need);
        }
        return need == 1;
    }

    private static Stretch stretch(Fields fields) throws Refusal {
        Stretch stretch = new Stretch(cacheName(fields));
        for (long left = fields.u32(); left > 0; left--) {
            byte[] key = fields.key();
            byte[] value = fields.value();
            boolean known = value == null
                    ? stretch.puts.containsKey(key) || !stretch.removals.add(key)
                    : stretch.removals.contains(key) || stretch.puts.put(key, value) != null;
            if (known) {
                throw Refusal.badRequest("a key occurs twice in a stretch of " + stretch.cache);
            }
        }
        return stretch;
    }

    /** One compare-and-set. */
    private record Swap(String cache, byte[] key, byte[] expected, byte[] value) {}

    /**
     * Compares and sets, all at once; what became of each.
     *
     * <p>Without retries: one repeated behind the back of its caller could find what it wrote itself, and report that
     * somebody else was faster. The caller is told "not ready" and looks.
     */
    Status[] swap(Fields fields) throws Refusal {
        List<IgniteFuture<Boolean>> begun = new ArrayList<>();
        for (Swap swap : swaps(fields)) {
            begun.add(begin(swap));
        }
        Status[] results = new Status[begun.size()];
        for (int i = 0; i < results.length; i++) {
            results[i] = result(begun.get(i));
        }
        return results;
    }

    private static List<Swap> swaps(Fields fields) throws Refusal {
        List<Swap> swaps = new ArrayList<>();
        Map<String, TreeSet<byte[]>> keys = new HashMap<>();
        for (int left = fields.u16(); left > 0; left--) {
            Swap swap = new Swap(cacheName(fields), fields.key(), fields.value(), fields.value());
            if (!keys.computeIfAbsent(swap.cache, cache -> new TreeSet<>(Arrays::compareUnsigned)).add(swap.key)) {
                throw Refusal.badRequest("a key of " + swap.cache + " is swapped twice at once");
            }
            swaps.add(swap);
        }
        fields.end();
        if (swaps.size() > SWAPS_AT_ONCE) {
            throw Refusal.badRequest("more than " + SWAPS_AT_ONCE + " swaps at once");
        }
        return swaps;
    }

    /** Null: it could not be begun. */
    private IgniteFuture<Boolean> begin(Swap swap) {
        IgniteCache<byte[], byte[]> cache = ignite.<byte[], byte[]>cache(swap.cache).withNoRetries();
        try {
            if (swap.expected == null) {
                return swap.value == null
                        ? cache.containsKeyAsync(swap.key).chain(there -> !there.get())
                        : cache.putIfAbsentAsync(swap.key, swap.value);
            }
            return swap.value == null
                    ? cache.removeAsync(swap.key, swap.expected)
                    : cache.replaceAsync(swap.key, swap.expected, swap.value);
        } catch (RuntimeException e) {
            // Those that were begun before are waited for all the same.
            return null;
        }
    }

    private static Status result(IgniteFuture<Boolean> begun) {
        if (begun == null) {
            return Status.NOT_READY;
        }
        try {
            return begun.get() ? Status.DONE : Status.NOT_SWAPPED;
        } catch (RuntimeException e) {
            return Status.NOT_READY;
        }
    }

    /** Removes by prefix on every server, and looks whether there is none left: partitions may have moved meanwhile. */
    void removePrefix(Fields fields) throws Refusal {
        String cache = cacheName(fields);
        byte[] prefix = fields.key();
        fields.end();
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            everywhere.call(new RemovePrefixJob(cache, prefix), LONG);
            if (empty(cache, prefix)) {
                return;
            }
        }
        throw Refusal.notReady("entries with this prefix keep appearing in " + cache);
    }

    private boolean empty(String cache, byte[] prefix) throws Refusal {
        CompletableFuture<Page> first = new CompletableFuture<>();
        pages.read(List.of(new Wanted(cache, prefix, null, 1)), (found, failure) -> {
            if (failure == null) {
                first.complete(found.get(0));
            } else {
                first.completeExceptionally(failure);
            }
        });
        try {
            return first.get(LONG.toMillis(), TimeUnit.MILLISECONDS).keys().isEmpty();
        } catch (ExecutionException | TimeoutException e) {
            throw Refusal.notReady("cannot tell whether " + cache + " has entries left: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw Refusal.notReady("the server is stopping");
        }
    }

    static String cacheName(Fields fields) throws Refusal {
        String name = fields.text();
        if (!GridCaches.writable(name)) {
            throw Refusal.badRequest("there is no cache of this name");
        }
        return name;
    }
}
