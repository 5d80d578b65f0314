package iotmqtt.gateway;

import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteException;
import org.apache.ignite.IgniteLogger;
import org.apache.ignite.IgniteMessaging;

/**
 * Passes messages from the connections of this server to the listeners on all of them.
 *
 * <p>A message travels as the body of its SEND frame, which is also the body of the DELIVER frames it becomes. It goes
 * only to servers that announced a listener of its topic, in order, on one ordered topic of Ignite. How much is on its
 * way to a server is known by its receipts, and bounded: a server that does not keep up loses messages, as it may.
 */
final class Exchange {
    private static final String MESSAGES = "iotmqtt.gateway.messages";
    private static final String RECEIPTS = "iotmqtt.gateway.receipts";
    private static final long ON_THE_WAY = 64 << 20;
    private static final long RECEIPT_EVERY = 1 << 20;
    private static final Duration MOMENT = Duration.ofMillis(500);
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    /** Another server, as this one sees it: what was sent to it, and what came from it. */
    private static final class Peer {
        final IgniteMessaging messaging;
        private long sent;
        private long receipted;
        private long received;
        private long told;
        private boolean behind;

        Peer(IgniteMessaging messaging) {
            this.messaging = messaging;
        }

        /**
         * Waits a moment for room: a server that merely has much to do makes its senders slower. One that has used up
         * the moment is not waited for again before it gives a sign, so it does not hold up the messages to others.
         */
        synchronized boolean mayTake(int bytes) throws InterruptedException {
            long end = System.nanoTime() + MOMENT.toNanos();
            while (!behind && full(bytes)) {
                long left = (end - System.nanoTime()) / 1_000_000;
                if (left <= 0) {
                    behind = true;
                } else {
                    wait(left);
                }
            }
            if (full(bytes)) {
                return false;
            }
            sent += bytes;
            return true;
        }

        private boolean full(int more) {
            return sent - receipted + more > ON_THE_WAY;
        }

        /** What was not sent after all. */
        synchronized void takeBack(int bytes) {
            sent -= bytes;
        }

        synchronized void receipt(long total) {
            receipted = Math.max(receipted, total);
            behind = false;
            notifyAll();
        }

        /** Counts what came; the total if it is time to tell it, or -1. */
        synchronized long count(int bytes) {
            received += bytes;
            if (received - told < RECEIPT_EVERY) {
                return -1;
            }
            told = received;
            return told;
        }
    }

    private final Ignite ignite;
    private final IgniteLogger log;
    private final Everywhere everywhere;
    private final LocalServer here;
    private final UUID self;
    private final Map<UUID, Peer> peers = new ConcurrentHashMap<>();
    private final LongAdder lost = new LongAdder();

    Exchange(Ignite ignite, IgniteLogger log, Everywhere everywhere, LocalServer here) {
        this.ignite = ignite;
        this.log = log;
        this.everywhere = everywhere;
        this.here = here;
        this.self = ignite.cluster().localNode().id();
    }

    /** Listens to the other servers, and learns what they listen to. */
    void start() throws Refusal {
        ignite.message().localListen(MESSAGES, this::received);
        ignite.message().localListen(RECEIPTS, this::receipt);
        announce();
    }

    void listen(String topic, Connection connection) throws Refusal {
        // Announced even if it is not the first one here: the announcement of that may be under way still.
        here.listeners().add(topic, connection);
        announce();
    }

    void unlisten(String topic, Connection connection) throws Refusal {
        if (here.listeners().remove(topic, connection)) {
            announce();
        }
    }

    /** Forgets a closed connection. That the others go on sending until they hear of it does no harm. */
    void forget(Connection connection) {
        if (here.listeners().removeAll(connection)) {
            try {
                announce();
            } catch (Refusal | RuntimeException e) {
                log.warning("the other servers do not know yet who stopped listening: " + e.getMessage());
            }
        }
    }

    void left(UUID server) {
        here.interest().left(server);
        peers.remove(server);
    }

    /** How many messages were lost on their way to another server. */
    long lost() {
        return lost.sum();
    }

    /** Passes a message on, as soon as the servers it goes to have room for it; what they don't take is lost. */
    void send(String topic, byte[] message) throws InterruptedException {
        int weight = message.length + Outgoing.OVERHEAD;
        deliver(topic, message);
        for (UUID server : here.interest().serversOf(topic)) {
            Peer peer = peer(server);
            if (peer == null || !peer.mayTake(weight)) {
                lost.increment();
                continue;
            }
            try {
                peer.messaging.sendOrdered(MESSAGES, message, 0);
            } catch (IgniteException e) {
                peer.takeBack(weight);
                lost.increment();
                if (log.isDebugEnabled()) {
                    log.debug("a message to server " + server + " is lost: " + e.getMessage());
                }
            }
        }
    }

    private void deliver(String topic, byte[] message) {
        Outgoing frame = Outgoing.deliver(message);
        here.listeners().forEach(topic, connection -> connection.send(frame));
    }

    private boolean received(UUID server, Object sent) {
        byte[] message = (byte[]) sent;
        try {
            deliver(new Fields(message).text(), message);
        } catch (Refusal e) {
            log.warning("server " + server + " passed on a message that is none: " + e.getMessage());
        }
        Peer peer = peer(server);
        long total = peer == null ? -1 : peer.count(message.length + Outgoing.OVERHEAD);
        if (total >= 0) {
            try {
                peer.messaging.send(RECEIPTS, total);
            } catch (IgniteException e) {
                log.warning("a receipt to server " + server + " is lost: " + e.getMessage());
            }
        }
        return true;
    }

    private boolean receipt(UUID server, Object total) {
        Peer peer = peers.get(server);
        if (peer != null) {
            peer.receipt((Long) total);
        }
        return true;
    }

    private Peer peer(UUID server) {
        Peer known = peers.get(server);
        if (known != null || ignite.cluster().node(server) == null) {
            return known;
        }
        return peers.computeIfAbsent(server, id -> new Peer(ignite.message(ignite.cluster().forNodeId(id))));
    }

    private void announce() throws Refusal {
        AnnounceJob job = new AnnounceJob(self, here.listeners().announcement());
        for (AnnounceJob.Answer answer : everywhere.call(job, PATIENCE)) {
            if (!answer.server.equals(self)) {
                here.interest().announced(answer.server, answer.version, Set.of(answer.topics));
            }
        }
    }
}
