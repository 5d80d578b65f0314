package iotmqtt.gateway;

import java.util.Collection;
import org.apache.ignite.cluster.ClusterNode;
import org.apache.ignite.configuration.TopologyValidator;

/** Keeps Ignite from changing a cache with fewer servers than a quorum. Reading it is kept from elsewhere: {@link ThinPort}. */
final class EnoughServers implements TopologyValidator {
    private static final long serialVersionUID = 1L;

    private final int needed;

    EnoughServers(int needed) {
        this.needed = needed;
    }

    @Override
    public boolean validate(Collection<ClusterNode> nodes) {
        return nodes.stream().filter(node -> !node.isClient()).count() >= needed;
    }
}
