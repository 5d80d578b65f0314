package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.List;

/** What is to be read of a cache: a page of it or, with a limit of 0, one entry. It travels between servers. */
final class Wanted {
    private static final int LONGEST_PAGE = 1 << 16;

    final String cache;

    /** What keys start with; of one entry, its key. */
    final byte[] prefix;

    /** Null for "from the first one". */
    final byte[] after;

    final int limit;

    Wanted(String cache, byte[] prefix, byte[] after, int limit) {
        this.cache = cache;
        this.prefix = prefix;
        this.after = after;
        this.limit = limit;
    }

    static List<Wanted> several(Fields fields) throws Refusal {
        List<Wanted> wanted = new ArrayList<>();
        for (int left = fields.u16(); left > 0; left--) {
            String cache = CacheWrites.cacheName(fields);
            wanted.add(new Wanted(
                    cache, fields.key(), fields.value(), (int) Math.min(fields.u32(), LONGEST_PAGE)));
        }
        fields.end();
        if (wanted.isEmpty()) {
            throw Refusal.badRequest("nothing is wanted");
        }
        return wanted;
    }

    boolean single() {
        return limit == 0;
    }

    int most() {
        return Math.max(limit, 1);
    }

    /** Whether there can be no such entry; Ignite would call such a range an error. */
    boolean impossible() {
        return KeyRange.empty(prefix, after);
    }
}
