package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Noticing that the server stood still. */
class PulseTest {
    private long now = 17;
    private final Pulse pulse = new Pulse(() -> now);

    @Test
    void aServerThatGoesOnIsNotInDoubt() {
        for (int i = 0; i < 100; i++) {
            now += Duration.ofMillis(250).toNanos();
            assertFalse(pulse.beat());
            assertFalse(pulse.inDoubt());
        }
    }

    @Test
    void doubtBeginsBeforeTheBeatNoticesAndEndsByItself() {
        now += Pulse.STILL.toNanos() + 1;
        assertTrue(pulse.inDoubt());
        assertTrue(pulse.beat());
        assertTrue(pulse.inDoubt());
        for (long passed = 0; passed < Pulse.DOUBT.toNanos(); passed += Duration.ofSeconds(1).toNanos()) {
            assertTrue(pulse.inDoubt());
            now += Duration.ofSeconds(1).toNanos();
            assertFalse(pulse.beat());
        }
        assertFalse(pulse.inDoubt());
    }
}
