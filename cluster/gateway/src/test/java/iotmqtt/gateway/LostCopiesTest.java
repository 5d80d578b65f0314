package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.Ignition;
import org.apache.ignite.cache.CachePeekMode;
import org.apache.ignite.cache.affinity.Affinity;
import org.apache.ignite.cluster.ClusterState;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.processors.cache.distributed.dht.topology.GridDhtLocalPartition;
import org.apache.ignite.internal.processors.cache.distributed.dht.topology.GridDhtPartitionState;
import org.apache.ignite.internal.processors.cache.distributed.dht.topology.GridDhtPartitionTopology;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A server comes back, and one of the others is gone before it has from that one what was written meanwhile. */
class LostCopiesTest {
    /** So much that it takes a moment to fill. */
    private static final int MANY = 40_000;

    private final Trial trial = new Trial();
    private final List<Integer> discovery = List.of(Trial.freePort(), Trial.freePort(), Trial.freePort());

    @TempDir
    Path work;

    @AfterEach
    void forget() {
        Ignition.stopAll(true);
        trial.forget();
    }

    @Test
    void nothingIsLostOnceAllAreBack() throws Exception {
        List<Ignite> servers = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            servers.add(start(number));
        }
        Ignite one = servers.get(0);
        Trial.until(30, () -> one.cluster().state() == ClusterState.ACTIVE
                && one.cluster().currentBaselineTopology() != null
                && one.cluster().currentBaselineTopology().size() == 3);
        write(one, 0);
        int written = MANY;
        Ignite back = servers.get(2);
        Ignite gone = servers.get(1);
        // Until the other one is gone before it is filled: mostly at once.
        for (boolean lost = false; !lost; ) {
            assertTrue(written < 4 * MANY, "it is always filled before: nothing is tried");
            Ignition.stop(back.name(), true);
            write(one, written);
            written += MANY;
            back = start(2);
            Ignition.stop(gone.name(), true);
            Trial.until(30, () -> one.cluster().nodes().size() == 2);
            Thread.sleep(2000);
            lost = !cache(one).lostPartitions().isEmpty();
            gone = start(1);
            whole(List.of(one, back, gone), written);
        }
        Ignition.stopAll(true);
        whole(List.of(start(2), start(1), start(0)), written);
    }

    /** Every copy that says that it is complete is, and soon all are: who holds what may just be changing. */
    private static void whole(List<Ignite> servers, int written) throws InterruptedException {
        Ignite any = servers.get(0);
        Trial.until(30, () -> any.cluster().nodes().size() == 3 && any.cluster().state() == ClusterState.ACTIVE);
        Trial.until(30, () -> cache(any).lostPartitions().isEmpty() && new Copies(any).missing(false) == 0);
        for (Ignite server : servers) {
            Trial.until(30, () -> {
                Absent absent = Absent.of(server, written);
                assertEquals(0, absent.whole(), () -> "entries that whole copies of " + server.name() + " lack");
                return absent.all() == 0;
            });
        }
    }

    /** How many entries the copies of a server lack, and how many of these those that say that they are complete. */
    private record Absent(int all, int whole) {
        static Absent of(Ignite server, int written) {
            Affinity<byte[]> affinity = server.affinity("iot_log");
            IgniteCache<byte[], byte[]> cache = cache(server);
            GridDhtPartitionTopology topology =
                    ((IgniteEx) server).context().cache().internalCache("iot_log").context().topology();
            int all = 0;
            int whole = 0;
            for (int number = 0; number < written; number++) {
                byte[] key = key(number);
                GridDhtLocalPartition copy = topology.localPartition(affinity.partition(key));
                // Asked before: it may be made complete meanwhile.
                boolean complete = copy != null && copy.state() == GridDhtPartitionState.OWNING;
                if (cache.localPeek(key, CachePeekMode.ALL) == null
                        && affinity.isPrimaryOrBackup(server.cluster().localNode(), key)) {
                    all++;
                    whole += complete ? 1 : 0;
                }
            }
            return new Absent(all, whole);
        }
    }

    private static void write(Ignite server, int first) {
        Map<byte[], byte[]> some = new TreeMap<>(Arrays::compare);
        for (int number = first; number < first + MANY; number++) {
            some.put(key(number), ByteBuffer.allocate(500).putInt(number).array());
            if (some.size() == 1000) {
                cache(server).putAll(some);
                some.clear();
            }
        }
    }

    private static byte[] key(int number) {
        return ByteBuffer.allocate(4).putInt(number).array();
    }

    private static IgniteCache<byte[], byte[]> cache(Ignite server) {
        return server.cache("iot_log");
    }

    private Ignite start(int number) {
        trial.set("iot.ignite.name", "server-" + number);
        trial.set("iot.ignite.work", work.resolve("server-" + number).toString());
        trial.set("iot.ignite.client.port", String.valueOf(Trial.freePort()));
        trial.set("iot.ignite.discovery.port", String.valueOf(discovery.get(number)));
        trial.set(
                "iot.ignite.discovery.addresses",
                discovery.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(",")));
        trial.set("iot.ignite.communication.port", String.valueOf(Trial.freePort()));
        trial.set("iot.ignite.region.bytes", String.valueOf(128 << 20));
        trial.set("iot.ignite.persistence", "true");
        trial.set("iot.ignite.quorum", "2");
        // This JVM must not be ended.
        trial.set("iot.ignite.quorum.patience", "3600");
        trial.set("iot.ignite.quorum.first", "3600");
        trial.set("iot.gateway.port", String.valueOf(Trial.freePort()));
        trial.set("iot.gateway.token", Client.TOKEN);
        return Ignition.start("../config/ignite-server.xml");
    }
}
