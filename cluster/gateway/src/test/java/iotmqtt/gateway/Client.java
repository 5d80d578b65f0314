package iotmqtt.gateway;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;

/** A client that does one thing at a time; what it is told meanwhile it keeps. */
final class Client implements AutoCloseable {
    static final String TOKEN = "secret";
    private static final int LONGEST = 16 << 20;

    /** How a request ended. */
    record Done(int status, String detail) {}

    /** A page as it was answered. */
    record Entries(boolean more, List<String> keys, List<String> values) {}

    /** Fields of a body, written. */
    interface Body {
        void write(DataOutputStream out) throws IOException;
    }

    final Queue<Incoming> told = new ArrayDeque<>();
    final Incoming first;
    private final Socket socket;
    private final DataInputStream in;
    private int lastId;

    Client(int port, int node, long boot, int connection) throws IOException {
        this(port, hello(Op.VERSION, TOKEN, node, boot, connection));
    }

    Client(int port, byte[] firstBytes) throws IOException {
        socket = new Socket("127.0.0.1", port);
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(20_000);
        in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
        raw(firstBytes);
        first = read();
    }

    static byte[] hello(int version, String token, int node, long boot, int connection) {
        return frame(Op.HELLO, out -> {
            out.writeByte(version);
            text(out, token);
            out.writeShort(node);
            out.writeLong(boot);
            out.writeInt(connection);
        });
    }

    static byte[] frame(int op, Body body) {
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeByte(op);
            body.write(out);
            return ByteBuffer.allocate(4 + bytes.size())
                    .putInt(bytes.size())
                    .put(bytes.toByteArray())
                    .array();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static void text(DataOutputStream out, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.ISO_8859_1);
        out.writeShort(bytes.length);
        out.write(bytes);
    }

    static void value(DataOutputStream out, String value) throws IOException {
        if (value == null) {
            out.writeInt(-1);
        } else {
            out.writeInt(value.length());
            out.write(value.getBytes(StandardCharsets.ISO_8859_1));
        }
    }

    /** The status of a refusal, or 0 if this was welcomed. */
    int refusal() {
        return first.op() == Op.REFUSED ? first.body()[0] : 0;
    }

    void raw(byte[] bytes) throws IOException {
        socket.getOutputStream().write(bytes);
    }

    Incoming read() throws IOException {
        Incoming frame = Incoming.read(in, LONGEST);
        if (frame == null) {
            throw new EOFException("closed by the gateway");
        }
        return frame;
    }

    /** Whether the gateway has closed this connection, or does so soon. */
    boolean closed() {
        try {
            while (true) {
                read();
            }
        } catch (java.net.SocketTimeoutException e) {
            return false;
        } catch (IOException e) {
            return true;
        }
    }

    /** Begins a request; the id its answer has. */
    int begin(int op, Body body) throws IOException {
        int id = ++lastId;
        raw(frame(op, out -> {
            out.writeInt(id);
            body.write(out);
        }));
        return id;
    }

    Done await(int id) throws IOException {
        ByteBuffer body = answer(Op.DONE, id);
        int status = body.get();
        byte[] detail = new byte[body.getShort()];
        body.get(detail);
        return new Done(status, new String(detail, StandardCharsets.UTF_8));
    }

    int request(int op, Body body) throws IOException {
        return await(begin(op, body)).status();
    }

    /** @param entries key, value, key, value; a null value removes */
    int commit(String cache, String... entries) throws IOException {
        return request(Op.COMMIT, commitBody(cache, entries));
    }

    static Body commitBody(String cache, String... entries) {
        return out -> {
            out.writeByte(0);
            out.writeShort(1);
            text(out, cache);
            out.writeInt(entries.length / 2);
            for (int i = 0; i < entries.length; i += 2) {
                text(out, entries[i]);
                value(out, entries[i + 1]);
            }
        };
    }

    int swap(String cache, String key, String expected, String value) throws IOException {
        int id = beginSwap(cache, key, expected, value);
        Incoming frame = reply(id);
        return frame.op() == Op.SWAPPED ? frame.body()[6] : frame.body()[4];
    }

