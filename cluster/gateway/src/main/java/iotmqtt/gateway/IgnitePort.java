package iotmqtt.gateway;

import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteException;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.util.nio.GridNioServer;
import org.apache.ignite.internal.util.nio.GridNioSession;
import org.apache.ignite.spi.communication.tcp.internal.GridNioServerWrapper;

/**
 * A port of Ignite's own, where whoever has shown no certificate waits in a lobby; in plain text, who has said nothing.
 *
 * <p>Ignite gives a connection its buffers when it is accepted, waits for a TLS handshake for ever, and stops when there
 * is no memory for buffers. It knows no bound, so its connections are looked at many times a second.
 */
final class IgnitePort {
    private final GridNioServer<?> server;
    private final Lobby lobby;
    private final boolean tls;
    /** Those that were let into the lobby, until they have shown who they are or are gone. */
    private final Map<GridNioSession, Guest> guests = new HashMap<>();

    private final class Guest implements Lobby.Stranger {
        private final GridNioSession session;

        Guest(GridNioSession session) {
            this.session = session;
        }

        @Override
        public String address() {
            InetSocketAddress peer = session.remoteAddress();
            return peer == null ? "" : peer.getAddress().getHostAddress();
        }

        @Override
        public void turnAway(String reason) {
            server.close(session);
        }
    }

    private IgnitePort(GridNioServer<?> server, Lobby lobby, boolean tls) {
        this.server = server;
        this.lobby = lobby;
        this.tls = tls;
    }

    /** That of thin clients. */
    static IgnitePort ofThinClients(Ignite ignite, Lobby lobby, boolean tls) {
        return new IgnitePort((GridNioServer<?>) inside(((IgniteEx) ignite).context().clientListener(), "srv"), lobby, tls);
    }

    /** That of communication between servers. */
    static IgnitePort ofServers(Ignite ignite, Lobby lobby, boolean tls) {
        Object wrapper = inside(ignite.configuration().getCommunicationSpi(), "nioSrvWrapper");
        return new IgnitePort(((GridNioServerWrapper) wrapper).nio(), lobby, tls);
    }

    /** To be called many times a second. */
    void look() {
        Set<GridNioSession> waiting = new HashSet<>();
        List<Guest> newcomers = new ArrayList<>();
        for (GridNioSession session : sessions()) {
            if (session.accepted() && !known(session)) {
                waiting.add(session);
                if (!guests.containsKey(session)) {
                    newcomers.add(new Guest(session));
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
        newcomers.sort(Comparator.comparingLong(guest -> guest.session.createTime()));
        for (Guest guest : newcomers) {
            guests.put(guest.session, guest);
            lobby.enter(guest);
        }
        lobby.sweep();
    }

    private Collection<? extends GridNioSession> sessions() {
        return server.sessions();
    }

    private boolean known(GridNioSession session) {
        return tls ? session.certificates() != null : session.bytesReceived() > 0;
    }

    /** Of the one version of Ignite that this is built for. */
    private static Object inside(Object holder, String name) {
        try {
            Field field = holder.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.get(holder);
        } catch (ReflectiveOperationException e) {
            throw new IgniteException("cannot watch a port of this Ignite: " + holder.getClass() + " has no " + name, e);
        }
    }
}
