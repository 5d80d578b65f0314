package iotmqtt.gateway;

import java.util.Set;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteLogger;

/**
 * The port that thin clients read by: closed while there is no quorum, because Ignite would go on to answer.
 *
 * <p>Ignite asks its configuration at every handshake whether thin clients are welcome, and drops those that are there
 * when it is told to.
 */
final class ThinPort {
    private final Ignite ignite;
    private final IgniteLogger log;
    private boolean open;

    ThinPort(Ignite ignite, IgniteLogger log) {
        this.ignite = ignite;
        this.log = log;
        this.open = welcome();
    }

    synchronized void open() {
        if (!open) {
            welcome(true);
            open = true;
        }
    }

    /** To be repeated: a handshake that was under way may have got through. */
    synchronized void close() {
        if (open) {
            welcome(false);
            open = false;
        }
        MBeanServer beans = ignite.configuration().getMBeanServer();
        try {
            // The name has more to it (a class loader, at times); one JVM has several servers in tests.
            Set<ObjectName> found = beans.queryNames(new ObjectName("*:group=Clients,*"), null);
            for (ObjectName name : found) {
                String server = name.getKeyProperty("igniteInstanceName");
                if (server == null || ObjectName.quote(ignite.name()).equals(server) || server.equals(ignite.name())) {
                    beans.invoke(name, "dropAllConnections", new Object[0], new String[0]);
                }
            }
        } catch (JMException e) {
            log.warning("cannot drop the thin clients: " + e);
        }
    }

    private boolean welcome() {
        return ignite.configuration().getClientConnectorConfiguration().isThinClientEnabled();
    }

    private void welcome(boolean yes) {
        ignite.configuration().getClientConnectorConfiguration().setThinClientEnabled(yes);
    }
}
