package iotmqtt.gateway;

import java.util.Collection;
import org.apache.ignite.Ignite;
import org.apache.ignite.cluster.ClusterNode;

/** Tells the connections which servers there are: at first, and whenever that changes. */
final class Topology {
    private final Connections connections;
    private Outgoing present;
    private long version;
    private volatile boolean others;

    Topology(Ignite ignite, Connections connections) {
        this.connections = connections;
        update(ignite.cluster().topologyVersion(), ignite.cluster().nodes());
    }

    synchronized void changed(long newVersion, Collection<ClusterNode> nodes) {
        if (newVersion > version) {
            update(newVersion, nodes);
            connections.all().forEach(connection -> connection.topology(present));
        }
    }

    /** Sends what a connection is welcomed with; nothing about the topology is sent to it before. */
    synchronized void welcome(Connection connection, Outgoing welcome) {
        connection.send(welcome);
        connection.send(present);
        connection.welcomed();
    }

    /** Whether this server has never seen another one. */
    boolean alwaysAlone() {
        return !others;
    }

    private void update(long newVersion, Collection<ClusterNode> nodes) {
        int servers = (int) nodes.stream().filter(node -> !node.isClient()).count();
        others |= servers > 1;
        version = newVersion;
        present = Outgoing.topology(newVersion, servers);
    }
}