    /** @param swaps key, expected, value, key, expected, value; the statuses, or the one of all */
    List<Integer> swaps(String cache, String... swaps) throws IOException {
        Incoming frame = reply(beginSwap(cache, swaps));
        List<Integer> statuses = new ArrayList<>();
        for (int at = frame.op() == Op.SWAPPED ? 6 : 4; at < (frame.op() == Op.SWAPPED ? frame.body().length : 5); at++) {
            statuses.add((int) frame.body()[at]);
        }
        return statuses;
    }

    private int beginSwap(String cache, String... swaps) throws IOException {
        return begin(Op.SWAP, out -> {
            out.writeShort(swaps.length / 3);
            for (int i = 0; i < swaps.length; i += 3) {
                text(out, cache);
                text(out, swaps[i]);
                value(out, swaps[i + 1]);
                value(out, swaps[i + 2]);
            }
        });
    }

    int removePrefix(String cache, String prefix) throws IOException {
        return request(Op.REMOVE_PREFIX, out -> {
            text(out, cache);
            text(out, prefix);
        });
    }

    int listen(String topic) throws IOException {
        return request(Op.LISTEN, out -> text(out, topic));
    }

    int unlisten(String topic) throws IOException {
        return request(Op.UNLISTEN, out -> text(out, topic));
    }

    int fence(int node, long boot) throws IOException {
        return request(Op.FENCE, out -> {
            out.writeShort(node);
            out.writeLong(boot);
        });
    }

    int ping() throws IOException {
        return request(Op.PING, out -> {});
    }

    void send(String topic, String payload) throws IOException {
        raw(frame(Op.SEND, out -> {
            text(out, topic);
            value(out, payload);
        }));
    }

    /** The payload of the next message, whatever its topic. */
    String message() throws IOException {
        Incoming frame = told.isEmpty() ? read() : told.remove();
        while (frame.op() != Op.DELIVER) {
            frame = told.isEmpty() ? read() : told.remove();
        }
        int topic = ByteBuffer.wrap(frame.body()).getShort();
        return new String(frame.body(), topic + 6, frame.body().length - topic - 6, StandardCharsets.ISO_8859_1);
    }

    Entries page(String cache, String prefix, String after, int limit) throws IOException {
        return read(wanted(cache, prefix, after, limit)).get(0);
    }

    /** The entry with a key, or null. */
    String get(String cache, String key) throws IOException {
        Entries found = read(wanted(cache, key, null, 0)).get(0);
        return found.values.isEmpty() ? null : found.values.get(0);
    }

    static Body wanted(String cache, String prefix, String after, int limit) {
        return out -> {
            text(out, cache);
            text(out, prefix);
            value(out, after);
            out.writeInt(limit);
        };
    }

    List<Entries> read(Body... wanted) throws IOException {
        int id = begin(Op.READ, out -> {
            out.writeShort(wanted.length);
            for (Body one : wanted) {
                one.write(out);
            }
        });
        ByteBuffer body = answer(Op.FOUND, id);
        List<Entries> found = new ArrayList<>();
        for (int left = body.getShort(); left > 0; left--) {
            found.add(entries(body));
        }
        return found;
    }

    private static Entries entries(ByteBuffer body) {
        boolean more = body.get() == 1;
        List<String> keys = new ArrayList<>();
        List<String> values = new ArrayList<>();
        for (int left = body.getInt(); left > 0; left--) {
            keys.add(string(body, Short.toUnsignedInt(body.getShort())));
            values.add(string(body, body.getInt()));
        }
        return new Entries(more, keys, values);
    }

    private static String string(ByteBuffer body, int length) {
        byte[] bytes = new byte[length];
        body.get(bytes);
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    private ByteBuffer answer(int op, int id) throws IOException {
        Incoming frame = reply(id);
        ByteBuffer body = ByteBuffer.wrap(frame.body());
        body.getInt();
        if (frame.op() != op) {
            throw new AssertionError("answered with " + frame.op() + ": " + string(body, body.remaining()));
        }
        return body;
    }

    private Incoming reply(int id) throws IOException {
        while (true) {
            Incoming frame = read();
            boolean answers = frame.op() == Op.DONE || frame.op() == Op.FOUND || frame.op() == Op.SWAPPED;
            if (answers && ByteBuffer.wrap(frame.body()).getInt() == id) {
                return frame;
            }
            told.add(frame);
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
