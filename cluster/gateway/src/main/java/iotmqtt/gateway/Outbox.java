package iotmqtt.gateway;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.List;

/** The frames that wait to be sent to a client, and the thread that sends them. */
final class Outbox implements Runnable {
    /** Small frames leave together; a larger one is not copied. */
    private static final int BUFFER = 1 << 16;

    private final BoundedQueue<Outgoing> waiting;
    private final OutputStream out;
    private final Runnable finished;

    /**
     * @param limit bytes that may wait
     * @param finished called when nothing more is sent, because the outbox was closed or the client is gone
     */
    Outbox(OutputStream out, long limit, Runnable finished) {
        this.waiting = new BoundedQueue<>(limit);
        this.out = new BufferedOutputStream(out, BUFFER);
        this.finished = finished;
    }

    /** Sends a frame as soon as the client reads; false if too much waits already. */
    boolean offer(Outgoing frame) {
        return waiting.offer(frame, frame.weight());
    }

    /** Sends what waits, and nothing more. */
    void close() {
        waiting.close();
    }

    @Override
    public void run() {
        try {
            for (List<Outgoing> frames = waiting.takeAll(); !frames.isEmpty(); frames = waiting.takeAll()) {
                for (Outgoing frame : frames) {
                    frame.write(out);
                    waiting.release(frame.weight());
                }
                out.flush();
            }
        } catch (IOException e) {
            // The client is gone; the thread that reads from it says so.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            finished.run();
        }
    }
}
