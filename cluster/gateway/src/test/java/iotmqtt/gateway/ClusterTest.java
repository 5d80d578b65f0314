package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.ignite.Ignite;
import org.apache.ignite.Ignition;
import org.apache.ignite.spi.discovery.tcp.TcpDiscoverySpi;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two servers in this JVM, started from the file that servers are started from. */
class ClusterTest {
    private static final List<Ignite> SERVERS = new ArrayList<>();
    private static final List<Integer> PORTS = new ArrayList<>();
    private static int lastNode;

    @TempDir
    static Path work;

    @BeforeAll
    static void start() {
        int first = Trial.freePort();
        start("one", first, first);
        start("two", Trial.freePort(), first);
    }

    @AfterAll
    static void stop() {
        SERVERS.forEach(Ignite::close);
    }

    @Test
    void whatIsCommittedAtOneServerIsReadAtTheOther() throws IOException {
        try (Client one = client(0);
                Client two = client(1)) {
            assertEquals(0, one.commit("iot_sessions", "b", "2", "a", "1", "c", "3"));
            assertEquals(0, two.commit("iot_sessions", "b", null, "d", "4"));
            Client.Entries page = one.page("iot_sessions", "", null, 10);
            assertEquals(List.of("a", "c", "d"), page.keys());
            assertEquals(List.of("1", "3", "4"), page.values());
            assertFalse(page.more());
        }
    }

    @Test
    void aCommitThatIsWrongAnywhereChangesNothing() throws IOException {
        try (Client one = client(0)) {
            int status = one.request(Op.COMMIT, out -> {
                out.writeByte(0);
                out.writeShort(2);
                Client.text(out, "iot_wills");
                out.writeInt(1);
                Client.text(out, "a");
                Client.value(out, "1");
                Client.text(out, "iot_fences");
                out.writeInt(0);
            });
            assertEquals(3, status);
            assertEquals(3, one.commit("iot_wills", "a", "1", "a", null));
            assertEquals(3, one.commit("iot_wills", "a", "1", "a", "2"));
            assertEquals(List.of(), one.page("iot_wills", "", null, 10).keys());
        }
    }

    @Test
    void aSwapSucceedsForOneOfTwo() throws IOException {
        try (Client one = client(0);
                Client two = client(1)) {
            assertEquals(0, one.swap("iot_meta", "k", null, "1"));
            assertEquals(4, two.swap("iot_meta", "k", null, "1"));
            assertEquals(0, two.swap("iot_meta", "k", "1", "2"));
            assertEquals(4, one.swap("iot_meta", "k", "1", "2"));
            assertEquals(4, one.swap("iot_meta", "k", "1", null));
            assertEquals(4, one.swap("iot_meta", "k", null, null));
            assertEquals(0, one.swap("iot_meta", "k", "2", null));
            assertEquals(0, two.swap("iot_meta", "k", null, null));
            assertEquals(
                    List.of(0, 0, 4, 0),
                    one.swaps("iot_meta", "s1", null, "1", "s2", null, "2", "s3", "x", "3", "s4", null, null));
            assertEquals(List.of(4, 0, 0), two.swaps("iot_meta", "s1", "x", "y", "s2", "2", null, "s3", null, "3"));
            assertEquals(List.of("1", "3"), one.page("iot_meta", "s", null, 10).values());
            assertEquals(List.of(3), one.swaps("iot_meta", "s1", "1", "2", "s1", "2", "3"), "twice at once");
            assertEquals("1", one.get("iot_meta", "s1"));
        }
    }

