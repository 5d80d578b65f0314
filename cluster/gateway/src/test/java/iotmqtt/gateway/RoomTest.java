package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.ignite.logger.NullLogger;
import org.junit.jupiter.api.Test;

/** How full a server is, and what is said again and again, without a server. */
class RoomTest {
    @Test
    void aSmallServerKeepsAShareOfItself() {
        assertEquals(800, new Room.Use(10, 1000).offered());
        assertFalse(new Room.Use(920, 1000).exceeds(0.92));
        assertTrue(new Room.Use(921, 1000).exceeds(0.92));
        assertFalse(new Room.Use(980, 1000).exceeds(0.98));
        assertTrue(new Room.Use(981, 1000).exceeds(0.98));
    }

    @Test
    void aLargeDiskKeepsNoMoreThanAShareOfFourGibibytes() {
        long limit = 100L << 30;
        assertEquals(limit - Math.round((4L << 30) * (1 - 0.80)), new Room.Use(0, limit).offered());
        assertFalse(new Room.Use(99L << 30, limit).exceeds(0.92));
        assertTrue(new Room.Use(limit - 1, limit).exceeds(0.98));
    }

    @Test
    void whatADiskIsSpokenForIsNoRoom() {
        assertEquals(200, Disk.limit(0, 0, 0, 200));
        assertEquals(235, Disk.limit(100, 40, 0, 200));
        assertEquals(185, Disk.limit(100, 40, 50, 200));
        assertEquals(1, Disk.limit(100, 100, 300, 200));
    }

    @Test
    void aQuarterOfThePagesMayBeOfNoUseToOtherPartitions() {
        assertEquals(275, Disk.limit(100, 0, 0, 200));
        // But no more than a gibibyte of a large disk.
        assertEquals(99L << 30, Disk.limit(100L << 30, 0, 0, 0));
    }

    @Test
    void whatIsNotWrittenIsInMemory() {
        assertEquals(40, Disk.unwritten(100, 60, 70));
        assertEquals(70, Disk.unwritten(100, 0, 70));
        // Files have headers.
        assertEquals(0, Disk.unwritten(100, 101, 70));
    }

    @Test
    void aServerThatCannotTellRefusesNothing() {
        assertFalse(new Room.Use(1 << 30, 0).exceeds(0.92));
        assertEquals(0, new Room.Use(1 << 30, 0).offered());
    }

    @Test
    void theFullestIsTheOneWithTheLargestShareInUse() {
        assertTrue(new Room.Use(50, 100).fullerThan(new Room.Use(400, 1000)));
        assertFalse(new Room.Use(400, 1000).fullerThan(new Room.Use(50, 100)));
    }

    @Test
    void aComplaintIsSaidWhenItIsNewAndOnceAMinute() {
        AtomicLong now = new AtomicLong();
        List<String> said = new ArrayList<>();
        Complaint complaint = new Complaint(
                new NullLogger() {
                    @Override
                    public void warning(String what, Throwable cause) {
                        said.add(what);
                    }

                    @Override
                    public void warning(String what) {
                        said.add(what);
                    }
                },
                now::get);
        for (int i = 0; i < 100; i++) {
            complaint.say("one");
        }
        complaint.say("other");
        now.addAndGet(Complaint.AGAIN.minus(Duration.ofSeconds(1)).toNanos());
        complaint.say("other");
        now.addAndGet(Duration.ofSeconds(1).toNanos());
        complaint.say("other");
        complaint.over();
        complaint.say("other");
        assertEquals(List.of("one", "other", "other", "other"), said);
    }
}
