package iotmqtt.gateway;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import javax.management.JMException;
import javax.net.ssl.SSLSocket;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteException;
import org.apache.ignite.IgniteLogger;
import org.apache.ignite.events.DiscoveryEvent;
import org.apache.ignite.events.Event;
import org.apache.ignite.events.EventType;
import org.apache.ignite.lifecycle.LifecycleBean;
import org.apache.ignite.lifecycle.LifecycleEventType;
import org.apache.ignite.resources.IgniteInstanceResource;

/**
 * The messaging gateway of one Ignite server, see PROTOCOL.md: accepts the connections of brokers while the server lives.
 */
public final class Gateway implements LifecycleBean {
    private static final int BACKLOG = 50;
    private static final int MOST_CONNECTIONS = 512;
    private static final Duration LAST_WRITES = Duration.ofSeconds(10);
    private static final long BEAT_MS = 250;
    /** In which Ignite accepts less than it has memory for. */
    private static final long LOOK_MS = 50;

    /** For whoever supervises this process: it is to be started again. */
    private static final int START_AGAIN = 3;

    private final Options options;
    private final Semaphore places = new Semaphore(MOST_CONNECTIONS);
    private final Lobby lobby = new Lobby(System::nanoTime);
    private ServerSocket listening;
    private volatile boolean stopping;
    private Services services;
    private IgniteLogger log;

    @IgniteInstanceResource
    private Ignite ignite;

    /**
     * @param host the address to accept connections at
     * @param port its port; 0 picks one
     * @param token what a client has to know
     * @param outLimit bytes that may wait for a client before its connection is closed
     * @param longestFrame the greatest length of a frame
     * @param quorum with fewer servers than this nothing is answered
     * @param quorumPatience seconds without a quorum after which this server stops
     * @param quorumFirst the same as long as it has not been of a quorum yet
     * @param tls whose certificates clients have to show; null: everything is in plain text
     * @param plain whether that may be so beyond the loopback interface
     */
    public Gateway(
            String host,
            int port,
            String token,
            long outLimit,
            int longestFrame,
            int quorum,
            int quorumPatience,
            int quorumFirst,
            Pem tls,
            boolean plain) {
        this.options = new Options(
                host, port, token, outLimit, longestFrame, quorum, quorumPatience, quorumFirst, tls, plain);
    }

    @Override
    public void onLifecycleEvent(LifecycleEventType event) {
        switch (event) {
            case AFTER_NODE_START -> start();
            case BEFORE_NODE_STOP -> stop();
            default -> {}
        }
    }

    /** The port connections are accepted at. */
    public int port() {
        return listening.getLocalPort();
    }

    private void start() {
        log = ignite.log().getLogger(Gateway.class);
        services = Services.of(ignite, log, options);
        keepQuorum();
        daemon(this::beat, "gateway-pulse");
        daemon(this::countCopies, "gateway-copies");
        daemon(this::activate, "gateway-activation");
        ignite.events()
                .localListen(
                        this::topologyChanged,
                        EventType.EVT_NODE_JOINED,
                        EventType.EVT_NODE_LEFT,
                        EventType.EVT_NODE_FAILED,
                        EventType.EVT_NODE_SEGMENTED);
        services.topology().look(ignite);
        try {
            services.room().start();
            services.exchange().start();
            listening = new ServerSocket();
            listening.setReuseAddress(true);
            listening.bind(new InetSocketAddress(InetAddress.getByName(options.host()), options.port()), BACKLOG);
        } catch (Refusal | IOException e) {
            throw new IgniteException(
                    "the gateway cannot start at " + options.host() + ":" + options.port() + ": " + e.getMessage(), e);
        }
        try {
            LobbyReport.register(lobby, ignite.name());
        } catch (JMException e) {
            log.warning("the gateway's counters are not in JMX: " + e);
        }
        daemon(this::accept, "gateway-accepting");
        daemon(this::watchLobby, "gateway-lobby");
        boolean tls = options.tls() != null;
        Lobby clients = new Lobby(System::nanoTime);
        Lobby servers = new Lobby(System::nanoTime);
        watchPort(IgnitePort.ofThinClients(ignite, clients, tls), clients, "thin clients", tls);
        watchPort(IgnitePort.ofServers(ignite, servers, tls), servers, "communication", tls);
        Lobby joining = new Lobby(System::nanoTime);
        watchPort(IgnitePort.ofDiscovery(ignite, joining), joining, "discovery", tls);
        if (options.tls() == null) {
            log.warning("this server speaks plain text: whoever reaches its ports or reads its traffic may read and change"
                    + " everything, for Ignite's own ports ask for no token; set -Diot.tls.cert, -Diot.tls.key and"
                    + " -Diot.tls.ca");
        }
        log.info("gateway of " + ignite.cluster().localNode().id() + " accepts connections at " + options.host() + ":" + port());
    }

