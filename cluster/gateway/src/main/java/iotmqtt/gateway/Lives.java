package iotmqtt.gateway;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Tells whoever listens which connections of brokers begin, and which end without our doing: a process that dies is
 * known of at once by its connection, and by nothing else for seconds.
 *
 * <p>These are messages to a topic, not frames: who does not listen hears nothing of them.
 */
final class Lives {
    private static final byte[] TOPIC = "iot.lives".getBytes(StandardCharsets.UTF_8);
    private static final int LENGTH = 15;
    private static final byte HERE = 0;
    private static final byte GONE = 1;

    private final Exchange exchange;

    Lives(Exchange exchange) {
        this.exchange = exchange;
    }

    void here(Life life) throws InterruptedException {
        tell(HERE, life);
    }

    void gone(Life life) throws InterruptedException {
        tell(GONE, life);
    }

    private void tell(byte kind, Life life) throws InterruptedException {
        if (life.nobody()) {
            return;
        }
        byte[] message = ByteBuffer.allocate(2 + TOPIC.length + 4 + LENGTH)
                .putShort((short) TOPIC.length)
                .put(TOPIC)
                .putInt(LENGTH)
                .put(kind)
                .putShort((short) life.node())
                .putLong(life.boot())
                .putInt((int) life.connection())
                .array();
        exchange.send("iot.lives", message);
    }
}
