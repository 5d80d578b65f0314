package iotmqtt.gateway;

import java.util.Set;
import java.util.UUID;
import org.apache.ignite.Ignite;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/** Tells a server which topics another one has listeners of, and asks it for its own. */
final class AnnounceJob implements IgniteCallable<AnnounceJob.Answer> {
    private static final long serialVersionUID = 1L;

    /** The topics of the server that was told. */
    static final class Answer {
        final UUID server;
        final long version;
        final String[] topics;

        Answer(UUID server, Listeners.Announcement announcement) {
            this.server = server;
            this.version = announcement.version();
            this.topics = announcement.topics().toArray(String[]::new);
        }
    }

    private final UUID server;
    private final long version;
    private final String[] topics;

    @IgniteInstanceResource
    private transient Ignite ignite;

    AnnounceJob(UUID server, Listeners.Announcement announcement) {
        this.server = server;
        this.version = announcement.version();
        this.topics = announcement.topics().toArray(String[]::new);
    }

    @Override
    public Answer call() {
        LocalServer here = LocalServer.of(ignite);
        UUID id = ignite.cluster().localNode().id();
        if (!id.equals(server)) {
            here.interest().announced(server, version, Set.of(topics));
        }
        return new Answer(id, here.listeners().announcement());
    }
}