    @Test
    void pagesAreInUnsignedOrderAndCompleteWhereverTheyAreCut() throws IOException {
        Random random = new Random(1);
        TreeSet<String> keys = new TreeSet<>(List.of("", "\u007f", "\u0080", "\u00ff", "\u00ff\u00ff", "\u0000"));
        while (keys.size() < 700) {
            byte[] key = new byte[1 + random.nextInt(80)];
            random.nextBytes(key);
            keys.add(new String(key, StandardCharsets.ISO_8859_1));
        }
        try (Client one = client(0);
                Client two = client(1)) {
            String[] entries = keys.stream().flatMap(key -> List.of(key, "v" + key).stream()).toArray(String[]::new);
            assertEquals(0, one.commit("iot_queue", entries));
            for (int limit : new int[] {1, 7, 100, 699, 700, 701}) {
                List<String> read = new ArrayList<>();
                Client.Entries page = two.page("iot_queue", "", null, limit);
                read.addAll(page.keys());
                while (page.more()) {
                    page = two.page("iot_queue", "", read.get(read.size() - 1), limit);
                    read.addAll(page.keys());
                }
                assertEquals(new ArrayList<>(keys), read, "by " + limit);
            }
            for (String prefix : List.of("\u00ff", "\u0080", "\u007f")) {
                List<String> expected = keys.stream().filter(key -> key.startsWith(prefix)).toList();
                assertEquals(expected, one.page("iot_queue", prefix, null, 1000).keys());
                assertEquals(expected, one.page("iot_queue", prefix, "", 1000).keys());
            }
            for (String behind : List.of("\u0080", "\u0080\u0000", "\u0081", "\u00ff\u00ff")) {
                assertEquals(List.of(), one.page("iot_queue", "\u007f", behind, 1000).keys());
            }
        }
    }

    @Test
    void manyThingsAreReadInOneGo() throws IOException {
        try (Client one = client(0);
                Client two = client(1)) {
            assertEquals(0, one.commit("iot_groups", "many", "1", "many-2", "2", "other", "3"));
            assertEquals(0, one.commit("iot_log_index", "many-3", "4"));
            List<Client.Entries> found = two.read(
                    Client.wanted("iot_groups", "many", null, 0),
                    Client.wanted("iot_groups", "many", null, 10),
                    Client.wanted("iot_log_index", "many", null, 10),
                    Client.wanted("iot_groups", "man", null, 0),
                    Client.wanted("iot_groups", "many", "many", 10));
            assertEquals(
                    List.of(List.of("1"), List.of("1", "2"), List.of("4"), List.of(), List.of("2")),
                    found.stream().map(Client.Entries::values).toList());
            assertTrue(found.stream().noneMatch(Client.Entries::more));
        }
    }

    @Test
    void anAnswerIsFullAtSomeSizeAndTheRestIsSaidToBeMore() throws IOException {
        String large = "x".repeat(600_000);
        try (Client one = client(0)) {
            for (int i = 0; i < 4; i++) {
                assertEquals(0, one.commit("iot_shares", "full" + i, large));
            }
            List<Client.Entries> found =
                    one.read(Client.wanted("iot_shares", "full", null, 2), Client.wanted("iot_shares", "full", null, 2));
            assertEquals(List.of("full0", "full1"), found.get(0).keys());
            assertEquals(List.of(), found.get(1).keys());
            assertTrue(found.get(1).more());
            assertNull(one.get("iot_shares", "full"));
            assertEquals(large, one.get("iot_shares", "full3"));
        }
    }

    @Test
    void aPageEndsEarlyWhenItIsLarge() throws IOException {
        String large = "x".repeat(300_000);
        try (Client one = client(0)) {
            for (int i = 0; i < 8; i++) {
                assertEquals(0, one.commit("iot_retained", "large" + i, large));
            }
            List<String> read = new ArrayList<>();
            Client.Entries page = one.page("iot_retained", "large", null, 1000);
            assertTrue(page.more());
            read.addAll(page.keys());
            while (page.more()) {
                page = one.page("iot_retained", "large", read.get(read.size() - 1), 1000);
                read.addAll(page.keys());
            }
            assertEquals(IntStream.range(0, 8).mapToObj(i -> "large" + i).toList(), read);
        }
    }

