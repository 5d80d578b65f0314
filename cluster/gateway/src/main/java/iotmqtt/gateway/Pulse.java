package iotmqtt.gateway;

import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * Notices that this server stood still: a paused virtual machine, a stopped process, a very long collection of garbage.
 *
 * <p>The other servers drop one that does not answer for the failure detection timeout. It does not know that when it goes
 * on: it believes that it is the others who do not answer, and would be a cluster of its own that says "done" to writes
 * nobody else ever sees. So after standing still for long it is in doubt for a while, in which it says "done" to nothing;
 * and if it sees another server fail in that while, it is itself the one who was dropped.
 */
final class Pulse {
    /** Less than the failure detection timeout, so that whoever was dropped is in doubt. */
    static final Duration STILL = Duration.ofSeconds(4);

    /** More than the failure detection timeout: in this time whoever was dropped sees the others fail. */
    static final Duration DOUBT = Duration.ofSeconds(10);

    private final LongSupplier nanoTime;
    private long lastBeat;
    private long doubtUntil;

    Pulse(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
        this.lastBeat = nanoTime.getAsLong();
        this.doubtUntil = lastBeat;
    }

    /** To be called several times a second; true if the server stood still since the last call. */
    synchronized boolean beat() {
        long now = nanoTime.getAsLong();
        boolean stood = now - lastBeat > STILL.toNanos();
        if (stood) {
            doubtUntil = now + DOUBT.toNanos();
        }
        lastBeat = now;
        return stood;
    }

    /** Whether the server stood still a short while ago; true before {@link #beat} was able to notice, too. */
    synchronized boolean inDoubt() {
        long now = nanoTime.getAsLong();
        return now - lastBeat > STILL.toNanos() || now - doubtUntil < 0;
    }
}
