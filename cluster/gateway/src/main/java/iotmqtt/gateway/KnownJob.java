package iotmqtt.gateway;

import java.util.UUID;
import org.apache.ignite.Ignite;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/** Asks a server whether another one is of the cluster to it. */
final class KnownJob implements IgniteCallable<Boolean> {
    private static final long serialVersionUID = 1L;

    private final UUID server;

    @IgniteInstanceResource
    private transient Ignite ignite;

    KnownJob(UUID server) {
        this.server = server;
    }

    @Override
    public Boolean call() {
        return ignite.cluster().node(server) != null;
    }
}
