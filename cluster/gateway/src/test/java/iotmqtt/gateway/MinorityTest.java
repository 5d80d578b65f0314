package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import javax.cache.CacheException;
import org.apache.ignite.Ignite;
import org.apache.ignite.Ignition;
import org.apache.ignite.client.IgniteClient;
import org.apache.ignite.configuration.ClientConfiguration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two servers of which one is not enough. */
class MinorityTest {
    private final Map<String, String> set = new HashMap<>();
    private final int discovery = freePort();

    @TempDir
    Path work;

    /** A server and where it is reached. */
    private record Server(Ignite ignite, int gateway, int client) implements AutoCloseable {
        @Override
        public void close() {
            ignite.close();
        }
    }

    @AfterEach
    void forget() {
        set.keySet().forEach(System::clearProperty);
    }

    @Test
    void oneOfTwoAnswersNothingBeforeAndAfterItHadTheOther() throws Exception {
        try (Server one = start("first", discovery)) {
            refuses(one);
            try (Server two = start("second", freePort());
                    Client late = new Client(two.gateway(), 0, 0, 0);
                    Client early = new Client(one.gateway(), 0, 0, 0)) {
                assertEquals(0, early.commit("iot_meta", "k", "1"));
                assertEquals(0, late.commit("iot_meta", "k", "2"));
                until(() -> thin(one) != null);
                two.close();
                int status = early.commit("iot_meta", "k", "3");
                assertEquals(1, status);
                assertTrue(early.closed());
                refuses(one);
            }
            try (Server again = start("third", freePort());
                    Client client = new Client(one.gateway(), 0, 0, 0)) {
                Client.Entries page = client.page("iot_meta", "", null, 10);
                assertEquals("2", page.values().get(0), "what was refused was not written");
                until(() -> thin(again) != null);
            }
        }
    }

    private static void refuses(Server server) throws Exception {
        try (Client client = new Client(server.gateway(), 1, 1, 1)) {
            assertEquals(1, client.refusal());
        }
        until(() -> thin(server) == null);
        assertThrows(
                CacheException.class, () -> server.ignite().cache("iot_meta").put(new byte[] {1}, new byte[] {1}));
    }

    /** What a thin client reads; null if it is not let in. */
    private static Object thin(Server server) {
        ClientConfiguration configuration =
                new ClientConfiguration().setAddresses("127.0.0.1:" + server.client()).setTimeout(3000);
        try (IgniteClient client = Ignition.startClient(configuration)) {
            return client.cache("iot_meta").getConfiguration().getName();
        } catch (RuntimeException e) {
            // Refused or dropped: several kinds of exceptions, some of them Ignite's own affair.
            return null;
        }
    }

    private interface Condition {
        boolean holds();
    }

    private static void until(Condition condition) throws InterruptedException {
        long end = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        while (!condition.holds()) {
            assertTrue(System.nanoTime() < end, "it does not happen");
            Thread.sleep(50);
        }
    }

    private Server start(String name, int discoveryPort) {
        int gateway = freePort();
        int client = freePort();
        set("iot.ignite.name", name);
        set("iot.ignite.work", work.resolve(name).toString());
        set("iot.ignite.client.port", String.valueOf(client));
        set("iot.ignite.discovery.port", String.valueOf(discoveryPort));
        set("iot.ignite.discovery.addresses", "127.0.0.1:" + discovery);
        set("iot.ignite.communication.port", String.valueOf(freePort()));
        set("iot.ignite.region.bytes", String.valueOf(128 << 20));
        set("iot.ignite.quorum", "2");
        // This JVM must not be ended.
        set("iot.ignite.quorum.patience", "3600");
        set("iot.gateway.port", String.valueOf(gateway));
        set("iot.gateway.token", Client.TOKEN);
        return new Server(Ignition.start("../config/ignite-server.xml"), gateway, client);
    }

    private void set(String property, String value) {
        set.put(property, value);
        System.setProperty(property, value);
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
