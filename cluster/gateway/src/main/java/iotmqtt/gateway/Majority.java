package iotmqtt.gateway;

import java.time.Duration;
import java.util.UUID;
import org.apache.ignite.Ignite;

/**
 * Keeps a server that is cut off from saying "done".
 *
 * <p>A write waits for the copy on another server until that is given up for lost, and is done without it then. A server
 * that is cut off from all others gives them up one after the other: so whenever the servers changed while something was
 * done, those that seem to be there are asked whether they are, and whether this one is to them.
 */
final class Majority {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private final Ignite ignite;
    private final Everywhere everywhere;
    private final Quorum quorum;
    private final UUID self;

    Majority(Ignite ignite, Everywhere everywhere, Quorum quorum) {
        this.ignite = ignite;
        this.everywhere = everywhere;
        this.quorum = quorum;
        this.self = ignite.cluster().localNode().id();
    }

    /** Refuses if there is none; what it returns is for {@link #confirm}. */
    long begin() throws Refusal {
        quorum.check();
        return ignite.cluster().topologyVersion();
    }

    /** Refuses if it is not certain that there was one all the time since {@link #begin}. */
    void confirm(long begun) throws Refusal {
        quorum.check();
        if (!quorum.trivial() && ignite.cluster().topologyVersion() != begun) {
            quorum.check(everywhere.call(new KnownJob(self), PATIENCE).stream()
                    .filter(Boolean::booleanValue)
                    .count());
        }
    }
}
