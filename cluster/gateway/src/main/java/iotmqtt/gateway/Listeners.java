package iotmqtt.gateway;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** Which connections of this server listen to a topic. */
final class Listeners {
    /** What the other servers know: our topics, and a number that is greater for what is newer. */
    record Announcement(long version, Set<String> topics) {}

    private final Map<String, Set<Connection>> byTopic = new ConcurrentHashMap<>();
    private long version;

    /** Adds a listener; true if it is the topic's first one, and the other servers have to hear of it. */
    boolean add(String topic, Connection connection) {
        boolean[] first = {false};
        byTopic.compute(topic, (key, present) -> {
            Set<Connection> listening = present;
            if (listening == null) {
                listening = ConcurrentHashMap.newKeySet();
                first[0] = true;
            }
            listening.add(connection);
            return listening;
        });
        return first[0];
    }

    /** Removes a listener; true if it was the topic's last one. */
    boolean remove(String topic, Connection connection) {
        boolean[] last = {false};
        byTopic.computeIfPresent(topic, (key, listening) -> {
            last[0] = listening.remove(connection) && listening.isEmpty();
            return listening.isEmpty() ? null : listening;
        });
        return last[0];
    }

    /** Removes a connection from every topic; true if one has no listener any more. */
    boolean removeAll(Connection connection) {
        boolean last = false;
        for (String topic : byTopic.keySet()) {
            last |= remove(topic, connection);
        }
        return last;
    }

    /** What is to be told now; each call's version is greater than the one before. */
    synchronized Announcement announcement() {
        return new Announcement(++version, Set.copyOf(byTopic.keySet()));
    }

    void forEach(String topic, Consumer<Connection> deliver) {
        Set<Connection> listening = byTopic.get(topic);
        if (listening != null) {
            listening.forEach(deliver);
        }
    }
}