    @Test
    void aPrefixIsRemovedAndNothingBesideIt() throws IOException {
        try (Client one = client(0);
                Client two = client(1)) {
            String[] entries = IntStream.range(0, 1200)
                    .boxed()
                    .flatMap(i -> List.of((i % 2 == 0 ? "a/" : "b/") + i, "v").stream())
                    .toArray(String[]::new);
            assertEquals(0, one.commit("iot_log", entries));
            assertEquals(0, two.removePrefix("iot_log", "a/"));
            assertEquals(List.of(), one.page("iot_log", "a/", null, 10).keys());
            assertEquals(600, one.page("iot_log", "", null, 2000).keys().size());
            assertEquals(0, two.removePrefix("iot_log", ""));
            assertEquals(List.of(), two.page("iot_log", "", null, 10).keys());
        }
    }

    @Test
    void messagesGoToEveryListenerInTheirOrder() throws IOException {
        try (Client one = client(0);
                Client two = client(1);
                Client other = client(1)) {
            for (Client client : List.of(one, two)) {
                assertEquals(0, client.listen("news"));
            }
            assertEquals(0, other.listen("olds"));
            List<String> sent = IntStream.range(0, 2000).mapToObj(String::valueOf).toList();
            for (String payload : sent) {
                one.send("news", payload);
            }
            one.send("olds", "for another");
            for (Client client : List.of(one, two)) {
                List<String> received = new ArrayList<>();
                while (received.size() < sent.size()) {
                    received.add(client.message());
                }
                assertEquals(sent, received);
            }
            assertEquals("for another", other.message());
        }
    }

    @Test
    void whoeverStopsListeningHearsNothingMore() throws IOException {
        try (Client one = client(0);
                Client two = client(1)) {
            two.listen("quiet");
            two.unlisten("quiet");
            one.send("quiet", "unheard");
            two.listen("loud");
            one.send("loud", "heard");
            assertEquals("heard", two.message());
        }
    }

    @Test
    void aFencedLifeIsClosedEverywhereAndNeverWelcomedAgain() throws IOException {
        int node = ++lastNode;
        try (Client fencing = client(0);
                Client here = new Client(PORTS.get(0), node, 5, 1);
                Client there = new Client(PORTS.get(1), node, 5, 2)) {
            assertTrue(here.closed(), "the later connection is at the other server");
            assertEquals(0, there.ping());
            assertEquals(0, fencing.fence(node, 5));
            assertTrue(there.closed());
            for (int port : PORTS) {
                assertEquals(2, refused(port, node, 4));
                assertEquals(2, refused(port, node, 5));
            }
            assertEquals(0, fencing.fence(node, 3), "a lower fence changes nothing");
            assertEquals(2, refused(PORTS.get(0), node, 5));
            try (Client next = new Client(PORTS.get(1), node, 6, 1)) {
                assertEquals(0, next.ping());
                assertEquals(3, next.fence(node, 6), "a node does not fence itself");
                assertEquals(0, next.fence(node, 5), "but may fence what it was");
            }
        }
    }

    @Test
    void noWriteOfAFencedLifeIsAppliedAfterTheFenceIsDone() throws IOException {
        int node = ++lastNode;
        try (Client fencing = client(0);
                Client doomed = new Client(PORTS.get(1), node, 1, 1)) {
            for (int i = 0; i < 300; i++) {
                doomed.begin(Op.COMMIT, Client.commitBody("iot_dup", String.format("%04d", i), "x".repeat(1000)));
            }
            assertEquals(0, fencing.fence(node, 1));
            List<String> then = fencing.page("iot_dup", "", null, 1000).keys();
            assertTrue(doomed.closed());
            assertEquals(then, fencing.page("iot_dup", "", null, 1000).keys());
            assertEquals(IntStream.range(0, then.size()).mapToObj(i -> String.format("%04d", i)).toList(), then);
        }
    }

