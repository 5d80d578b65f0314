package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What bounds a connection, and what a fence closes. */
class QueueTest {
    @Test
    void aFullQueueTakesNothingUntilWhatWasTakenIsDealtWith() throws InterruptedException {
        BoundedQueue<String> queue = new BoundedQueue<>(10);
        assertTrue(queue.offer("a", 10));
        assertFalse(queue.offer("b", 1));
        assertEquals(List.of("a"), queue.takeAll());
        assertFalse(queue.offer("b", 1), "it is under way still");
        queue.release(10);
        assertTrue(queue.offer("b", 1));
    }

    @Test
    void oneElementMayBeHeavierThanTheBound() {
        BoundedQueue<String> queue = new BoundedQueue<>(10);
        assertTrue(queue.offer("large", 100));
        assertFalse(queue.offer("small", 1));
    }

    @Test
    void whoeverWaitsForRoomGoesOnWhenThereIsSome() throws Exception {
        BoundedQueue<String> queue = new BoundedQueue<>(10);
        queue.offer("a", 10);
        CompletableFuture<Boolean> put = CompletableFuture.supplyAsync(() -> {
            try {
                return queue.put("b", 5);
            } catch (InterruptedException e) {
                return false;
            }
        });
        queue.takeAll();
        queue.release(10);
        assertTrue(put.get(10, TimeUnit.SECONDS));
    }

    @Test
    void aClosedQueueGivesWhatItHasAndThenNothing() throws InterruptedException {
        BoundedQueue<String> queue = new BoundedQueue<>(10);
        queue.offer("a", 1);
        queue.close();
        queue.offer("b", 1);
        assertFalse(queue.put("c", 1));
        assertEquals(List.of("a"), queue.takeAll());
        assertEquals(List.of(), queue.takeAll());
    }

    @Test
    void aClosedGateWaitsForWhoeverIsInside() throws Exception {
        Gate gate = new Gate();
        assertTrue(gate.enter());
        assertTrue(gate.close());
        assertFalse(gate.close());
        assertFalse(gate.awaitEmpty(Duration.ZERO));
        CompletableFuture<Void> leaving = CompletableFuture.runAsync(gate::leave);
        assertTrue(gate.awaitEmpty(Duration.ofSeconds(10)));
        leaving.get();
        assertFalse(gate.enter());
    }
}
