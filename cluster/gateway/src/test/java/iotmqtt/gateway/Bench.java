package iotmqtt.gateway;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;

/**
 * Measures two servers that run already, see cluster/README.md: {@code Bench <gateway port> <another gateway's port>}.
 * The token is the tests' one, "secret".
 */
final class Bench {
    private static final String PAGE = "x".repeat(20_000);

    private Bench() {}

    public static void main(String[] args) throws Exception {
        try (Client one = client(args[0]);
                Client two = client(args[1])) {
            for (int depth : new int[] {1, 1, 8}) {
                commits(one, depth, 4000);
            }
            pages(one, 2000);
            two.listen("bench");
            paced(one, two, 100, 3000);
            paced(one, two, 100, 3000);
            flood(one, two, 100, 200_000);
            flood(one, two, 20_000, 20_000);
            flood(one, two, 100_000, 5_000);
            one.removePrefix("iot_log", "bench");
            one.removePrefix("iot_queue", "bench");
        }
    }

    /** Commits of a large page and a small entry, some of them under way at a time. */
    private static void commits(Client client, int depth, int count) throws IOException {
        long[] took = new long[count];
        ArrayDeque<long[]> underWay = new ArrayDeque<>();
        long begun = System.nanoTime();
        for (int i = 0; i < count || !underWay.isEmpty(); i++) {
            if (i < count) {
                String key = String.format("bench%04d", i % 1000);
                int id = client.begin(Op.COMMIT, out -> {
                    out.writeByte(0);
                    out.writeShort(2);
                    Client.text(out, "iot_log");
                    out.writeInt(1);
                    Client.text(out, key);
                    Client.value(out, PAGE);
                    Client.text(out, "iot_queue");
                    out.writeInt(1);
                    Client.text(out, key);
                    Client.value(out, key);
                });
                underWay.add(new long[] {i, id, System.nanoTime()});
            }
            if (underWay.size() >= depth || i >= count) {
                long[] first = underWay.remove();
                if (client.await((int) first[1]).status() != 0) {
                    throw new IOException("a commit failed");
                }
                took[(int) first[0]] = System.nanoTime() - first[2];
            }
        }
        report("commits of 20 kB, " + depth + " at a time", count, System.nanoTime() - begun, took);
    }

    private static void pages(Client client, int count) throws IOException {
        long[] took = new long[count];
        long begun = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            client.page("iot_queue", String.format("bench%03d", i % 100), null, 100);
            took[i] = System.nanoTime() - start;
        }
        report("pages of ten entries", count, System.nanoTime() - begun, took);
    }

    /** One message at a time, from one server's client to the other's. */
    private static void paced(Client from, Client to, int size, int count) throws IOException {
        String payload = "m".repeat(size);
        long[] took = new long[count];
        long begun = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            from.send("bench", payload);
            to.message();
            took[i] = System.nanoTime() - start;
        }
        report("messages of " + size + " bytes, one at a time", count, System.nanoTime() - begun, took);
    }

    private static void flood(Client from, Client to, int size, int count) throws Exception {
        String payload = "m".repeat(size);
        long begun = System.nanoTime();
        CompletableFuture<Void> sending = CompletableFuture.runAsync(() -> {
            try {
                for (int i = 0; i < count; i++) {
                    from.send("bench", payload);
                }
                from.ping();
                for (int i = 0; i < 50; i++) {
                    Thread.sleep(20);
                    from.send("bench", "end");
                }
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        int received = 0;
        long took = 0;
        while (!to.message().equals("end")) {
            received++;
            took = System.nanoTime() - begun;
        }
        sending.get();
        for (int i = 1; i < 50; i++) {
            to.message();
        }
        System.out.printf(
                Locale.ROOT,
                "messages of %d bytes, as fast as they go: %d of %d arrived, %.0f/s, %.1f MB/s%n",
                size, received, count, received * 1e9 / took, received * 1e3 * size / took);
    }

    private static void report(String what, int count, long nanos, long[] took) {
        Arrays.sort(took);
        System.out.printf(
                Locale.ROOT,
                "%s: %.0f/s, p50 %.2f ms, p99 %.2f ms%n",
                what, count * 1e9 / nanos, took[count / 2] / 1e6, took[count * 99 / 100] / 1e6);
    }

    private static Client client(String port) throws IOException {
        return new Client(Integer.parseInt(port), 0, 0, 0);
    }
}
