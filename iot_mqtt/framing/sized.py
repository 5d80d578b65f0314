"""Frames whose size is known before their end: by a length field, or because all have the same.

Correct frames are cut by a tight loop (``_cut``), which stops in front of anything else; ``_one`` then says exactly
what that is. What is not complete waits; nothing is looked at twice before as many bytes are there as it needs.

Looking for the next frame after a bad one begins one byte behind the beginning of the bad one, because its length may
be what was wrong. A frame whose checksum is wrong has cost time, though, and a peer could make every byte such a frame:
so that is done on credit, earned by bytes that went by, and without credit the whole frame is skipped.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from iot_mqtt.framing.declare import Fixed, LengthField
from iot_mqtt.framing.framer import Check, Framer, FrameReason, Item

#: Bytes of wrong checksums that may be computed, for every byte that went by; and at most, in frames of the limit.
EARNED: Final = 4
CREDIT: Final = 8

#: Eight bytes are signed, as in Netty: no frame has 2**63 bytes, and a negative length is told as such.
_STRUCTS: Final = {
    ("big", 1): Struct("B"),
    ("big", 2): Struct(">H"),
    ("big", 4): Struct(">I"),
    ("big", 8): Struct(">q"),
    ("little", 1): Struct("B"),
    ("little", 2): Struct("<H"),
    ("little", 4): Struct("<I"),
    ("little", 8): Struct("<q"),
}


class SizedFramer(Framer):
    """The part that knows nothing of where the size comes from."""

    __slots__ = (
        "_check",
        "_credit",
        "_discarded",
        "_discarding",
        "_fail_fast",
        "_header",
        "_least",
        "_most",
        "_need",
        "_seeking",
        "_strip",
    )

    def __init__(self, framing: LengthField | Fixed, *, header: int, strip: int = 0, fail_fast: bool = True) -> None:
        super().__init__(framing)
        self._strip = strip
        self._fail_fast = fail_fast
        #: Bytes that say how long the frame is.
        self._header = header
        self._check = Check(framing.checksum) if framing.checksum else None
        least = max(header, strip)
        if self._check:
            least = max(least + self._check.behind, self._check.least)
        self._least = max(least, 1)
        #: Bytes from the beginning of ``_rest`` without which looking again is no use.
        self._need = 0
        #: Size of a frame that is too long and is thrown away by the length it said; how much of it is yet to come.
        self._discarded = 0
        self._discarding = 0
        #: Between frames: the next magic has not come yet.
        self._seeking = False
        self._credit = self._most = CREDIT * framing.max_frame

    def _feed(self, data: bytes, items: list[Item]) -> None:
        if self._discarding:
            here = min(self._discarding, len(data))
            self._discard(here, items)
            data = data[here:]
        if self._over:
            return
        if rest := self._rest:
            if len(rest) + len(data) < self._need:
                # A big frame arrives in many pieces: gather them without joining each time.
                self._rest = rest = bytearray(rest) if isinstance(rest, bytes) else rest
                rest += data
                return
            data = b"".join((rest, data))
            self._rest = b""
        pos = 0 if self._seeking else self._cut(data, 0, items)
        end = len(data)
        while pos < end:
            after = self._one(data, pos, end, items)
            if after < 0:
                self._rest = data[pos:]
                break
            pos = after if self._seeking or self._over else self._cut(data, after, items)

    # -- what the two differ in

    def _cut(self, data: bytes, pos: int, items: list[Item]) -> int:
        """Append the correct frames at ``data[pos:]``; return where the first thing stands that is none."""
        raise NotImplementedError

    def _size(self, data: bytes, pos: int) -> int:
        """The size that the frame at ``pos`` says, of which the header is there."""
        raise NotImplementedError

    # -- one by one

    def _one(self, data: bytes, pos: int, end: int, items: list[Item]) -> int:
        """What stands at ``pos``; return where to go on (the end, if it is over), or -1 if it is not complete."""
        if self._seeking:
            return self._seek(data, pos, pos, items)
        magic = self._magic
        if not data.startswith(magic, pos):
            there = data[pos : pos + len(magic)]
            if magic.startswith(there):
                return self._wait(len(there) + 1)
            return self._bad(FrameReason.MAGIC, data, pos, 0, items)
        if end - pos < self._header:
            return self._wait(self._header)
        size = self._size(data, pos)
        if size < self._least:
            return self._bad(FrameReason.LENGTH, data, pos, size, items)
        if size > self._limit:
            if self._fail_fast:
                return self._bad(FrameReason.TOO_LONG, data, pos, size, items)
            here = min(size, end - pos)
            self._discarding = self._discarded = size
            self._discard(here, items)
            return end if self._over else pos + here
        stop = pos + size
        if stop > end:
            return self._wait(size)
        check = self._check
        if check and not check.holds(data, pos, stop):
            return self._corrupt(data, pos, size, items)
        self._earn(size)
        items.append(data[pos + self._strip : stop - (check.cut if check else 0)])
        return stop

    def _wait(self, need: int) -> int:
        self._need = need
        return -1

    # -- bad ones

    def _bad(self, reason: FrameReason, data: bytes, pos: int, size: int, items: list[Item]) -> int:
        # What nobody gets to read is not written: a peer can send a bad frame with every byte.
        detail = "" if self._skips else self._detail(reason, data, pos, size)
        self._refuse(reason, detail, items)
        return len(data) if self._over else self._seek(data, pos + 1, pos, items)

    def _detail(self, reason: FrameReason, data: bytes, pos: int, size: int) -> str:
        if reason is FrameReason.MAGIC:
            return self._no_magic(data[pos : pos + 16])
        if reason is FrameReason.LENGTH:
            return f"a frame of {size} bytes, by what it says; {self._least} is the least"
        return self._too_long(size)

    def _seek(self, data: bytes, start: int, pos: int, items: list[Item]) -> int:
        """The first magic from ``start`` on; what stands from ``pos`` up to there is skipped.

        If there is none, all but a possible beginning of it is skipped, and seeking goes on with the next bytes.
        """
        magic, end = self._magic, len(data)
        found = data.find(magic, start)
        self._seeking = found < 0
        if self._seeking:
            found = end - beginning_of(magic, data, start)
            if found == pos:
                return self._wait(end - pos + 1)
        self._skip(found - pos, items)
        self._earn(found - pos)
        return end if self._over else found

    def _corrupt(self, data: bytes, pos: int, size: int, items: list[Item]) -> int:
        """A frame whose checksum is wrong."""
        check = self._check
        detail = "" if self._skips or check is None else check.wrong(data, pos, pos + size)
        self._refuse(FrameReason.CHECKSUM, detail, items)
        if self._over:
            return len(data)
        if self._credit >= size:
            self._credit -= size
            return self._seek(data, pos + 1, pos, items)
        self._skip(size, items)
        self._earn(size)
        return len(data) if self.over else pos + size

    def _discard(self, size: int, items: list[Item]) -> None:
        """So many bytes of a frame that is too long are gone; tell when they all are."""
        self._discarding -= size
        self._skip(size, items)
        self._earn(size)
        if not self._discarding and not self._over:
            self._refuse(FrameReason.TOO_LONG, self._too_long(self._discarded), items)

    def _earn(self, size: int) -> None:
        self._credit = min(self._most, self._credit + EARNED * size)


def beginning_of(magic: bytes, data: bytes, start: int) -> int:
    """How many of the last bytes of ``data[start:]`` could be the beginning of ``magic``."""
    for size in range(min(len(magic) - 1, len(data) - start), 0, -1):
        if data.endswith(magic[:size]):
            return size
    return 0


class LengthFieldFramer(SizedFramer):
    """Netty's five parameters."""

    __slots__ = ("_delta", "_offset", "_order", "_read")

    def __init__(self, framing: LengthField) -> None:
        header = framing.offset + framing.width
        super().__init__(framing, header=header, strip=framing.strip, fail_fast=framing.fail_fast)
        self._offset = framing.offset
        self._order = framing.order
        self._delta = header + framing.adjustment
        struct = _STRUCTS.get((framing.order, framing.width))
        #: None: three bytes, which no struct has.
        self._read = struct.unpack_from if struct else None

    def _cut(self, data: bytes, pos: int, items: list[Item]) -> int:
        read, offset, delta = self._read, self._offset, self._delta
        least, limit, strip, magic, check = self._least, self._limit, self._strip, self._magic, self._check
        begin, end, append = pos, len(data), items.append
        last = end - self._header
        while pos <= last:
            size = (read(data, pos + offset)[0] if read else self._three(data, pos + offset)) + delta
            stop = pos + size
            if stop > end or not least <= size <= limit or (magic and not data.startswith(magic, pos)):
                break
            if check:
                if not check.holds(data, pos, stop):
                    break
                append(data[pos + strip : stop - check.cut])
            else:
                append(data[pos + strip : stop])
            pos = stop
        self._earn(pos - begin)
        return pos

    def _size(self, data: bytes, pos: int) -> int:
        at = pos + self._offset
        value: int = self._read(data, at)[0] if self._read else self._three(data, at)
        return value + self._delta

    def _three(self, data: bytes, at: int) -> int:
        return int.from_bytes(data[at : at + 3], self._order)


class FixedFramer(SizedFramer):
    """All frames have one size."""

    __slots__ = ("_fixed",)

    def __init__(self, framing: Fixed) -> None:
        super().__init__(framing, header=0)
        self._fixed = framing.size

    def _cut(self, data: bytes, pos: int, items: list[Item]) -> int:
        size, magic, check = self._fixed, self._magic, self._check
        if not magic and not check:
            stop = pos + (len(data) - pos) // size * size
            items += [data[at : at + size] for at in range(pos, stop, size)]
            return stop
        begin, last, cut = pos, len(data) - size, check.cut if check else 0
        while pos <= last and data.startswith(magic, pos):
            stop = pos + size
            if check and not check.holds(data, pos, stop):
                break
            items.append(data[pos : stop - cut])
            pos = stop
        self._earn(pos - begin)
        return pos

    def _size(self, data: bytes, pos: int) -> int:
        return self._fixed