    private void stop() {
        stopping = true;
        if (listening == null) {
            return;
        }
        closeQuietly(listening);
        try {
            LobbyReport.unregister(ignite.name());
        } catch (JMException e) {
            log.warning("cannot take the gateway's counters out of JMX: " + e);
        }
        for (Connection connection : services.here().connections().all()) {
            connection.close("the server is stopping");
            try {
                connection.awaitWrites(LAST_WRITES);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    /** Closes every connection after standing still: whoever is behind them finds a server that is not in doubt. */
    private void beat() {
        Complaint complaint = new Complaint(log, System::nanoTime);
        while (!stopping) {
            if (services.pulse().beat() && !services.alone()) {
                log.error("this server stood still for more than " + Pulse.STILL.toSeconds()
                        + " seconds; the others may have dropped it");
                closeAll("the server stood still");
            }
            try {
                keepQuorum();
                Thread.sleep(BEAT_MS);
                services.room().beat();
                complaint.over();
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException e) {
                // The cluster is changing, or this server is stopping; the next beat does it again.
                complain(complaint, "cannot look at the other servers, or tell them how full this one is: " + e.getMessage());
            }
        }
    }

    /** In a thread of its own, because nothing that the cluster does may delay it. */
    private void watchLobby() {
        LobbyReport report = new LobbyReport(lobby, "the gateway", "say HELLO", log, System::nanoTime);
        while (!stopping) {
            try {
                Thread.sleep(BEAT_MS);
            } catch (InterruptedException e) {
                return;
            }
            lobby.sweep();
            report.look();
        }
    }

    private void watchPort(IgnitePort port, Lobby strangers, String name, boolean tls) {
        LobbyReport report =
                new LobbyReport(strangers, name, tls ? "show a certificate" : "say anything", log, System::nanoTime);
        daemon(
                () -> {
                    Complaint complaint = new Complaint(log, System::nanoTime);
                    while (!stopping) {
                        try {
                            Thread.sleep(LOOK_MS);
                            port.look();
                            report.look();
                            complaint.over();
                        } catch (InterruptedException e) {
                            return;
                        } catch (RuntimeException e) {
                            complain(complaint, "cannot look at the port of " + name + ": " + e);
                        }
                    }
                },
                "gateway-port-" + name);
    }

    /** In a thread of its own: a change of state takes as long as it takes. */
    private void activate() {
        while (!stopping) {
            try {
                Thread.sleep(BEAT_MS);
                services.activation().step();
            } catch (InterruptedException | IllegalStateException e) {
                return;
            }
        }
    }

    /** In a thread of its own: while the servers settle who has what, looking at that may have to wait. */
    private void countCopies() {
        Topology topology = services.topology();
        Complaint complaint = new Complaint(log, System::nanoTime);
        while (!stopping) {
            try {
                Thread.sleep(BEAT_MS);
                long version = topology.version();
                topology.lacks(version, services.copies().missing(services.alone()));
                complaint.over();
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException e) {
                complain(complaint, "cannot count copies: " + e.getMessage());
            }
        }
    }

    /** A server that is stopping can do nothing more, which worries nobody. */
    private void complain(Complaint complaint, String what) {
        if (!stopping) {
            complaint.say(what);
        }
    }

    private void keepQuorum() {
        Quorum.State state = services.quorum().beat();
        if (state == Quorum.State.ENOUGH) {
            services.thinPort().open();
            return;
        }
        services.thinPort().close();
        if (state != Quorum.State.FEW) {
            closeAll(services.quorum().described());
        }
        if (state == Quorum.State.GIVEN_UP && !stopping) {
            leave("there are only " + services.quorum().described()
                    + ", and have been for too long: this server may be cut off from the others, and stops to join them anew"
                    + " when it is started again");
        }
    }

    /** Ends the process, even if Ignite does not. */
    private void leave(String why) {
        stopping = true;
        log.error(why + " (exit code " + START_AGAIN + ")");
        daemon(() -> System.exit(START_AGAIN), "gateway-leaving");
        daemon(
                () -> {
                    try {
                        Thread.sleep(LAST_WRITES.multipliedBy(2).toMillis());
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                    Runtime.getRuntime().halt(START_AGAIN);
                },
                "gateway-leaving-at-last");
    }

    private void closeAll(String reason) {
        services.here().connections().all().forEach(connection -> connection.close(reason));
    }

    private boolean topologyChanged(Event event) {
        DiscoveryEvent discovery = (DiscoveryEvent) event;
        if (event.type() == EventType.EVT_NODE_SEGMENTED) {
            // Ignite stops it, too, but takes seconds over that, in which it goes on to answer.
            services.thinPort().close();
            closeAll("the server was dropped from the cluster");
            leave("this server does not reach the others, or was dropped by them, and stops");
            return false;
        }
        if (event.type() == EventType.EVT_NODE_FAILED
                && !discovery.eventNode().isClient()
                && services.pulse().inDoubt()) {
            closeAll("the server was dropped from the cluster");
            leave("this server stood still and sees others fail: it is the one that was dropped, and stops");
            return false;
        }
        if (event.type() != EventType.EVT_NODE_JOINED) {
            services.exchange().left(discovery.eventNode().id());
        }
        keepQuorum();
        services.topology().changed(discovery.topologyVersion(), discovery.topologyNodes());
        return true;
    }

    private void accept() {
        while (!listening.isClosed()) {
            Socket socket = null;
            try {
                socket = listening.accept();
                socket.setTcpNoDelay(true);
                socket.setKeepAlive(true);
                new Connection(services, socket, inTls(socket), lobby, places).start();
            } catch (IOException | IllegalArgumentException e) {
                if (socket != null) {
                    closeQuietly(socket);
                }
                if (!listening.isClosed()) {
                    log.warning("cannot accept a connection: " + e.getMessage());
                }
            }
        }
    }

    /** The socket that is spoken through; the handshake comes with the first read. */
    private Socket inTls(Socket accepted) throws IOException {
        if (options.tls() == null) {
            return accepted;
        }
        // Made anew: renewed files count for the next connection.
        SSLSocket socket = (SSLSocket)
                options.tls().create().getSocketFactory().createSocket(accepted, null, true);
        socket.setUseClientMode(false);
        socket.setNeedClientAuth(true);
        socket.setEnabledProtocols(new String[] {"TLSv1.3", "TLSv1.2"});
        return socket;
    }

    private static void daemon(Runnable body, String name) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void closeQuietly(Closeable socket) {
        try {
            socket.close();
        } catch (IOException e) {
            log.warning("cannot close a socket: " + e.getMessage());
        }
    }
}
