package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.ObjectInputFilter;
import java.io.ObjectInputFilter.Status;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What the servers are started with: whose objects a peer may have made here. */
class FilterTest {
    private static final String OPTION = "-Djdk.serialFilter=";

    private record Asked(Class<?> serialClass) implements ObjectInputFilter.FilterInfo {
        @Override
        public long arrayLength() {
            return -1;
        }

        @Override
        public long depth() {
            return 1;
        }

        @Override
        public long references() {
            return 1;
        }

        @Override
        public long streamBytes() {
            return 1;
        }
    }

    @Test
    void onlyIgnitesOursAndJavasOwn() throws Exception {
        ObjectInputFilter filter = ObjectInputFilter.Config.createFilter(pattern());
        for (Class<?> wanted : List.of(
                AnnounceJob.class,
                java.util.ArrayList.class,
                Object[].class,
                org.apache.ignite.spi.discovery.tcp.internal.TcpDiscoveryNode.class)) {
            assertEquals(Status.ALLOWED, filter.checkInput(new Asked(wanted)), wanted.getName());
        }
        for (String other : List.of("org.springframework.beans.factory.support.RootBeanDefinition", "javax.management.BadAttributeValueExpException")) {
            assertEquals(Status.REJECTED, filter.checkInput(new Asked(Class.forName(other))), other);
        }
    }

    private static String pattern() throws IOException {
        return Files.readAllLines(Path.of("../config/ignite-java17.opts")).stream()
                .filter(line -> line.startsWith(OPTION))
                .map(line -> line.substring(OPTION.length()))
                .findFirst()
                .orElseThrow();
    }
}
