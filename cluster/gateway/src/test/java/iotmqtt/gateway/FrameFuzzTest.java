package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Streams of frames that are nearly right: each is read, refused, or ends its stream, and nothing else happens. */
class FrameFuzzTest {
    private static final int LIMIT = 1000;
    private static final int STREAMS = 100_000;

    /** Numbers at which code changes its mind. */
    private static final int[] EDGES = {0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, -2, -1};

    private final CacheWrites writes = new CacheWrites(null, null, null, null);
    private int read;
    private int refused;

    @Test
    void nearlyRightStreamsAreReadOrRefused() throws IOException {
        String told = System.getenv("TEST_SEED");
        long seed = told == null ? new Random().nextInt(1_000_000_000) : Long.parseLong(told);
        Random dice = new Random(seed);
        List<byte[]> samples = samples();
        for (int number = 0; number < STREAMS; number++) {
            byte[] stream = mutated(samples, dice);
            try {
                take(stream);
            } catch (RuntimeException | Error e) {
                fail("TEST_SEED=" + seed + ", stream " + number + ": " + HexFormat.of().formatHex(stream), e);
            }
        }
        // Neither would say anything if all of them were.
        assertTrue(read > STREAMS / 10, read + " read");
        assertTrue(refused > STREAMS / 10, refused + " refused");
    }

    private void take(byte[] stream) {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(stream));
        try {
            for (Incoming frame = Incoming.read(in, LIMIT); frame != null; frame = Incoming.read(in, LIMIT)) {
                assertTrue(frame.body().length < LIMIT);
                fields(frame);
            }
        } catch (IOException e) {
            refused++;
        }
    }

    private void fields(Incoming frame) {
        Fields fields = new Fields(frame.body());
        try {
            switch (frame.op()) {
                case Op.HELLO -> {
                    fields.u8();
                    fields.text();
                    fields.u16();
                    assertTrue(fields.u63() >= 0);
                    assertTrue(fields.u32() >= 0);
                    fields.end();
                }
                case Op.COMMIT -> applied(fields, () -> writes.commit(fields));
                case Op.SWAP -> applied(fields, () -> writes.swap(fields));
                case Op.REMOVE_PREFIX -> applied(fields, () -> writes.removePrefix(fields));
                case Op.READ -> {
                    fields.i32();
                    for (Wanted wanted : Wanted.several(fields)) {
                        wanted.impossible();
                        assertTrue(wanted.most() > 0 && wanted.most() <= 1 << 16);
                    }
                }
                case Op.SEND -> {
                    fields.text();
                    fields.skipBytes();
                    fields.end();
                }
                case Op.LISTEN, Op.UNLISTEN -> {
                    fields.i32();
                    fields.text();
                    fields.end();
                }
                default -> {
                    fields.i32();
                    fields.end();
                }
            }
            read++;
        } catch (Refusal e) {
            assertEquals(Status.BAD_REQUEST, e.status);
            refused++;
        }
    }

    private interface Write {
        void apply() throws Refusal;
    }

    /** A request is read completely before anything is applied: then it misses the caches, which are not there. */
    private static void applied(Fields fields, Write write) throws Refusal {
        fields.i32();
        try {
            write.apply();
        } catch (NullPointerException e) {
            if (!e.getStackTrace()[0].getClassName().equals(CacheWrites.class.getName())) {
                throw e;
            }
            fields.end();
        }
    }

    private static byte[] mutated(List<byte[]> samples, Random dice) {
        ByteArrayOutputStream stream = new ByteArrayOutputStream();
        for (int left = 1 + dice.nextInt(3); left > 0; left--) {
            byte[] sample = samples.get(dice.nextInt(samples.size())).clone();
            if (dice.nextInt(3) > 0) {
                change(sample, dice);
            }
            stream.write(sample, 0, dice.nextInt(20) == 0 ? dice.nextInt(sample.length) : sample.length);
        }
        return stream.toByteArray();
    }

    private static void change(byte[] sample, Random dice) {
        for (int left = 1 + dice.nextInt(3); left > 0; left--) {
            // Mostly behind the length, so that frames stay frames.
            int at = dice.nextInt(10) == 0 ? dice.nextInt(sample.length) : 4 + dice.nextInt(sample.length - 4);
            if (dice.nextBoolean()) {
                sample[at] ^= (byte) (1 << dice.nextInt(8));
                continue;
            }
            int width = List.of(1, 2, 4).get(dice.nextInt(3));
            int value = EDGES[dice.nextInt(EDGES.length)];
            for (int place = 0; place < width && at + place < sample.length; place++) {
                sample[at + place] = (byte) (value >>> 8 * (width - 1 - place));
            }
        }
    }

    private static List<byte[]> samples() throws IOException {
        List<byte[]> samples = new ArrayList<>();
        try (InputStream table = FrameFuzzTest.class.getResourceAsStream("/frames-v" + Op.VERSION + ".txt")) {
            for (String line : new String(table.readAllBytes(), StandardCharsets.UTF_8).split("\n")) {
                if (!line.startsWith("#") && line.contains("|")) {
                    samples.add(HexFormat.of().parseHex(line.substring(line.indexOf('|') + 1)));
                }
            }
        }
        return samples;
    }
}
