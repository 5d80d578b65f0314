package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Frames and their fields, without a cluster. */
class FrameTest {
    private static final int LIMIT = 1000;

    @Test
    void aFrameComesBackAsItWasWritten() throws IOException {
        byte[] written = Client.frame(Op.PING, out -> out.writeInt(7));
        Incoming frame = read(written);
        assertEquals(Op.PING, frame.op());
        assertArrayEquals(new byte[] {0, 0, 0, 7}, frame.body());
        assertEquals(written.length, 4 + 1 + frame.body().length);
    }

    @Test
    void aStreamThatEndsBetweenFramesIsOver() throws IOException {
        assertNull(read(new byte[0]));
    }

    @Test
    void aFrameCutAtAnyByteIsAnErrorAndNotAFrame() {
        byte[] whole = Client.hello(1, "token", 3, 4, 5);
        for (int length = 1; length < whole.length; length++) {
            byte[] cut = Arrays.copyOf(whole, length);
            assertThrows(EOFException.class, () -> read(cut), "cut at " + length);
        }
    }

    @Test
    void aLengthBeyondTheLimitIsRefusedBeforeAnythingIsAllocated() {
        for (byte[] length : List.of(
                new byte[] {0, 0, 0, 0},
                new byte[] {0, 0, 3, (byte) 0xE9},
                new byte[] {(byte) 0xFF, (byte) 0xFF, (byte) 0xFF, (byte) 0xFF},
                new byte[] {0x7F, (byte) 0xFF, (byte) 0xFF, (byte) 0xFF})) {
            IOException refused = assertThrows(IOException.class, () -> read(length));
            assertEquals(IOException.class, refused.getClass(), "not an end of the stream");
        }
    }

    @Test
    void theBodyOfACommitCutAnywhereIsABadRequest() throws IOException {
        byte[] body = read(Client.frame(Op.COMMIT, Client.commitBody("iot_meta", "a", "1", "b", null))).body();
        CacheWrites writes = new CacheWrites(null, null, null, null);
        for (int length = 0; length < body.length; length++) {
            Fields cut = new Fields(Arrays.copyOf(body, length));
            assertEquals(
                    Status.BAD_REQUEST, assertThrows(Refusal.class, () -> writes.commit(cut)).status, "cut at " + length);
        }
        Fields longer = new Fields(Arrays.copyOf(body, body.length + 1));
        assertThrows(Refusal.class, () -> writes.commit(longer));
    }

    @Test
    void garbageIsABadRequestAndNothingElse() {
        Random random = new Random(1);
        CacheWrites writes = new CacheWrites(null, null, null, null);
        byte[] name = {0, 8, 'i', 'o', 't', '_', 'm', 'e', 't', 'a'};
        for (int round = 0; round < 20_000; round++) {
            byte[] garbage = new byte[13 + random.nextInt(40)];
            random.nextBytes(garbage);
            garbage[0] = 0;
            garbage[1] = 0;
            garbage[2] = 2;
            if (round % 2 == 0) {
                System.arraycopy(name, 0, garbage, 3, name.length);
            }
            assertThrows(Refusal.class, () -> writes.commit(new Fields(garbage)));
        }
    }

    @Test
    void aTextHasToBeUtf8() {
        assertThrows(Refusal.class, () -> new Fields(new byte[] {0, 1, (byte) 0xFF}).text());
    }

    @Test
    void noneIsAValueAndALengthBeyondTheFrameIsNot() throws Refusal {
        assertNull(new Fields(new byte[] {-1, -1, -1, -1}).value());
        assertThrows(Refusal.class, () -> new Fields(new byte[] {-1, -1, -1, -2}).value());
        assertThrows(Refusal.class, () -> new Fields(new byte[] {0x7F, -1, -1, -1}).value());
    }

    @Test
    void anAnswerSaysItsOwnLength() throws IOException {
        Page page = new Page(List.of(new byte[] {1}, new byte[0]), List.of(new byte[0], new byte[] {2, 3}), true);
        for (Outgoing frame : List.of(
                Outgoing.done(9, Status.NOT_READY, "späte Antwort"),
                Outgoing.refused(Status.WRONG_TOKEN, ""),
                Outgoing.welcome(new java.util.UUID(1, 2), LIMIT),
                Outgoing.topology(4, 2, -1),
                Outgoing.room(1, 2, 3),
                Outgoing.swapped(1, new Status[] {Status.DONE, Status.NOT_SWAPPED}),
                Outgoing.found(1, List.of(page, page)),
                Outgoing.deliver(new byte[] {0, 0, 0, 0, 0, 0}))) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            frame.write(out);
            byte[] bytes = out.toByteArray();
            assertEquals(bytes.length, 5 + read(bytes).body().length);
        }
    }

    /** What the nodes' side is tested against, too. */
    @Test
    void everyAnswerIsWrittenAsAgreed() throws Exception {
        Map<String, Outgoing> answers = new LinkedHashMap<>();
        answers.put("welcome", Outgoing.welcome(UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"), 16 << 20));
        answers.put("refused", Outgoing.refused(Status.FENCED, "node 7 is fenced up to boot 258"));
        answers.put("done", Outgoing.done(1, Status.DONE, ""));
        answers.put("done-not-ready", Outgoing.done(-1, Status.NOT_READY, "the grid is not active"));
        answers.put("swapped", Outgoing.swapped(4, new Status[] {Status.DONE, Status.NOT_SWAPPED, Status.NOT_READY}));
        answers.put("topology", Outgoing.topology(1L << 33, 3, 37));
        answers.put("topology-unknown", Outgoing.topology(1L << 33, 3, -1));
        answers.put("room", Outgoing.room(1L << 33, 1L << 34, 1L << 35));
        List<byte[]> keys = List.of(new byte[0], new byte[] {'k', -1});
        Page page = new Page(keys, List.of(new byte[] {'v'}, new byte[0]), true);
        answers.put("found", Outgoing.found(9, List.of(page, new Page(List.of(), List.of(), false))));
        Map<String, byte[]> samples = samples();
        for (Map.Entry<String, Outgoing> answer : answers.entrySet()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            answer.getValue().write(out);
            assertArrayEquals(samples.get(answer.getKey()), out.toByteArray(), answer.getKey());
        }
    }

    @Test
    void everyOperationHasASample() throws Exception {
        Set<Integer> sampled = new TreeSet<>();
        samples().values().forEach(sample -> sampled.add(Byte.toUnsignedInt(sample[4])));
        Set<Integer> known = new TreeSet<>();
        for (Field field : Op.class.getDeclaredFields()) {
            if (!field.getName().equals("VERSION")) {
                known.add(field.getInt(null));
            }
        }
        assertEquals(known, sampled);
    }

    private static Map<String, byte[]> samples() throws IOException {
        Map<String, byte[]> samples = new LinkedHashMap<>();
        try (InputStream table = FrameTest.class.getResourceAsStream("/frames-v" + Op.VERSION + ".txt")) {
            for (String line : new String(table.readAllBytes(), StandardCharsets.UTF_8).split("\n")) {
                if (!line.startsWith("#") && line.contains("|")) {
                    samples.put(line.substring(0, line.indexOf('|')), HexFormat.of().parseHex(line.substring(line.indexOf('|') + 1)));
                }
            }
        }
        return samples;
    }

    private static Incoming read(byte[] bytes) throws IOException {
        return Incoming.read(new DataInputStream(new ByteArrayInputStream(bytes)), LIMIT);
    }
}
