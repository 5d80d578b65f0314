package iotmqtt.gateway;

import java.time.Duration;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteLogger;
import org.apache.ignite.cluster.ClusterGroup;

/** What every connection of a gateway works with. */
record Services(
        Ignite ignite,
        IgniteLogger log,
        Options options,
        LocalServer here,
        CacheWrites writes,
        Pages pages,
        Fences fences,
        Exchange exchange,
        Lives lives,
        Topology topology,
        Activation activation,
        Copies copies,
        Pulse pulse,
        Room room,
        Quorum quorum,
        Majority majority,
        ThinPort thinPort) {

    static Services of(Ignite ignite, IgniteLogger log, Options options) {
        LocalServer here = LocalServer.of(ignite);
        Everywhere everywhere = new Everywhere(ignite);
        Pages pages = new Pages(ignite);
        Room room = new Room(ignite, here.connections());
        ClusterGroup servers = ignite.cluster().forServers();
        Exchange exchange = new Exchange(ignite, log, everywhere, here);
        Quorum quorum = new Quorum(
                options.quorum(),
                Duration.ofSeconds(options.quorumPatience()),
                Duration.ofSeconds(options.quorumFirst()),
                () -> servers.nodes().size(),
                System::nanoTime);
        return new Services(
                ignite,
                log,
                options,
                here,
                new CacheWrites(ignite, everywhere, pages, room),
                pages,
                new Fences(ignite, everywhere),
                exchange,
                new Lives(exchange),
                new Topology(ignite, here.connections()),
                new Activation(
                        ignite,
                        new LostCopies(ignite, everywhere),
                        new Complaint(log, System::nanoTime),
                        quorum,
                        System::nanoTime),
                new Copies(ignite),
                new Pulse(System::nanoTime),
                room,
                quorum,
                new Majority(ignite, everywhere, quorum),
                new ThinPort(ignite, log));
    }

    /** Whether there is no other server, and was none in this server's life that could have dropped it. */
    boolean alone() {
        return topology.alwaysAlone();
    }
}
