package iotmqtt.gateway;

import java.time.Duration;
import java.util.function.LongSupplier;
import org.apache.ignite.IgniteLogger;

/** A warning about something that is tried several times a second: said when it is new, and once a minute. */
final class Complaint {
    static final Duration AGAIN = Duration.ofMinutes(1);

    private final IgniteLogger log;
    private final LongSupplier nanoTime;
    private String said;
    private long saidAt;

    Complaint(IgniteLogger log, LongSupplier nanoTime) {
        this.log = log;
        this.nanoTime = nanoTime;
    }

    void say(String what) {
        long now = nanoTime.getAsLong();
        if (what.equals(said) && now - saidAt < AGAIN.toNanos()) {
            return;
        }
        said = what;
        saidAt = now;
        log.warning(what);
    }

    /** It works: the same would be new. */
    void over() {
        said = null;
    }
}
