package iotmqtt.gateway;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.ignite.Ignite;
import org.apache.ignite.configuration.DataStorageConfiguration;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.processors.metric.MetricRegistryImpl;
import org.apache.ignite.spi.metric.LongMetric;

/**
 * How many bytes of entries the disk of a server with persistence can hold.
 *
 * <p>What is free of it is not all for entries: Ignite allocates pages in memory and writes them with the next checkpoint,
 * and its log of changes grows up to its limit. A checkpoint that finds no space ends the server.
 *
 * <p>Nor is every page that was emptied: it is for entries of its own partition only, and others allocate pages
 * meanwhile. While all pages counted as room, a small disk that was filled and emptied again and again had less for the
 * log each time.
 */
final class Disk {
    /** Segments of the log that are archived before an older one goes. */
    private static final int AHEAD = 2;

    /** The share of all pages that can be filled before some partition needs new ones. */
    private static final double USABLE = 0.75;

    private final IgniteEx ignite;
    private final Path work;
    private final long inMemory;
    private final long logLimit;

    Disk(Ignite ignite) {
        DataStorageConfiguration storage = ignite.configuration().getDataStorageConfiguration();
        this.ignite = (IgniteEx) ignite;
        this.work = Path.of(ignite.configuration().getWorkDirectory());
        this.inMemory = storage.getDefaultDataRegionConfiguration().getMaxSize();
        this.logLimit = storage.getMaxWalArchiveSize()
                + (long) (storage.getWalSegments() + AHEAD) * storage.getWalSegmentSize();
    }

    /** Given the bytes of all pages, used or not. */
    long limit(long allocated) throws IOException {
        MetricRegistryImpl storage = ignite.context().metric().registry("io.datastorage");
        long written = storage.<LongMetric>findMetric("StorageSize").value();
        long log = storage.<LongMetric>findMetric("WalTotalSize").value();
        long free = Files.getFileStore(work).getUsableSpace();
        return limit(allocated, unwritten(allocated, written, inMemory), Math.max(0, logLimit - log), free);
    }

    /** Until the first checkpoint of this life nobody has counted the files; but there is a page in memory, or in them. */
    static long unwritten(long allocated, long written, long inMemory) {
        return Math.min(inMemory, Math.max(0, allocated - written));
    }

    /** One at least: 0 would say that it is not known. */
    static long limit(long allocated, long unwritten, long growth, long free) {
        long unusable = Math.round(Math.min(allocated, Room.LARGE) * (1 - USABLE));
        return Math.max(1, allocated - unusable + free - unwritten - growth);
    }
}
