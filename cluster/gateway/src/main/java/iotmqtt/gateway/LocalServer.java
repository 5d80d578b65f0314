package iotmqtt.gateway;

import org.apache.ignite.Ignite;

/**
 * What the gateway of this server consists of that other servers' jobs ask for.
 *
 * <p>Jobs find it by the Ignite node they run on, whichever of job and gateway is there first: a server takes jobs
 * before its gateway has started.
 */
record LocalServer(Connections connections, Listeners listeners, Interest interest) {
    private static final String KEY = "iotmqtt.gateway";

    static LocalServer of(Ignite ignite) {
        return ignite.cluster()
                .<String, LocalServer>nodeLocalMap()
                .computeIfAbsent(KEY, key -> new LocalServer(new Connections(), new Listeners(), new Interest()));
    }
}
