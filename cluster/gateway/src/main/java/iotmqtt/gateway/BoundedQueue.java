package iotmqtt.gateway;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * A queue between two threads, bounded by the weight of what is in it rather than by a count.
 *
 * <p>An element heavier than the bound is accepted when the queue is empty: the bound is about how much waits, not about
 * how long a frame may be.
 */
final class BoundedQueue<T> {
    private final long bound;
    private final ArrayDeque<T> elements = new ArrayDeque<>();
    private long weight;
    private boolean closed;

    BoundedQueue(long bound) {
        this.bound = bound;
    }

    /** Adds an element, or says false if it does not fit. A closed queue swallows it. */
    synchronized boolean offer(T element, int elementWeight) {
        if (closed) {
            return true;
        }
        if (full(elementWeight)) {
            return false;
        }
        add(element, elementWeight);
        return true;
    }

    /** Adds an element as soon as it fits; false if the queue was closed. */
    synchronized boolean put(T element, int elementWeight) throws InterruptedException {
        while (!closed && full(elementWeight)) {
            wait();
        }
        if (!closed) {
            add(element, elementWeight);
        }
        return !closed;
    }

    /** Everything that waits, as soon as there is something; nothing once the queue is closed and empty. */
    synchronized List<T> takeAll() throws InterruptedException {
        while (elements.isEmpty() && !closed) {
            wait();
        }
        List<T> all = new ArrayList<>(elements);
        elements.clear();
        return all;
    }

    /** Says that elements that were taken are dealt with, and no longer count. */
    synchronized void release(long released) {
        weight -= released;
        notifyAll();
    }

    /** Accepts nothing more; what waits can still be taken. */
    synchronized void close() {
        closed = true;
        notifyAll();
    }

    private boolean full(int more) {
        return weight > 0 && weight + more > bound;
    }

    private void add(T element, int elementWeight) {
        elements.add(element);
        weight += elementWeight;
        notifyAll();
    }
}
