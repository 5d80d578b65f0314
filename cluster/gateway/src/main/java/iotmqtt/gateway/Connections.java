package iotmqtt.gateway;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;

/** The connections of this server's gateway. */
final class Connections {
    private final Set<Connection> open = ConcurrentHashMap.newKeySet();

    void add(Connection connection) {
        open.add(connection);
    }

    void remove(Connection connection) {
        open.remove(connection);
    }

    /** A copy: what is done with them may take a while. */
    List<Connection> all() {
        return List.copyOf(open);
    }

    /** Closes those whose life matches, and waits for the writes they had begun; false if that took too long. */
    boolean close(Predicate<Life> which, String reason, Duration atMost) throws InterruptedException {
        List<Connection> closed = open.stream().filter(connection -> matches(connection, which)).toList();
        closed.forEach(connection -> connection.close(reason));
        for (Connection connection : closed) {
            if (!connection.awaitWrites(atMost)) {
                return false;
            }
        }
        return true;
    }

    /** Whether there is one whose life matches. */
    boolean any(Predicate<Life> which) {
        return open.stream().anyMatch(connection -> !connection.closed() && matches(connection, which));
    }

    private static boolean matches(Connection connection, Predicate<Life> which) {
        Life life = connection.life();
        return life != null && !life.nobody() && which.test(life);
    }
}
