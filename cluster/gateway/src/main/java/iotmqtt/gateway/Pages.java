package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.function.BiConsumer;
import org.apache.ignite.Ignite;
import org.apache.ignite.lang.IgniteFuture;

/**
 * Reads pages of caches in key order, and entries by their keys, many in one go: a part from each server, merged here.
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

    /** Reads; {@code done} is called once, with a page for each one wanted or with why there is none, in whatever thread. */
    void read(List<Wanted> wanted, BiConsumer<List<Page>, Exception> done) {
        attempt(new ReadJob(wanted), wanted, 1, done);
    }

    private void attempt(ReadJob job, List<Wanted> wanted, int number, BiConsumer<List<Page>, Exception> done) {
        IgniteFuture<Collection<ReadPart>> parts;
        try {
            parts = ignite.compute(ignite.cluster().forServers()).withNoFailover().broadcastAsync(job);
        } catch (RuntimeException e) {
            done.accept(null, e);
            return;
        }
        parts.listen(finished -> {
            List<Page> pages = null;
            Exception failure = null;
            try {
                Collection<ReadPart> read = finished.get();
                if (complete(read, ReadJob.groups(wanted))) {
                    pages = merge(read, wanted);
                } else {
                    failure = Refusal.notReady("the partitions are changing servers");
                }
            } catch (RuntimeException e) {
                failure = e;
            }
            if (pages == null && number < ATTEMPTS) {
                attempt(job, wanted, number + 1, done);
            } else {
                done.accept(pages, failure);
            }
        });
    }

    private static List<Page> merge(Collection<ReadPart> read, List<Wanted> wanted) {
        List<Page> pages = new ArrayList<>(wanted.size());
        int room = Page.BYTES;
        for (int i = 0; i < wanted.size(); i++) {
            int place = i;
            List<PagePart> parts =
                    read.stream().map(part -> part.pages[place]).filter(Objects::nonNull).toList();
            Page page = Page.merge(parts, wanted.get(i).most(), room);
            room -= page.bytes();
            pages.add(page);
        }
        return pages;
    }

    private boolean complete(Collection<ReadPart> parts, Collection<String> groups) {
        int group = 0;
        for (String cache : groups) {
            boolean[] read = new boolean[ignite.affinity(cache).partitions()];
            int count = 0;
            for (ReadPart part : parts) {
                if (part.partitions == null) {
                    return false;
                }
                for (int partition : part.partitions[group]) {
                    if (read[partition]) {
                        return false;
                    }
                    read[partition] = true;
                    count++;
                }
            }
            if (count != read.length) {
                return false;
            }
            group++;
        }
        return true;
    }
}
