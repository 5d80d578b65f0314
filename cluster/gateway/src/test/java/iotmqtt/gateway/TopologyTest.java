package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCluster;
import org.apache.ignite.cluster.ClusterNode;
import org.junit.jupiter.api.Test;

/** Which servers there are, however they came. */
class TopologyTest {
    private final List<ClusterNode> nodes = new ArrayList<>(List.of(server()));
    private long version = 1;
    /** What happens the next time that the nodes are asked for. */
    private Runnable meanwhile = () -> {};

    private final IgniteCluster cluster = proxy(IgniteCluster.class, name -> switch (name) {
        case "topologyVersion" -> version;
        case "nodes" -> {
            List<ClusterNode> found = List.copyOf(nodes);
            Runnable now = meanwhile;
            meanwhile = () -> {};
            now.run();
            yield found;
        }
        default -> throw new UnsupportedOperationException(name);
    });
    private final Ignite ignite = proxy(Ignite.class, name -> cluster);

    @Test
    void aServerThatJoinedBeforeAnybodyListenedIsSeen() {
        Topology topology = new Topology(ignite, new Connections());
        assertTrue(topology.alwaysAlone());
        join();
        topology.look(ignite);
        assertFalse(topology.alwaysAlone());
        assertEquals(2, topology.version());
    }

    @Test
    void aServerThatJoinsWhileTheNodesAreReadIsSeen() {
        meanwhile = this::join;
        Topology topology = new Topology(ignite, new Connections());
        assertFalse(topology.alwaysAlone());
        assertEquals(2, topology.version());
    }

    @Test
    void whatIsOlderThanWhatWasHeardChangesNothing() {
        Topology topology = new Topology(ignite, new Connections());
        topology.changed(3, List.of(server(), server(), server()));
        topology.look(ignite);
        assertEquals(3, topology.version());
    }

    private void join() {
        nodes.add(server());
        version++;
    }

    private static ClusterNode server() {
        return proxy(ClusterNode.class, name -> false);
    }

    private interface Answer {
        Object to(String method);
    }

    private static <T> T proxy(Class<T> type, Answer answer) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> answer.to(method.getName())));
    }
}
