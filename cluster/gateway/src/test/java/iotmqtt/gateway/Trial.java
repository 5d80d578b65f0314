package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;

/** What tests with servers in this JVM have in common: system properties that are forgotten again, ports, and patience. */
final class Trial {
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

    static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