    @Test
    void whoseConnectionBeginsOrEndsOfItselfIsToldToWhoListens() throws IOException {
        int node = ++lastNode;
        try (Client listening = client(0);
                Client fencing = client(1)) {
            assertEquals(0, listening.listen("iot.lives"));
            try (Client early = new Client(PORTS.get(1), node, 3, 1)) {
                assertEquals("0 3 1", life(listening, node));
                try (Client late = new Client(PORTS.get(0), node, 3, 2)) {
                    assertTrue(early.closed());
                    assertEquals("0 3 2", life(listening, node), "that the gateway closed the earlier one is no news");
                    assertEquals(0, late.ping());
                }
                assertEquals("1 3 2", life(listening, node));
            }
            try (Client fenced = new Client(PORTS.get(1), node, 4, 1)) {
                assertEquals("0 4 1", life(listening, node));
                assertEquals(0, fencing.fence(node, 4));
                assertTrue(fenced.closed());
            }
            try (Client next = new Client(PORTS.get(1), node, 5, 1)) {
                assertEquals("0 5 1", life(listening, node), "nor that it closed a fenced one");
                assertEquals(0, next.ping());
            }
        }
    }

    /** The next notice of a node: its kind, the boot and the connection. */
    private static String life(Client listening, int node) throws IOException {
        while (true) {
            ByteBuffer notice = ByteBuffer.wrap(listening.message().getBytes(StandardCharsets.ISO_8859_1));
            byte kind = notice.get();
            if (notice.getShort() == node) {
                return kind + " " + notice.getLong() + " " + notice.getInt();
            }
        }
    }

    @Test
    void aLaterConnectionSupersedesAnEarlierOneAndNotTheOtherWayRound() throws IOException {
        int node = ++lastNode;
        try (Client early = new Client(PORTS.get(0), node, 1, 7)) {
            assertEquals(0, early.ping());
            try (Client late = new Client(PORTS.get(1), node, 1, 8)) {
                assertTrue(early.closed());
                assertEquals(2, refused(PORTS.get(0), node, 1));
                assertEquals(0, late.ping());
            }
        }
    }

    @Test
    void strangersAreRefused() throws IOException {
        int port = PORTS.get(0);
        for (Map.Entry<Integer, byte[]> hello : Map.of(
                        5, Client.hello(Op.VERSION, "guess", 1, 1, 1),
                        6, Client.hello(Op.VERSION - 1, Client.TOKEN, 1, 1, 1),
                        3, Client.frame(Op.HELLO, out -> out.writeByte(Op.VERSION)))
                .entrySet()) {
            try (Client client = new Client(port, hello.getValue())) {
                assertEquals(hello.getKey(), client.refusal());
                assertTrue(client.closed());
            }
        }
    }

    @Test
    void whoSaysNothingToDiscoveryHasNoThreadForLong() throws Exception {
        int port = ((TcpDiscoverySpi) SERVERS.get(0).configuration().getDiscoverySpi()).getLocalPort();
        List<Socket> silent = new ArrayList<>();
        try {
            for (int count = 0; count < 300; count++) {
                silent.add(new Socket("127.0.0.1", port));
            }
            long until = System.nanoTime() + 5_000_000_000L;
            while (open(silent) > Lobby.MOST_OF_ONE && System.nanoTime() < until) {
                Thread.sleep(50);
            }
            assertTrue(open(silent) <= Lobby.MOST_OF_ONE, open(silent) + " are open");
            assertEquals(2, SERVERS.get(0).cluster().nodes().size());
        } finally {
            for (Socket socket : silent) {
                socket.close();
            }
        }
    }

    /** How many of them the server has not closed. */
    private static int open(List<Socket> sockets) throws IOException {
        int count = 0;
        for (Socket socket : sockets) {
            socket.setSoTimeout(1);
            try {
                count += socket.getInputStream().read() < 0 ? 0 : 1;
            } catch (SocketTimeoutException e) {
                count++;
            } catch (SocketException e) {
                // It is reset.
            }
        }
        return count;
    }

