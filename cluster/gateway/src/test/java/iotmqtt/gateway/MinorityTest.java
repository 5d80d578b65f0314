package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
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
    private final Trial trial = new Trial();
    private final int discovery = Trial.freePort();

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
        trial.forget();
    }

    @Test
    void oneOfTwoAnswersNothingBeforeAndAfterItHadTheOther() throws Exception {
        try (Server one = start("first", discovery)) {
            refuses(one);
            try (Server two = start("second", Trial.freePort());
                    Client late = new Client(two.gateway(), 0, 0, 0);
                    Client early = new Client(one.gateway(), 0, 0, 0)) {
                assertEquals(0, early.commit("iot_meta", "k", "1"));
                assertEquals(0, late.commit("iot_meta", "k", "2"));
                Trial.until(10, () -> thin(one) != null);
                two.close();
                int status = early.commit("iot_meta", "k", "3");
                assertEquals(1, status);
                assertTrue(early.closed());
                refuses(one);
            }
            try (Server again = start("third", Trial.freePort());
                    Client client = new Client(one.gateway(), 0, 0, 0)) {
                Client.Entries page = client.page("iot_meta", "", null, 10);
                assertEquals("2", page.values().get(0), "what was refused was not written");
                Trial.until(10, () -> thin(again) != null);
            }
        }
    }

    private static void refuses(Server server) throws Exception {
        try (Client client = new Client(server.gateway(), 1, 1, 1)) {
            assertEquals(1, client.refusal());
        }
        Trial.until(10, () -> thin(server) == null);
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

    private Server start(String name, int discoveryPort) {
        int gateway = Trial.freePort();
        int client = Trial.freePort();
        trial.set("iot.ignite.name", name);
        trial.set("iot.ignite.work", work.resolve(name).toString());
        trial.set("iot.ignite.client.port", String.valueOf(client));
        trial.set("iot.ignite.discovery.port", String.valueOf(discoveryPort));
        trial.set("iot.ignite.discovery.addresses", "127.0.0.1:" + discovery);
        trial.set("iot.ignite.communication.port", String.valueOf(Trial.freePort()));
        trial.set("iot.ignite.region.bytes", String.valueOf(128 << 20));
        trial.set("iot.ignite.quorum", "2");
        // This JVM must not be ended.
        trial.set("iot.ignite.quorum.patience", "3600");
        trial.set("iot.gateway.port", String.valueOf(gateway));
        trial.set("iot.gateway.token", Client.TOKEN);
        return new Server(Ignition.start("../config/ignite-server.xml"), gateway, client);
    }
}
