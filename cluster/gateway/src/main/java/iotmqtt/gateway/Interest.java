package iotmqtt.gateway;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * Which other servers have a listener of a topic.
 *
 * <p>Each server announces all its topics at once, under a version: announcements may overtake one another, and an old
 * one is ignored.
 */
final class Interest {
    private final Map<UUID, Listeners.Announcement> announced = new HashMap<>();
    private volatile Map<String, List<UUID>> servers = Map.of();

    List<UUID> serversOf(String topic) {
        return servers.getOrDefault(topic, List.of());
    }

    synchronized void announced(UUID server, long version, Set<String> topics) {
        Listeners.Announcement present = announced.get(server);
        if (present == null || present.version() < version) {
            announced.put(server, new Listeners.Announcement(version, topics));
            refresh();
        }
    }

    synchronized void left(UUID server) {
        if (announced.remove(server) != null) {
            refresh();
        }
    }

    private void refresh() {
        Map<String, List<UUID>> byTopic = new HashMap<>();
        announced.forEach((server, announcement) -> announcement
                .topics()
                .forEach(topic ->
                        byTopic.computeIfAbsent(topic, key -> new ArrayList<>()).add(server)));
        servers = byTopic;
    }
}
