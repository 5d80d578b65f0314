package iotmqtt.gateway;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** Does what the frames of one welcomed connection ask for, and answers them. */
final class Requests {
    private static final int READS_AT_ONCE = 32;

    private final Services services;
    private final Connection connection;
    private final Gate gate;
    private final AtomicInteger reads = new AtomicInteger();

    Requests(Services services, Connection connection, Gate gate) {
        this.services = services;
        this.connection = connection;
        this.gate = gate;
    }

    /** A request that changes something, or fails. */
    private interface Action {
        void run() throws Refusal;
    }

    /** Handles a frame that is answered in order; the caller does one at a time. */
    void inOrder(Incoming frame) {
        Fields fields = new Fields(frame.body());
        int id;
        try {
            id = fields.i32();
        } catch (Refusal e) {
            connection.close("a request without an id");
            return;
        }
        switch (frame.op()) {
            case Op.COMMIT -> answer(id, () -> write(() -> services.writes().commit(fields)));
            case Op.SWAP -> swap(id, fields);
            case Op.REMOVE_PREFIX -> answer(id, () -> write(() -> services.writes().removePrefix(fields)));
            case Op.LISTEN -> answer(id, () -> services.exchange().listen(onlyText(fields), connection));
            case Op.UNLISTEN -> answer(id, () -> services.exchange().unlisten(onlyText(fields), connection));
            case Op.FENCE -> answer(id, () -> fence(fields));
            case Op.PING -> answer(id, fields::end);
            default -> connection.close("an unknown operation, " + frame.op());
        }
    }

    /** Passes a message on, at once: messages do not wait for commits. */
    void message(byte[] body) throws InterruptedException {
        try {
            Fields fields = new Fields(body);
            String topic = fields.text();
            fields.skipBytes();
            fields.end();
            services.exchange().send(topic, body);
        } catch (Refusal e) {
            // There is no answer that could say so.
            connection.close("a bad message: " + e.getMessage());
        }
    }

    /** Begins to read; it is answered when everything is there, whatever the other requests do. */
    void read(byte[] body) {
        Fields fields = new Fields(body);
        int id;
        try {
            id = fields.i32();
        } catch (Refusal e) {
            connection.close("a request without an id");
            return;
        }
        try {
            List<Wanted> wanted = Wanted.several(fields);
            services.quorum().check();
            if (reads.incrementAndGet() > READS_AT_ONCE) {
                reads.decrementAndGet();
                throw Refusal.notReady("more than " + READS_AT_ONCE + " at a time");
            }
            services.pages().read(wanted, (pages, failure) -> {
                reads.decrementAndGet();
                connection.send(found(id, pages, failure));
            });
        } catch (Refusal e) {
            connection.send(failed(id, e));
        }
    }

    /** Every server took part, so a look at how many there are is enough. */
    private Outgoing found(int id, List<Page> pages, Exception failure) {
        try {
            services.quorum().check();
        } catch (Refusal e) {
            return failed(id, e);
        }
        return failure == null ? Outgoing.found(id, pages) : failed(id, failure);
    }

    private void answer(int id, Action action) {
        Outgoing answer;
        try {
            action.run();
            answer = Outgoing.done(id, Status.DONE, "");
        } catch (Refusal | RuntimeException e) {
            // Ignite says with a dozen kinds of exceptions that a server left, a cluster is inactive, memory is full.
            answer = failed(id, e);
        }
        connection.send(answer);
    }

    private void swap(int id, Fields fields) {
        Status[][] results = new Status[1][];
        Outgoing answer;
        try {
            write(() -> results[0] = services.writes().swap(fields));
            answer = Outgoing.swapped(id, results[0]);
        } catch (Refusal | RuntimeException e) {
            answer = failed(id, e);
        }
        connection.send(answer);
    }

    private void write(Action action) throws Refusal {
        if (!gate.enter()) {
            throw new Refusal(Status.FENCED, "the connection is closed");
        }
        try {
            long begun = services.majority().begin();
            action.run();
            services.majority().confirm(begun);
            if (services.pulse().inDoubt() && !services.alone()) {
                throw Refusal.notReady("this server stood still and may not be of the cluster any more");
            }
        } finally {
            gate.leave();
        }
    }

    /**
     * Fences a node. Only writing the fence is a write: two nodes that fence one another would otherwise both wait for the
     * other's request to end.
     */
    private void fence(Fields fields) throws Refusal {
        int node = fields.u16();
        long boot = fields.u63();
        fields.end();
        Life life = connection.life();
        if (node == 0 || node == life.node() && boot >= life.boot()) {
            throw Refusal.badRequest("a node cannot fence nobody, nor itself");
        }
        long begun = services.majority().begin();
        write(() -> services.fences().forbid(node, boot));
        services.fences().enforce(node, boot);
        services.majority().confirm(begun);
        services.log().info(life + " fenced node " + node + " up to boot " + boot);
    }

    private static String onlyText(Fields fields) throws Refusal {
        String text = fields.text();
        fields.end();
        return text;
    }

    private static Outgoing failed(int id, Exception e) {
        return e instanceof Refusal refusal
                ? Outgoing.done(id, refusal.status, refusal.getMessage())
                : Outgoing.done(id, Status.NOT_READY, e.getClass().getSimpleName() + ": " + e.getMessage());
    }
}
