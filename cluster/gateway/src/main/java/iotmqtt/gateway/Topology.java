package iotmqtt.gateway;

import java.util.Collection;
import org.apache.ignite.Ignite;
import org.apache.ignite.cluster.ClusterNode;

/** Tells the connections which servers there are, and what they lack: at first, and whenever that changes. */
final class Topology {
    /** Copies are looked for soon. */
    static final int UNKNOWN = -1;

    private final Connections connections;
    private Outgoing present;
    private long version;
    private int servers;
    private int missing = UNKNOWN;
    private volatile boolean others;

    Topology(Ignite ignite, Connections connections) {
        this.connections = connections;
        look(ignite);
    }

    /**
     * Says what is the case now. To be called once changes are listened to: a server that joined between this object's
     * making and that would never be heard of.
     */
    synchronized void look(Ignite ignite) {
        long before;
        Collection<ClusterNode> nodes;
        do {
            before = ignite.cluster().topologyVersion();
            nodes = ignite.cluster().nodes();
        } while (before != ignite.cluster().topologyVersion());
        if (before >= version) {
            update(before, nodes);
            tell();
        }
    }

    synchronized void changed(long newVersion, Collection<ClusterNode> nodes) {
        if (newVersion > version) {
            missing = UNKNOWN;
            update(newVersion, nodes);
            tell();
        }
    }

    /** So many partitions lack copies, as of this version. */
    synchronized void lacks(long countedVersion, int copies) {
        if (countedVersion == version && copies != missing) {
            missing = copies;
            present = Outgoing.topology(version, servers, missing);
            tell();
        }
    }

    synchronized long version() {
        return version;
    }

    private void tell() {
        connections.all().forEach(connection -> connection.topology(present));
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
        servers = (int) nodes.stream().filter(node -> !node.isClient()).count();
        others |= servers > 1;
        version = newVersion;
        present = Outgoing.topology(newVersion, servers, missing);
    }
}
