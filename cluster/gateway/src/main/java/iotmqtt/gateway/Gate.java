package iotmqtt.gateway;

import java.time.Duration;

/**
 * Where the writes of one connection pass, one at a time, until it is closed.
 *
 * <p>Fencing a node is closing the gates of its connections and waiting for whoever is inside.
 */
final class Gate {
    private boolean closed;
    private boolean occupied;

    /** Enters, unless the gate is closed. */
    synchronized boolean enter() {
        if (closed) {
            return false;
        }
        occupied = true;
        return true;
    }

    synchronized void leave() {
        occupied = false;
        notifyAll();
    }

    /** Lets nobody in any more; true if it was open. */
    synchronized boolean close() {
        boolean first = !closed;
        closed = true;
        return first;
    }

    synchronized boolean closed() {
        return closed;
    }

    /** Waits until nobody is inside; false if that took too long. */
    synchronized boolean awaitEmpty(Duration atMost) throws InterruptedException {
        long end = System.nanoTime() + atMost.toNanos();
        while (occupied) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) {
                return false;
            }
            wait(left);
        }
        return true;
    }
}
