package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;

/** What tests with servers in this JVM have in common: system properties that are forgotten again, ports, and patience. */
final class Trial {
    private static final int FIRST_PORT =
            Integer.parseInt(System.getenv().getOrDefault("TEST_PORTS_FROM", "20000"));
    private static final int PORTS = 8000;
    private static final Random RANDOM = new Random();
    private static final Set<Integer> GIVEN = new HashSet<>();

    private final Set<String> set = new HashSet<>();

    void set(String property, String value) {
        set.add(property);
        System.setProperty(property, value);
    }

    void forget() {
        set.forEach(System::clearProperty);
    }

    /** Something that becomes true. */
    interface Condition {
        boolean holds();
    }

    static void until(int seconds, Condition condition) throws InterruptedException {
        long end = System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
        while (!condition.holds()) {
            assertTrue(System.nanoTime() < end, "it does not happen");
            Thread.sleep(20);
        }
    }

    /**
     * A port that could be bound just now, another one each time. They come from below those that the kernel gives to
     * clients, as in {@code tests/ports.py}: one of these would be taken before a server listens there, or comes back.
     */
    static synchronized int freePort() {
        for (int attempt = 0; attempt < 500; attempt++) {
            int port = FIRST_PORT + RANDOM.nextInt(PORTS);
            if (GIVEN.add(port) && isFree(port)) {
                return port;
            }
        }
        throw new AssertionError("no port is free");
    }

    private static boolean isFree(int port) {
        try (ServerSocket probe = new ServerSocket()) {
            probe.setReuseAddress(true);
            probe.bind(new InetSocketAddress("127.0.0.1", port));
            return true;
        } catch (IOException taken) {
            return false;
        }
    }
}
