package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.PriorityQueue;

/** Entries in the order of their keys, and whether there may be others behind them. */
record Page(List<byte[]> keys, List<byte[]> values, boolean more) {
    /** An answer ends when it has this many bytes: with any entry it fits in a frame. */
    static final int BYTES = 1 << 20;

    /** The parts of several servers as one page of up to {@code room} bytes, the last entry aside. */
    static Page merge(Collection<PagePart> parts, int limit, int room) {
        PriorityQueue<Reading> next = new PriorityQueue<>((a, b) -> Arrays.compareUnsigned(a.key(), b.key()));
        boolean more = false;
        for (PagePart part : parts) {
            if (part.keys.length > 0) {
                next.add(new Reading(part));
            } else if (part.more) {
                return new Page(List.of(), List.of(), true);
            }
        }
        List<byte[]> keys = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        int bytes = 0;
        while (!next.isEmpty()) {
            if (keys.size() == limit || bytes >= room) {
                more = true;
                break;
            }
            Reading reading = next.poll();
            keys.add(reading.key());
            values.add(reading.value());
            bytes += reading.key().length + reading.value().length;
            if (reading.advance()) {
                next.add(reading);
            } else if (reading.part.more) {
                // What that server has next is unknown, and may come before what the others have.
                more = true;
                break;
            }
        }
        return new Page(keys, values, more);
    }

    int bytes() {
        int bytes = 0;
        for (int i = 0; i < keys.size(); i++) {
            bytes += keys.get(i).length + values.get(i).length;
        }
        return bytes;
    }

    /** How far a part has been read. */
    private static final class Reading {
        private final PagePart part;
        private int at;

        Reading(PagePart part) {
            this.part = part;
        }

        byte[] key() {
            return part.keys[at];
        }

        byte[] value() {
            return part.values[at];
        }

        boolean advance() {
            return ++at < part.keys.length;
        }
    }
}