    @Test
    void garbageEndsItsConnectionAndNoOther() throws IOException {
        try (Client bystander = client(0)) {
            Random random = new Random(2);
            for (int round = 0; round < 50; round++) {
                try (Client client = client(0)) {
                    byte[] garbage = new byte[200];
                    random.nextBytes(garbage);
                    client.raw(garbage);
                    assertTrue(client.closed(), "a length of " + garbage[0]);
                }
                int op = random.nextInt(256);
                try (Client client = client(0)) {
                    client.raw(Client.frame(op, out -> out.write(random.nextInt(256))));
                    client.raw(Client.frame(0, out -> {}));
                    assertTrue(client.closed(), "operation " + op);
                }
            }
            assertEquals(0, bystander.ping());
        }
    }

    @Test
    void whoDripsItsHelloKeepsNobodyOutAndHasAnEnd() throws Exception {
        byte[] hello = Client.hello(Op.VERSION, "x".repeat(200), 1, 1, 1);
        List<Socket> dripping = new ArrayList<>();
        long began = System.nanoTime();
        try (Client bystander = client(0)) {
            for (int i = 0; i < 600; i++) {
                Socket socket = new Socket("127.0.0.1", PORTS.get(0));
                dripping.add(socket);
                Thread.sleep(5);
            }
            for (int second = 0; second < 11; second++) {
                for (Socket socket : dripping) {
                    drip(socket, hello[second]);
                }
                try (Client good = client(0)) {
                    assertEquals(0, good.refusal(), "after " + second + " seconds");
                    assertEquals(0, good.ping());
                }
                Thread.sleep(1000);
            }
            assertEquals(0, bystander.ping());
            for (Socket socket : dripping) {
                socket.setSoTimeout(1000);
                assertTrue(isOver(socket), "after " + (System.nanoTime() - began) / 1_000_000 + " ms");
            }
        } finally {
            for (Socket socket : dripping) {
                socket.close();
            }
        }
    }

    private static void drip(Socket socket, byte one) {
        try {
            socket.getOutputStream().write(one);
        } catch (IOException e) {
            // It was closed, as it should be.
        }
    }

    private static boolean isOver(Socket socket) {
        try {
            return socket.getInputStream().read() < 0;
        } catch (SocketTimeoutException e) {
            return false;
        } catch (IOException e) {
            return true;
        }
    }

    @Test
    void theTopologyIsTold() throws IOException {
        try (Client one = client(0)) {
            Incoming topology = one.read();
            assertEquals(Op.TOPOLOGY, topology.op());
            assertEquals(2, topology.body()[9]);
            assertNotEquals(0, topology.body()[7]);
        }
    }

    private static int refused(int port, int node, long boot) throws IOException {
        try (Client client = new Client(port, node, boot, 1)) {
            return client.refusal();
        }
    }

    private static Client client(int server) throws IOException {
        return new Client(PORTS.get(server), 0, 0, 0);
    }

    private static void start(String name, int discovery, int firstDiscovery) {
        int gateway = Trial.freePort();
        Map.of(
                        "iot.ignite.name", name,
                        "iot.ignite.work", work.resolve(name).toString(),
                        "iot.ignite.client.port", String.valueOf(Trial.freePort()),
                        "iot.ignite.discovery.port", String.valueOf(discovery),
                        "iot.ignite.discovery.addresses", "127.0.0.1:" + firstDiscovery,
                        "iot.ignite.communication.port", String.valueOf(Trial.freePort()),
                        "iot.ignite.region.bytes", String.valueOf(128 << 20),
                        "iot.gateway.port", String.valueOf(gateway),
                        "iot.gateway.token", Client.TOKEN)
                .forEach(System::setProperty);
        SERVERS.add(Ignition.start("../config/ignite-server.xml"));
        PORTS.add(gateway);
    }
}
