package iotmqtt.gateway;

/** What one server has of all that is wanted. It travels between servers. */
final class ReadPart {
    /** In the order in which they are wanted; null: nothing. */
    final PagePart[] pages;

    /** The partitions that were read of each group of caches, in the order of {@link ReadJob#groups}; null: they changed. */
    final int[][] partitions;

    ReadPart(PagePart[] pages, int[][] partitions) {
        this.pages = pages;
        this.partitions = partitions;
    }
}
