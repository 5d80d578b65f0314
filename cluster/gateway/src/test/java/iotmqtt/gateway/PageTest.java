package iotmqtt.gateway;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Merging what several servers read. */
class PageTest {
    private static final int ROOM = 100;

    @Test
    void partsBecomeOnePageInUnsignedOrder() {
        Page page = Page.merge(List.of(part(false, 0x01, 0x80), part(false, 0x7F, 0xFF)), 10, ROOM);
        assertEquals(List.of(0x01, 0x7F, 0x80, 0xFF), numbers(page));
        assertFalse(page.more());
    }

    @Test
    void aPageEndsAtItsLimitAndSaysThatThereIsMore() {
        Page page = Page.merge(List.of(part(false, 1, 3), part(false, 2, 4)), 3, ROOM);
        assertEquals(List.of(1, 2, 3), numbers(page));
        assertTrue(page.more());
    }

    @Test
    void nothingIsTakenFromBehindAPartThatWasCut() {
        Page page = Page.merge(List.of(part(true, 1, 2), part(false, 3, 4)), 10, ROOM);
        assertEquals(List.of(1, 2), numbers(page));
        assertTrue(page.more());
    }

    @Test
    void nothingIsTakenWhereAServerWasNotLookedInto() {
        Page page = Page.merge(List.of(part(false, 1, 2), PagePart.UNREAD), 10, ROOM);
        assertEquals(List.of(), numbers(page));
        assertTrue(page.more());
    }

    @Test
    void aPageEndsWithItsRoom() {
        Page page = Page.merge(List.of(part(false, 1, 3), part(false, 2, 4)), 10, 5);
        assertEquals(List.of(1, 2, 3), numbers(page));
        assertTrue(page.more());
        assertEquals(6, page.bytes());
    }

    @Test
    void noPartsAreAnEmptyPage() {
        Page page = Page.merge(List.of(part(false), part(false)), 10, ROOM);
        assertEquals(List.of(), numbers(page));
        assertFalse(page.more());
    }

    @Test
    void theKeyBehindAPrefixIsTheFirstThatIsGreaterThanAllOfThem() {
        assertArrayEquals(new byte[] {'b'}, KeyRange.behind(new byte[] {'a'}));
        assertArrayEquals(new byte[] {'b'}, KeyRange.behind(new byte[] {'a', -1, -1}));
        assertArrayEquals(new byte[] {(byte) 0x80}, KeyRange.behind(new byte[] {0x7F}));
        assertNull(KeyRange.behind(new byte[] {-1, -1}));
        assertNull(KeyRange.behind(new byte[0]));
    }

    private static PagePart part(boolean more, int... keys) {
        List<byte[]> bytes = IntStream.of(keys).mapToObj(key -> new byte[] {(byte) key}).toList();
        return new PagePart(bytes, bytes, more);
    }

    private static List<Integer> numbers(Page page) {
        return page.keys().stream().map(key -> Byte.toUnsignedInt(key[0])).toList();
    }
}
