package iotmqtt.gateway;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Semaphore;

/**
 * A client's connection: a thread that reads, one that does the requests in order, one that sends.
 *
 * <p>There are a handful of connections, one for each broker node near this server. Threads that block make "read no
 * further while commits are behind" and "in order" true without a line of code about them.
 */
final class Connection implements Lobby.Stranger {
    private static final int LONGEST_HELLO = 1 << 10;
    private static final int READ_BUFFER = 1 << 16;
    private static final long BACKLOG = 32 << 20;

    private final Services services;
    private final Socket socket;
    /** Closed without a word of TLS's: that would wait for a client that doesn't read. */
    private final Socket below;
    private final String name;
    private final Gate gate = new Gate();
    private final BoundedQueue<Incoming> backlog = new BoundedQueue<>(BACKLOG);
    private final Outbox outbox;
    private final Requests requests;
    private final Thread worker;
    private final String address;
    private final Lobby lobby;
    private final Semaphore places;
    private boolean placed;
    private volatile Life life;
    private volatile boolean welcomed;

    /**
     * @param below the accepted socket
     * @param socket what is spoken through: the same, or TLS on it
     * @param lobby where it waits until it has said HELLO
     * @param places one of them is taken then
     */
    Connection(Services services, Socket below, Socket socket, Lobby lobby, Semaphore places) throws IOException {
        this.lobby = lobby;
        this.places = places;
        this.services = services;
        this.socket = socket;
        this.below = below;
        this.address = below.getInetAddress().getHostAddress();
        this.name = String.valueOf(below.getRemoteSocketAddress());
        this.outbox = new Outbox(socket.getOutputStream(), services.options().outLimit(), this::closeSocket);
        this.requests = new Requests(services, this, gate);
        this.worker = thread(this::work, "requests");
    }

    void start() {
        lobby.enter(this);
        thread(outbox, "sending").start();
        thread(this::read, "reading").start();
    }

    /** Whose connection it is; null before HELLO. */
    Life life() {
        return life;
    }

    boolean closed() {
        return gate.closed();
    }

    @Override
    public String address() {
        return address;
    }

    /** Without a line of the log: strangers are counted. */
    @Override
    public void turnAway(String reason) {
        gate.close();
        close(reason);
    }

    /** Sends a frame, or closes the connection if too much waits for its client already. */
    void send(Outgoing frame) {
        if (!outbox.offer(frame)) {
            close("it does not read what is sent to it");
        }
    }

    /** Sends news of the topology; a connection that is not welcomed yet will hear of it then. */
    void topology(Outgoing frame) {
        if (welcomed) {
            send(frame);
        }
    }

    void welcomed() {
        welcomed = true;
    }

    /** Begins no more writes, reads and sends nothing more. What was begun goes on: {@link #awaitWrites}. */
    void close(String reason) {
        if (gate.close()) {
            services.log().info("connection of " + (life == null ? "a stranger" : life) + " from " + name + " closed: " + reason);
        }
        backlog.close();
        outbox.close();
        closeSocket();
    }

    boolean awaitWrites(Duration atMost) throws InterruptedException {
        return gate.awaitEmpty(atMost);
    }

