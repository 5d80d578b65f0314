package iotmqtt.gateway;

import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * Connections that have not said who they are: so many, so many of one address, and each for so long in all.
 *
 * <p>Where there is no room the newcomer is let in, and the one that has been waiting longest is closed: of the same
 * address if that has its share, else of the address with most. Whoever has the token says so within milliseconds, so
 * whoever opens connections and says nothing, or a byte a second, keeps nobody out.
 */
final class Lobby implements LobbyMXBean {
    /** Somebody who waits here. */
    interface Stranger {
        String address();

        /** Is called at most once, and outside of any lock. */
        void turnAway(String reason);
    }

    static final int MOST = 128;
    static final int MOST_OF_ONE = 64;
    static final long DEADLINE_MS = 10_000;
    /** Lines of the log about strangers that were refused, in a minute. */
    static final int LINES = 10;

    private static final Duration MINUTE = Duration.ofMinutes(1);

    private final LongSupplier nanoTime;
    private final int most;
    private final int mostOfOne;
    /** When each came, in that order. */
    private final Map<Stranger, Long> waiting = new LinkedHashMap<>();
    private final Map<String, Integer> of = new HashMap<>();

    private long minute;
    private int lines = LINES;
    private long entered;
    private long tooLate;
    private long madeRoom;
    private long refused;

    Lobby(LongSupplier nanoTime) {
        this(nanoTime, MOST, MOST_OF_ONE);
    }

    Lobby(LongSupplier nanoTime, int most, int mostOfOne) {
        this.nanoTime = nanoTime;
        this.most = most;
        this.mostOfOne = mostOfOne;
        this.minute = nanoTime.getAsLong() - MINUTE.toNanos();
    }

    /** A connection was accepted; somebody else may have to go for it. */
    void enter(Stranger stranger) {
        Stranger gone = null;
        synchronized (this) {
            entered++;
            if (of.getOrDefault(stranger.address(), 0) >= mostOfOne) {
                gone = takeOldest(stranger.address());
            } else if (waiting.size() >= most) {
                gone = takeOldest(busiest());
            }
            waiting.put(stranger, nanoTime.getAsLong());
            of.merge(stranger.address(), 1, Integer::sum);
            madeRoom += gone == null ? 0 : 1;
        }
        if (gone != null) {
            gone.turnAway("others came, and it had not said HELLO");
        }
    }

    /** It has said who it is, or is gone; false if it was not here (any more). */
    synchronized boolean leave(Stranger stranger) {
        if (waiting.remove(stranger) == null) {
            return false;
        }
        of.computeIfPresent(stranger.address(), (address, count) -> count > 1 ? count - 1 : null);
        return true;
    }

    /** Closes those whose time is over. */
    void sweep() {
        for (Stranger late = takeLate(); late != null; late = takeLate()) {
            late.turnAway("it did not say HELLO in " + DEADLINE_MS / 1000 + " seconds");
        }
    }

    /** It said HELLO, and was refused for what it said; true if the log may have a line about it. */
    synchronized boolean refuse() {
        refused++;
        long now = nanoTime.getAsLong();
        if (now - minute >= MINUTE.toNanos()) {
            minute = now;
            lines = 0;
        }
        return ++lines <= LINES;
    }

    @Override
    public synchronized int getWaiting() {
        return waiting.size();
    }

    @Override
    public synchronized long getEntered() {
        return entered;
    }

    @Override
    public synchronized long getTooLate() {
        return tooLate;
    }

    @Override
    public synchronized long getMadeRoom() {
        return madeRoom;
    }

    @Override
    public synchronized long getRefused() {
        return refused;
    }

    private synchronized Stranger takeLate() {
        Iterator<Map.Entry<Stranger, Long>> oldest = waiting.entrySet().iterator();
        if (!oldest.hasNext()) {
            return null;
        }
        Map.Entry<Stranger, Long> first = oldest.next();
        if (nanoTime.getAsLong() - first.getValue() < DEADLINE_MS * 1_000_000) {
            return null;
        }
        tooLate++;
        Stranger late = first.getKey();
        leave(late);
        return late;
    }

    private Stranger takeOldest(String address) {
        for (Stranger stranger : waiting.keySet()) {
            if (stranger.address().equals(address)) {
                leave(stranger);
                return stranger;
            }
        }
        return null;
    }

    private String busiest() {
        return of.entrySet().stream().max(Map.Entry.comparingByValue()).orElseThrow().getKey();
    }
}
