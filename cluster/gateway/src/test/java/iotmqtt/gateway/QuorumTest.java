package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Knowing when there are too few servers, and for how long. */
class QuorumTest {
    private long now = 17;
    private int servers = 1;
    private final Quorum quorum =
            new Quorum(2, Duration.ofSeconds(10), Duration.ofSeconds(120), () -> servers, () -> now);

    @Test
    void oneServerIsEnoughWhereNoQuorumIsAskedFor() {
        Quorum one = new Quorum(1, Duration.ofSeconds(1), Duration.ofSeconds(1), () -> 0, () -> now);
        assertEquals(Quorum.State.ENOUGH, one.beat());
        assertDoesNotThrow(() -> one.check());
        assertTrue(one.trivial());
    }

    @Test
    void whoeverNeverWasOfAQuorumWaitsForLong() {
        assertEquals(Quorum.State.FEW, quorum.beat());
        pass(119);
        assertEquals(Quorum.State.ALONE, quorum.beat());
        pass(1);
        assertEquals(Quorum.State.GIVEN_UP, quorum.beat());
    }

    @Test
    void whoeverLostOneClosesSoonAndGivesUpLater() {
        servers = 2;
        pass(500);
        assertEquals(Quorum.State.ENOUGH, quorum.beat());
        servers = 1;
        assertEquals(Quorum.State.FEW, quorum.beat());
        pass(1);
        assertEquals(Quorum.State.ALONE, quorum.beat());
        pass(8);
        assertEquals(Quorum.State.ALONE, quorum.beat());
        pass(1);
        assertEquals(Quorum.State.GIVEN_UP, quorum.beat());
    }

    @Test
    void patienceBeginsAnewWithEachLoss() {
        servers = 3;
        for (int i = 0; i < 5; i++) {
            assertEquals(Quorum.State.ENOUGH, quorum.beat());
            servers = 1;
            assertEquals(Quorum.State.FEW, quorum.beat());
            pass(9);
            assertEquals(Quorum.State.ALONE, quorum.beat());
            servers = 2;
        }
    }

    @Test
    void tooFewAreRefusedWithTheNumbers() {
        Refusal refusal = assertThrows(Refusal.class, quorum::check);
        assertEquals(Status.NOT_READY, refusal.status);
        assertEquals("not ready: 1 of the 2 servers that a quorum takes", refusal.getMessage());
        servers = 2;
        assertDoesNotThrow(() -> quorum.check());
    }

    private void pass(int seconds) {
        now += Duration.ofSeconds(seconds).toNanos();
    }
}
