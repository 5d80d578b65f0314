package iotmqtt.gateway;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;

/**
 * A frame to send: what stands before the payload, and the payload as it came.
 *
 * <p>A message for several receivers is one object in all their queues; nothing of it is copied.
 */
record Outgoing(byte[] head, byte[] body) {
    /** What a frame costs beside its bytes, roughly: the object, its place in a queue. */
    static final int OVERHEAD = 64;

    private static final byte[] NOTHING = {};
    private static final int PREFIX = 5;
    private static final int LONGEST_TEXT = 1000;

    int weight() {
        return head.length + body.length + OVERHEAD;
    }

    void write(OutputStream out) throws IOException {
        out.write(head);
        out.write(body);
    }

    static Outgoing welcome(UUID server, int longestFrame) {
        return new Outgoing(
                head(Op.WELCOME, 21)
                        .put((byte) Op.VERSION)
                        .putLong(server.getMostSignificantBits())
                        .putLong(server.getLeastSignificantBits())
                        .putInt(longestFrame)
                        .array(),
                NOTHING);
    }

    static Outgoing refused(Status status, String reason) {
        byte[] text = text(reason);
        return new Outgoing(
                head(Op.REFUSED, 3 + text.length).put((byte) status.code).putShort((short) text.length).put(text).array(),
                NOTHING);
    }

    static Outgoing done(int id, Status status, String detail) {
        byte[] text = text(detail);
        return new Outgoing(
                head(Op.DONE, 7 + text.length)
                        .putInt(id)
                        .put((byte) status.code)
                        .putShort((short) text.length)
                        .put(text)
                        .array(),
                NOTHING);
    }

    static Outgoing swapped(int id, Status[] results) {
        ByteBuffer frame = head(Op.SWAPPED, 6 + results.length).putInt(id).putShort((short) results.length);
        for (Status result : results) {
            frame.put((byte) result.code);
        }
        return new Outgoing(frame.array(), NOTHING);
    }

    /** @param message a SEND's body, which a DELIVER's is equal to */
    static Outgoing deliver(byte[] message) {
        return new Outgoing(
                ByteBuffer.allocate(PREFIX).putInt(1 + message.length).put((byte) Op.DELIVER).array(), message);
    }

    /** @param missing copies; -1: not known */
    static Outgoing topology(long version, int servers, int missing) {
        return new Outgoing(
                head(Op.TOPOLOGY, 14)
                        .putLong(version)
                        .putShort((short) servers)
                        .putInt(missing)
                        .array(),
                NOTHING);
    }

    /** Bytes: of the fullest server what is used and what it offers, and what all offer together. */
    static Outgoing room(long used, long offered, long capacity) {
        return new Outgoing(
                head(Op.ROOM, 24).putLong(used).putLong(offered).putLong(capacity).array(), NOTHING);
    }

    static Outgoing found(int id, List<Page> pages) {
        int length = 6;
        for (Page page : pages) {
            length += 5 + 6 * page.keys().size() + page.bytes();
        }
        ByteBuffer frame = head(Op.FOUND, length).putInt(id).putShort((short) pages.size());
        for (Page page : pages) {
            List<byte[]> keys = page.keys();
            frame.put((byte) (page.more() ? 1 : 0)).putInt(keys.size());
            for (int i = 0; i < keys.size(); i++) {
                byte[] key = keys.get(i);
                byte[] value = page.values().get(i);
                frame.putShort((short) key.length).put(key).putInt(value.length).put(value);
            }
        }
        return new Outgoing(frame.array(), NOTHING);
    }

    private static ByteBuffer head(int op, int length) {
        return ByteBuffer.allocate(PREFIX + length).putInt(1 + length).put((byte) op);
    }

    private static byte[] text(String text) {
        return (text.length() > LONGEST_TEXT ? text.substring(0, LONGEST_TEXT) : text).getBytes(StandardCharsets.UTF_8);
    }
}
