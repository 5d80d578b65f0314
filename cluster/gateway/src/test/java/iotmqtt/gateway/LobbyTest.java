package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LobbyTest {
    private static final int MOST = 6;
    private static final int MOST_OF_ONE = 3;

    private final List<String> turnedAway = new ArrayList<>();
    private long now;
    private final Lobby lobby = new Lobby(() -> now, MOST, MOST_OF_ONE);

    /** One like another is not the same: no record, whose hash would change with the list. */
    private final class Guest implements Lobby.Stranger {
        private final String name;
        private final String address;

        Guest(String name, String address) {
            this.name = name;
            this.address = address;
        }

        @Override
        public String address() {
            return address;
        }

        @Override
        public void turnAway(String reason) {
            turnedAway.add(name);
        }
    }

    private Lobby.Stranger enter(String name, String address) {
        Lobby.Stranger guest = new Guest(name, address);
        lobby.enter(guest);
        return guest;
    }

    @Test
    void anAddressThatHasItsShareLosesItsOldest() {
        enter("other", "b");
        for (int i = 0; i < 5; i++) {
            enter("a" + i, "a");
        }
        assertEquals(List.of("a0", "a1"), turnedAway);
        assertEquals(4, lobby.getWaiting());
        assertEquals(2, lobby.getMadeRoom());
    }

    @Test
    void aFullLobbyTakesFromTheAddressWithMost() {
        enter("b0", "b");
        for (int i = 0; i < 3; i++) {
            enter("a" + i, "a");
        }
        enter("c0", "c");
        enter("d0", "d");
        enter("e0", "e");
        assertEquals(List.of("a0"), turnedAway);
        assertEquals(MOST, lobby.getWaiting());
    }

    @Test
    void whoLeftMakesRoomAndIsNotClosed() {
        for (int round = 0; round < 100; round++) {
            Lobby.Stranger guest = enter("guest", "a");
            assertTrue(lobby.leave(guest));
            assertFalse(lobby.leave(guest));
        }
        assertEquals(List.of(), turnedAway);
        assertEquals(0, lobby.getWaiting());
        assertEquals(100, lobby.getEntered());
    }

    @Test
    void aFloodOfRefusalsHasAFewLines() {
        for (int minute = 0; minute < 2; minute++) {
            int lines = 0;
            for (int i = 0; i < 1000; i++) {
                lines += lobby.refuse() ? 1 : 0;
            }
            assertEquals(Lobby.LINES, lines);
            now += 60_000_000_000L;
        }
        assertEquals(2000, lobby.getRefused());
    }

    @Test
    void eachHasTenSecondsInAll() {
        enter("first", "a");
        now += 4_000_000_000L;
        enter("second", "a");
        now += 5_900_000_000L;
        lobby.sweep();
        assertEquals(List.of(), turnedAway);
        now += 100_000_000L;
        lobby.sweep();
        assertEquals(List.of("first"), turnedAway);
        now += 4_000_000_000L;
        lobby.sweep();
        assertEquals(List.of("first", "second"), turnedAway);
        assertEquals(2, lobby.getTooLate());
        assertEquals(0, lobby.getWaiting());
    }
}
