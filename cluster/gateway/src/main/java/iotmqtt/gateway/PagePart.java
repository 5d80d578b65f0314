package iotmqtt.gateway;

import java.util.List;

/** What one server has of a page: the entries of the partitions it is the primary of. It travels between servers. */
final class PagePart {
    /** Nobody looked: the answer was full before. */
    static final PagePart UNREAD = new PagePart(List.of(), List.of(), true);

    final byte[][] keys;
    final byte[][] values;
    final boolean more;

    PagePart(List<byte[]> keys, List<byte[]> values, boolean more) {
        this.keys = keys.toArray(byte[][]::new);
        this.values = values.toArray(byte[][]::new);
        this.more = more;
    }
}
