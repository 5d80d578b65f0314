package iotmqtt.gateway;

import java.time.Duration;
import org.apache.ignite.Ignite;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.resources.IgniteInstanceResource;

/**
 * Closes earlier connections of a node on a server, and waits until what they had begun to write is finished.
 *
 * <p>Answers whether there is none left, and none later than the one this is done for.
 */
final class CloseJob implements IgniteCallable<CloseJob.Answer> {
    private static final long serialVersionUID = 1L;
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    /** What a server says. */
    enum Answer {
        CLOSED,
        STILL_WRITING,
        SUPERSEDED
    }

    private final int node;
    private final long boot;
    private final long connection;
    private final boolean fence;

    @IgniteInstanceResource
    private transient Ignite ignite;

    private CloseJob(int node, long boot, long connection, boolean fence) {
        this.node = node;
        this.boot = boot;
        this.connection = connection;
        this.fence = fence;
    }

    /** Of every life up to this one, for ever. */
    static CloseJob fence(int node, long boot) {
        return new CloseJob(node, boot, Long.MAX_VALUE, true);
    }

    /** Of what came before this connection. */
    static CloseJob supersede(Life life) {
        return new CloseJob(life.node(), life.boot(), life.connection(), false);
    }

    @Override
    public Answer call() throws InterruptedException {
        Connections connections = LocalServer.of(ignite).connections();
        Life limit = new Life(node, boot, connection);
        String reason = fence ? "the node was fenced" : "a later connection of the node is here";
        if (!connections.close(life -> life.before(limit), reason, PATIENCE)) {
            return Answer.STILL_WRITING;
        }
        return !fence && connections.any(limit::before) ? Answer.SUPERSEDED : Answer.CLOSED;
    }
}
