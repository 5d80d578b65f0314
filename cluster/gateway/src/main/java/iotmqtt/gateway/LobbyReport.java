package iotmqtt.gateway;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.function.LongSupplier;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.ignite.IgniteLogger;

/** Says once a minute, if there were any, how many connections were turned away; a line for each would be a flood. */
final class LobbyReport {
    private static final Duration AGAIN = Duration.ofMinutes(1);

    private final Lobby lobby;
    private final String port;
    private final String deed;
    private final IgniteLogger log;
    private final LongSupplier nanoTime;
    private long saidAt;
    private long tooLate;
    private long madeRoom;

    /**
     * @param port whose lobby it is
     * @param deed what those who wait have not done yet
     */
    LobbyReport(Lobby lobby, String port, String deed, IgniteLogger log, LongSupplier nanoTime) {
        this.lobby = lobby;
        this.port = port;
        this.deed = deed;
        this.log = log;
        this.nanoTime = nanoTime;
        this.saidAt = nanoTime.getAsLong() - AGAIN.toNanos();
    }

    void look() {
        long lateNow = lobby.getTooLate();
        long roomNow = lobby.getMadeRoom();
        if (lateNow + roomNow == tooLate + madeRoom || nanoTime.getAsLong() - saidAt < AGAIN.toNanos()) {
            return;
        }
        log.warning("turned away at the port of " + port + ": " + (lateNow - tooLate) + " connections that did not " + deed
                + " in time, " + (roomNow - madeRoom) + " that had not when others came; " + lobby.getWaiting() + " wait");
        tooLate = lateNow;
        madeRoom = roomNow;
        saidAt = nanoTime.getAsLong();
    }

    /** Makes the counters visible; several servers of one JVM have one each. */
    static void register(Lobby lobby, String server) throws JMException {
        ManagementFactory.getPlatformMBeanServer()
                .registerMBean(lobby, new ObjectName("iotmqtt:type=Gateway,name=Lobby,server=" + ObjectName.quote(server)));
    }

    static void unregister(String server) throws JMException {
        ManagementFactory.getPlatformMBeanServer()
                .unregisterMBean(new ObjectName("iotmqtt:type=Gateway,name=Lobby,server=" + ObjectName.quote(server)));
    }
}
