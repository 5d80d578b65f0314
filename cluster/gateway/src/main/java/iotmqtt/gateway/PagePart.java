package iotmqtt.gateway;

import java.util.List;

/** What one server has of a page: the entries of the partitions it is the primary of. It travels between servers. */
final class PagePart {
    final byte[][] keys;
    final byte[][] values;
    final boolean more;

    /** The partitions that were read; null if they changed meanwhile. */
    final int[] partitions;

    PagePart(List<byte[]> keys, List<byte[]> values, boolean more, int[] partitions) {
        this.keys = keys.toArray(byte[][]::new);
        this.values = values.toArray(byte[][]::new);
        this.more = more;
        this.partitions = partitions;
    }
}