    private void read() {
        String reason = "its client left";
        try {
            DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), READ_BUFFER));
            hello(Incoming.read(in, LONGEST_HELLO));
            worker.start();
            int longest = services.options().longestFrame();
            for (Incoming frame = Incoming.read(in, longest); frame != null; frame = Incoming.read(in, longest)) {
                if (!accept(frame)) {
                    break;
                }
            }
        } catch (Refusal e) {
            refuse(e);
            reason = null;
        } catch (IOException e) {
            reason = String.valueOf(e.getMessage());
        } catch (InterruptedException e) {
            reason = "the server is stopping";
        } finally {
            boolean left = !gate.closed();
            if (reason != null) {
                close(reason);
            }
            if (left && welcomed) {
                tellGone();
            }
            forget();
        }
    }

    private void tellGone() {
        try {
            services.lives().gone(life);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IllegalStateException e) {
            services.log().info("the end of the connection of " + life + " is not told: " + e.getMessage());
        }
    }

    private boolean accept(Incoming frame) throws InterruptedException {
        switch (frame.op()) {
            case Op.SEND -> requests.message(frame.body());
            case Op.READ -> requests.read(frame.body());
            default -> {
                return backlog.put(frame, frame.weight());
            }
        }
        return !gate.closed();
    }

    private void hello(Incoming frame) throws Refusal, IOException, InterruptedException {
        if (frame == null || frame.op() != Op.HELLO) {
            throw new IOException("the first frame is not HELLO");
        }
        Fields fields = new Fields(frame.body());
        int version = fields.u8();
        if (version != Op.VERSION) {
            throw new Refusal(
                    Status.UNKNOWN_VERSION,
                    "this gateway speaks version " + Op.VERSION + " of its protocol and the node version " + version
                            + ": node and Ignite server have to be of the same release");
        }
        byte[] token = fields.text().getBytes(StandardCharsets.UTF_8);
        if (!MessageDigest.isEqual(token, services.options().token().getBytes(StandardCharsets.UTF_8))) {
            throw new Refusal(Status.WRONG_TOKEN, "wrong token");
        }
        if (!lobby.leave(this)) {
            throw new IOException("its HELLO came too late");
        }
        if (!places.tryAcquire()) {
            throw Refusal.notReady("there are too many connections already");
        }
        placed = true;
        Life greeted = new Life(fields.u16(), fields.u63(), fields.u32());
        fields.end();
        life = greeted;
        if (services.pulse().inDoubt() && !services.alone()) {
            throw Refusal.notReady("this server stood still and may not be of the cluster any more");
        }
        services.activation().check();
        long begun = services.majority().begin();
        // First known, then examined: see Fences.
        services.here().connections().add(this);
        try {
            services.fences().admit(greeted);
            services.majority().confirm(begun);
        } catch (RuntimeException e) {
            throw Refusal.notReady(e.getClass().getSimpleName() + ": " + e.getMessage());
        }
        services.log().info("connection of " + greeted + " from " + name);
        services.topology()
                .welcome(
                        this,
                        Outgoing.welcome(
                                services.ignite().cluster().localNode().id(), services.options().longestFrame()));
        send(services.room().frame());
        services.lives().here(greeted);
    }

    private void refuse(Refusal refusal) {
        boolean worthALine = lobby.refuse();
        String said = "refused " + (life == null ? "a stranger" : life) + " from " + name + ": " + refusal.getMessage();
        if (life != null && life.node() == 0) {
            // Tools that look whether this server is ready yet, several times a second.
            services.log().info(said);
        } else if (worthALine || life != null) {
            services.log().warning(said);
        }
        gate.close();
        outbox.offer(Outgoing.refused(refusal.status, refusal.getMessage()));
        outbox.close();
    }

    private void work() {
        try {
            for (List<Incoming> frames = backlog.takeAll(); !frames.isEmpty(); frames = backlog.takeAll()) {
                for (Incoming frame : frames) {
                    if (gate.closed()) {
                        return;
                    }
                    requests.inOrder(frame);
                    backlog.release(frame.weight());
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Leaves every list, when nothing is under way any more: until then a fence has to find this. */
    private void forget() {
        try {
            worker.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        services.exchange().forget(this);
        services.here().connections().remove(this);
        lobby.leave(this);
        if (placed) {
            places.release();
        }
    }

    private void closeSocket() {
        try {
            below.close();
        } catch (IOException e) {
            services.log().warning("cannot close the connection from " + name + ": " + e.getMessage());
        }
    }

    private Thread thread(Runnable body, String task) {
        Thread thread = new Thread(body, "gateway-" + task + "-" + name);
        thread.setDaemon(true);
        return thread;
    }
}
