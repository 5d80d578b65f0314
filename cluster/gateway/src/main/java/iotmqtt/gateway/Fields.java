package iotmqtt.gateway;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * The fields of a received frame's body, read one after another.
 *
 * <p>A field is allocated only after its length was compared with what is left of the body, so a frame never costs more
 * than its own length.
 */
final class Fields {
    /** A length that says "no value". */
    static final int NONE = 0xFFFFFFFF;

    private final ByteBuffer rest;

    Fields(byte[] body) {
        rest = ByteBuffer.wrap(body);
    }

    int u8() throws Refusal {
        need(1);
        return Byte.toUnsignedInt(rest.get());
    }

    int u16() throws Refusal {
        need(2);
        return Short.toUnsignedInt(rest.getShort());
    }

    int i32() throws Refusal {
        need(4);
        return rest.getInt();
    }

    long u32() throws Refusal {
        return Integer.toUnsignedLong(i32());
    }

    /** Eight bytes unsigned, of which we use the lower half: a life that began 2^63 times is a mistake. */
    long u63() throws Refusal {
        need(8);
        long value = rest.getLong();
        if (value < 0) {
            throw Refusal.badRequest("a number of 2^63 or more");
        }
        return value;
    }

    String text() throws Refusal {
        int length = u16();
        need(length);
        ByteBuffer utf8 = rest.slice(rest.position(), length);
        rest.position(rest.position() + length);
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(utf8).toString();
        } catch (CharacterCodingException e) {
            throw Refusal.badRequest("a text that is not UTF-8");
        }
    }

    byte[] key() throws Refusal {
        return take(u16());
    }

    /** A value, or null for "none". */
    byte[] value() throws Refusal {
        int length = i32();
        return length == NONE ? null : take(length);
    }

    /** Passes over bytes without taking them out. */
    void skipBytes() throws Refusal {
        int length = i32();
        need(length);
        rest.position(rest.position() + length);
    }

    void end() throws Refusal {
        if (rest.hasRemaining()) {
            throw Refusal.badRequest(rest.remaining() + " bytes behind the last field");
        }
    }

    private byte[] take(int length) throws Refusal {
        need(length);
        byte[] bytes = new byte[length];
        rest.get(bytes);
        return bytes;
    }

    private void need(int length) throws Refusal {
        if (length < 0 || length > rest.remaining()) {
            throw Refusal.badRequest("a field is longer than its frame");
        }
    }
}
