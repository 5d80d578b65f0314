package iotmqtt.gateway;

import java.time.Duration;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;

/**
 * Whether enough servers are there for what they say to count, and for how long they have not been.
 *
 * <p>When the network falls apart each part goes on as a cluster of its own. With a quorum of more than half of the servers
 * at most one part does: the others say nothing, and their servers stop, because parts never become one again by
 * themselves. A server that has not been of a quorum yet is patient: the others may be starting.
 */
final class Quorum {
    /** How long connections stay open: servers that are being started meet within it. */
    static final Duration GRACE = Duration.ofSeconds(1);

    /** What is to be done. */
    enum State {
        ENOUGH,
        /** Answer nothing. */
        FEW,
        /** Close the connections, so that whoever is behind them looks for another server. */
        ALONE,
        /** Stop. */
        GIVEN_UP
    }

    private final int needed;
    private final Duration patience;
    private final Duration first;
    private final IntSupplier servers;
    private final LongSupplier nanoTime;
    private boolean had;
    private boolean few;
    private long fewSince;

    /**
     * @param needed how many servers make a quorum
     * @param patience how long it may be lost
     * @param first how long it may take to be found
     * @param servers how many are there
     */
    Quorum(int needed, Duration patience, Duration first, IntSupplier servers, LongSupplier nanoTime) {
        this.needed = needed;
        this.patience = patience;
        this.first = first;
        this.servers = servers;
        this.nanoTime = nanoTime;
    }

    /** Whether a single server is enough, so that there is nothing to look at. */
    boolean trivial() {
        return needed <= 1;
    }

    /** To be called several times a second. */
    synchronized State beat() {
        if (trivial() || servers.getAsInt() >= needed) {
            had = true;
            few = false;
            return State.ENOUGH;
        }
        long now = nanoTime.getAsLong();
        if (!few) {
            few = true;
            fewSince = now;
        }
        long passed = now - fewSince;
        if (passed >= (had ? patience : first).toNanos()) {
            return State.GIVEN_UP;
        }
        return passed >= GRACE.toNanos() ? State.ALONE : State.FEW;
    }

    /** Whether so many servers are one. */
    boolean enough(int there) {
        return there >= needed;
    }

    /** Refuses if there are too few servers at this moment. */
    void check() throws Refusal {
        if (!trivial()) {
            check(servers.getAsInt());
        }
    }

    /** Refuses if this is too few servers. */
    void check(long there) throws Refusal {
        if (there < needed) {
            throw Refusal.notReady("not ready: " + count(there));
        }
    }

    /** How it stands, for people. */
    String described() {
        return count(servers.getAsInt());
    }

    private String count(long there) {
        return there + " of the " + needed + " servers that a quorum takes";
    }
}
