package iotmqtt.gateway;

import java.util.Collection;
import java.util.List;
import java.util.function.BiConsumer;
import org.apache.ignite.Ignite;
import org.apache.ignite.lang.IgniteFuture;

/**
 * Reads pages of a cache in key order: a part from each server, merged here.
 *
 * <p>The servers read the partitions they are the primaries of. While partitions change their primaries one could be read
 * by two servers or by none, so the parts say what was read, and a page is one only if that was each partition once.
 */
final class Pages {
    private static final int ATTEMPTS = 5;

    private final Ignite ignite;

    Pages(Ignite ignite) {
        this.ignite = ignite;
    }

    /** Reads a page; {@code done} is called once with it or with why there is none, in whatever thread. */
    void read(String cache, byte[] prefix, byte[] after, int limit, BiConsumer<Page, Exception> done) {
        if (KeyRange.empty(prefix, after)) {
            done.accept(new Page(List.of(), List.of(), false), null);
            return;
        }
        attempt(new PageJob(cache, prefix, after, limit), cache, limit, 1, done);
    }

    private void attempt(PageJob job, String cache, int limit, int number, BiConsumer<Page, Exception> done) {
        IgniteFuture<Collection<PagePart>> parts;
        try {
            parts = ignite.compute(ignite.cluster().forServers()).withNoFailover().broadcastAsync(job);
        } catch (RuntimeException e) {
            done.accept(null, e);
            return;
        }
        parts.listen(finished -> {
            Page page = null;
            Exception failure = null;
            try {
                Collection<PagePart> read = finished.get();
                if (complete(read, cache)) {
                    page = Page.merge(read, limit);
                } else {
                    failure = Refusal.notReady("the partitions of " + cache + " are changing servers");
                }
            } catch (RuntimeException e) {
                failure = e;
            }
            if (page == null && number < ATTEMPTS) {
                attempt(job, cache, limit, number + 1, done);
            } else {
                done.accept(page, failure);
            }
        });
    }

    private boolean complete(Collection<PagePart> parts, String cache) {
        boolean[] read = new boolean[ignite.affinity(cache).partitions()];
        int count = 0;
        for (PagePart part : parts) {
            if (part.partitions == null) {
                return false;
            }
            for (int partition : part.partitions) {
                if (read[partition]) {
                    return false;
                }
                read[partition] = true;
                count++;
            }
        }
        return count == read.length;
    }
}
