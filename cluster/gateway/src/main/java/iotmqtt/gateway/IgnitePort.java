package iotmqtt.gateway;

import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteException;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.util.nio.GridNioServer;
import org.apache.ignite.internal.util.nio.GridNioSession;
import org.apache.ignite.spi.communication.tcp.internal.GridNioServerWrapper;
import org.apache.ignite.spi.discovery.tcp.TcpDiscoverySpi;

/**
 * A port of Ignite's own, where whoever has shown no certificate waits in a lobby; in plain text, who has said nothing.
 *
 * <p>Ignite gives a connection its buffers when it is accepted, waits for a TLS handshake for ever, and stops when there
 * is no memory for buffers; at its port of discovery it gives each a thread. It knows no bound, so its connections are looked at many times a second.
 */
final class IgnitePort {
    /** Who is connected now, the oldest first. */
    private final Supplier<List<Caller>> callers;
    private final Lobby lobby;
    /** Those that were let into the lobby, until they have shown who they are or are gone. */
    private final Map<Object, Guest> guests = new HashMap<>();

    /** A connection that Ignite has accepted; {@code session} is the same object at each look. */
    private record Caller(Object session, InetAddress peer, boolean known, Runnable close) {}

    private record Guest(Caller caller) implements Lobby.Stranger {
        @Override
        public String address() {
            return caller.peer == null ? "" : caller.peer.getHostAddress();
        }

        @Override
        public void turnAway(String reason) {
            caller.close.run();
        }
    }

    private IgnitePort(Supplier<List<Caller>> callers, Lobby lobby) {
        this.callers = callers;
        this.lobby = lobby;
    }

    /** That of thin clients. */
    static IgnitePort ofThinClients(Ignite ignite, Lobby lobby, boolean tls) {
        Object server = inside(((IgniteEx) ignite).context().clientListener(), "srv");
        return new IgnitePort(() -> sessions((GridNioServer<?>) server, tls), lobby);
    }

    /** That of communication between servers. */
    static IgnitePort ofServers(Ignite ignite, Lobby lobby, boolean tls) {
        Object wrapper = inside(ignite.configuration().getCommunicationSpi(), "nioSrvWrapper");
        GridNioServer<?> server = ((GridNioServerWrapper) wrapper).nio();
        return new IgnitePort(() -> sessions(server, tls), lobby);
    }

    /** That of discovery, which has a thread for each connection; until it has named its node, behind the certificate. */
    static IgnitePort ofDiscovery(Ignite ignite, Lobby lobby) {
        Object spi = ignite.configuration().getDiscoverySpi();
        Object server = inside(TcpDiscoverySpi.class, spi, "impl");
        return new IgnitePort(() -> readers(server), lobby);
    }

    private static List<Caller> sessions(GridNioServer<?> server, boolean tls) {
        List<Caller> found = new ArrayList<>();
        for (GridNioSession session : server.sessions()) {
            if (session.accepted()) {
                boolean known = tls ? session.certificates() != null : session.bytesReceived() > 0;
                InetSocketAddress peer = session.remoteAddress();
                found.add(new Caller(session, peer == null ? null : peer.getAddress(), known, () -> server.close(session)));
            }
        }
        found.sort(Comparator.comparingLong(caller -> ((GridNioSession) caller.session).createTime()));
        return found;
    }

    private static List<Caller> readers(Object server) {
        List<Caller> found = new ArrayList<>();
        synchronized (inside(server, "mux")) {
            for (Object reader : (Collection<?>) inside(server, "readers")) {
                Socket socket = (Socket) inside(reader, "sock");
                // Interrupted, such a thread closes its socket.
                found.add(new Caller(
                        reader, socket.getInetAddress(), inside(reader, "nodeId") != null, ((Thread) reader)::interrupt));
            }
        }
        return found;
    }

    /** To be called many times a second. */
    void look() {
        Set<Object> waiting = new HashSet<>();
        List<Caller> newcomers = new ArrayList<>();
        for (Caller caller : callers.get()) {
            if (!caller.known) {
                waiting.add(caller.session);
                if (!guests.containsKey(caller.session)) {
                    newcomers.add(caller);
                }
            }
        }
        guests.entrySet().removeIf(entry -> {
            if (waiting.contains(entry.getKey())) {
                return false;
            }
            lobby.leave(entry.getValue());
            return true;
        });
        for (Caller caller : newcomers) {
            Guest guest = new Guest(caller);
            guests.put(caller.session, guest);
            lobby.enter(guest);
        }
        lobby.sweep();
    }

    /** Of the one version of Ignite that this is built for. */
    private static Object inside(Object holder, String name) {
        return inside(holder.getClass(), holder, name);
    }

    private static Object inside(Class<?> kind, Object holder, String name) {
        try {
            Field field = kind.getDeclaredField(name);
            field.setAccessible(true);
            return field.get(holder);
        } catch (ReflectiveOperationException e) {
            throw new IgniteException("cannot watch a port of this Ignite: " + kind + " has no " + name, e);
        }
    }
}
