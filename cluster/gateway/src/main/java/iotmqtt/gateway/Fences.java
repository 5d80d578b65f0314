package iotmqtt.gateway;

import java.time.Duration;
import java.util.List;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;

/**
 * Keeps dead and replaced lives of broker nodes from writing.
 *
 * <p>A fence is an entry of a replicated cache: node number to the greatest boot that is fenced. A connection makes itself
 * known on its server first and reads the fence then; whoever fences writes the fence first and closes what is known on
 * every server then. Whichever comes first, one of the two sees the other.
 */
final class Fences {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final Ignite ignite;
    private final Everywhere everywhere;

    Fences(Ignite ignite, Everywhere everywhere) {
        this.ignite = ignite;
        this.everywhere = everywhere;
    }

    /** Writes the fence: from now on no HELLO of such a life is welcomed. Those that were are not yet closed. */
    void forbid(int node, long boot) {
        IgniteCache<Integer, Long> fences = fences();
        while (true) {
            Long present = fences.get(node);
            if (present != null && present >= boot) {
                return;
            }
            if (present == null ? fences.putIfAbsent(node, boot) : fences.replace(node, present, boot)) {
                return;
            }
        }
    }

    /** Closes what {@link #forbid} forbade, on every server. */
    void enforce(int node, long boot) throws Refusal {
        closed(everywhere.call(CloseJob.fence(node, boot), PATIENCE));
    }

    /** Returns if a connection, already among those of this server, may write: it is the only and the latest one. */
    void admit(Life life) throws Refusal {
        if (life.nobody()) {
            return;
        }
        Long fenced = fences().get(life.node());
        if (fenced != null && fenced >= life.boot()) {
            throw new Refusal(Status.FENCED, "boot " + life.boot() + " of node " + life.node() + " was fenced");
        }
        List<CloseJob.Answer> answers = everywhere.call(CloseJob.supersede(life), PATIENCE);
        if (answers.contains(CloseJob.Answer.SUPERSEDED)) {
            throw new Refusal(Status.FENCED, "a later connection of node " + life.node() + " is there");
        }
        closed(answers);
    }

    private static void closed(List<CloseJob.Answer> answers) throws Refusal {
        if (answers.contains(CloseJob.Answer.STILL_WRITING)) {
            throw Refusal.notReady("a write of a closed connection does not end");
        }
    }

    private IgniteCache<Integer, Long> fences() {
        return ignite.cache(GridCaches.FENCES);
    }
}
