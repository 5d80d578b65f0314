package iotmqtt.gateway;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;

/** A frame that was received. */
record Incoming(int op, byte[] body) {
    private static final int OP_LENGTH = 1;

    /** What a frame counts for in a queue: a small one is an object too. */
    int weight() {
        return body.length + Outgoing.OVERHEAD;
    }

    /**
     * The next frame, or null if the stream ended between two.
     *
     * @param longest the greatest length accepted; nothing is allocated for a frame that says it is longer
     */
    static Incoming read(DataInputStream in, int longest) throws IOException {
        int first = in.read();
        if (first < 0) {
            return null;
        }
        long length = (long) first << 24 | in.readUnsignedByte() << 16 | in.readUnsignedShort();
        if (length < OP_LENGTH || length > longest) {
            throw new IOException("a frame of " + length + " bytes, where 1 to " + longest + " are allowed");
        }
        int op = in.readUnsignedByte();
        byte[] body = new byte[(int) length - OP_LENGTH];
        try {
            in.readFully(body);
        } catch (EOFException e) {
            throw new EOFException("the stream ended inside a frame");
        }
        return new Incoming(op, body);
    }
}
