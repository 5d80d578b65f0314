package iotmqtt.gateway;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteException;
import org.apache.ignite.cluster.ClusterNode;
import org.apache.ignite.lang.IgniteCallable;
import org.apache.ignite.lang.IgniteFuture;

/**
 * Does something on every server and waits until all have done it.
 *
 * <p>A server that leaves meanwhile need not answer; one that joins meanwhile is asked too. So when this returns there is
 * no server that has not done it, except one that joins later and has to find out by itself.
 */
final class Everywhere {
    private final Ignite ignite;

    Everywhere(Ignite ignite) {
        this.ignite = ignite;
    }

    /** The answers of the servers, this one's among them. */
    <R> List<R> call(IgniteCallable<R> job, Duration atMost) throws Refusal {
        long end = System.nanoTime() + atMost.toNanos();
        Map<UUID, R> answers = new HashMap<>();
        while (true) {
            Map<UUID, IgniteFuture<Collection<R>>> asked = new HashMap<>();
            for (ClusterNode server : ignite.cluster().forServers().nodes()) {
                if (!answers.containsKey(server.id())) {
                    asked.put(server.id(), ask(server, job));
                }
            }
            if (asked.isEmpty()) {
                return new ArrayList<>(answers.values());
            }
            for (Map.Entry<UUID, IgniteFuture<Collection<R>>> one : asked.entrySet()) {
                await(one.getKey(), one.getValue(), end, answers);
            }
        }
    }

    /** A broadcast to one: a call would be balanced, and the balancer hears of a server later than we do. */
    private <R> IgniteFuture<Collection<R>> ask(ClusterNode server, IgniteCallable<R> job) {
        return ignite.compute(ignite.cluster().forNode(server)).withNoFailover().broadcastAsync(job);
    }

    private <R> void await(UUID server, IgniteFuture<Collection<R>> answer, long end, Map<UUID, R> answers)
            throws Refusal {
        try {
            for (R one : answer.get(Math.max(1, (end - System.nanoTime()) / 1_000_000))) {
                answers.put(server, one);
            }
        } catch (IgniteException e) {
            if (ignite.cluster().node(server) != null) {
                throw Refusal.notReady("server " + server + " did not answer: " + e.getMessage());
            }
        }
    }
}
