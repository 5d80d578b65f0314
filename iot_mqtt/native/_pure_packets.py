"""The last packets of one connection, as one run of bytes: what the flight recorder keeps.

A record is one receive, or one write. Of its first ``LOOKED`` packets it has how many of each type there were, and
images of the first two and of the last one; what is behind them is counted in bytes, as type 0. An image has no payload
(but the first bytes, where that was asked for), no password, no user name, and
nothing of a CONNECT behind the keep-alive::

    record   size 2 | direction 1 | images * 32 + types 1 | milliseconds 8 | bytes 4 | (type 1, count 4)… | image…
    image    size of the rest 1 | first byte 1 | remaining length 4 | body…
    body     PUBLISH: payload size 4 | packet id 2 | topic length 2 | topic, cut | beginning of the payload
             others: their first bytes, as many as ``KEPT`` says

Numbers are little-endian. The oldest records go when there is no room.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

#: Bytes of a topic, and of a payload at most.
TOPIC: Final = 64
PREVIEW: Final = 64
#: A payload size that is not known: its packet has not come wholly.
UNKNOWN: Final = 0xFFFF_FFFF
#: Bytes of a body that are kept, by packet type. AUTH: the reason code.
KEPT: Final = (0, 12, 2, 0, 3, 3, 3, 3, 64, 64, 64, 64, 0, 0, 1, 1)
#: Packets of a receive or a write that are looked at.
LOOKED: Final = 8
#: The smallest ring, and what the first record of one takes at least.
SMALLEST: Final = 1024
_HEAD: Final = struct.Struct("<HBBQI")
_KIND: Final = struct.Struct("<BI")
_IMAGE: Final = struct.Struct("<BBI")
_PUBLISH: Final = struct.Struct("<IHH")
_FOREVER: Final = 1 << 62


class _Side:
    """Where one direction is in its stream of packets."""

    __slots__ = ("head", "skip")

    def __init__(self) -> None:
        self.skip = 0
        self.head = b""


class PacketRing:
    """Of one connection; ``most`` bytes at most. Not more than the first ``preview`` bytes of a payload are kept.

    Beside the packets it has what whoever keeps rings notes of each: as fields here, for there are many.
    """

    __slots__ = (
        "client_id",
        "end",
        "peer",
        "position",
        "saved",
        "since",
        "slot",
        "tap",
        "until",
        "written",
        "_five",
        "_found",
        "_in",
        "_kinds",
        "_last",
        "_most",
        "_now",
        "_out",
        "_preview",
        "_records",
        "_rest",
    )

    def __init__(self, now: Callable[[], float], most: int, preview: int = 0) -> None:
        self._now = now
        self._most = max(SMALLEST, most)
        self._preview = min(PREVIEW, max(0, preview))
        #: Called with what goes over: 0 for what comes and 1 for what goes, and the bytes. None: nobody listens.
        self.tap: Callable[[int, bytes], Any] | None = None
        #: Records since the connection began.
        self.written = 0
        self.client_id = self.peer = self.end = ""
        self.since, self.until = 0.0, -1.0
        self.saved = self.slot = -1
        self.position = 0
        self._five = False
        self._in, self._out = _Side(), _Side()
        self._records = bytearray()
        self._kinds = [0] * 16
        self._rest = 0
        self._found: list[bytes] = []
        self._last: bytes | None = None

    def received(self, data: bytes) -> bool:
        """Bytes came from the client. True: not all of them were looked at; ``follow`` has to be called before the next
        ones come.
        """
        self._scan(self._in, data)
        rest = self._rest
        self._push(0, len(data))
        if self.tap is not None:
            self.tap(0, data)
        return rest > 0

    def follow(self, data: bytes, held: int, missing: int) -> None:
        """How the decoder stands behind these bytes: what it has of a packet, and how much that is short of."""
        tail = data[len(data) - held :] if held < 5 else b""
        self._in.head, self._in.skip = b"", missing if held else 0
        if 0 < held < 5 and len(tail) == held and not any(byte < 128 for byte in tail[1:]):
            self._in.head, self._in.skip = tail, 0

    def sent(self, parts: list[bytes]) -> None:
        """These go to the client with one write."""
        size = 0
        for part in parts:
            # Whatever is written begins with a packet.
            self._out = _Side()
            self._scan(self._out, part)
            size += len(part)
        self._push(1, size)
        if self.tap is not None:
            self.tap(1, b"".join(parts))

    def place(self) -> tuple[bytes, int, bool]:
        """Where the client's stream stands: what came of a packet's head, the bytes that are missing of a packet, and
        whether it is MQTT 5.
        """
        return self._in.head, self._in.skip, self._five

    def image(self) -> bytes:
        """The records, the oldest first."""
        return bytes(self._records)

    def _scan(self, side: _Side, data: bytes) -> None:
        pos, size = 0, len(data)
        while pos < size:
            if side.skip:
                taken = min(side.skip, size - pos)
                side.skip -= taken
                pos += taken
                continue
            if sum(self._kinds) == LOOKED:
                self._rest += size - pos
                return
            while pos < size and (len(side.head) < 2 or side.head[-1] > 127) and len(side.head) < 5:
                side.head += data[pos : pos + 1]
                pos += 1
            head = side.head
            if len(head) < 2 or head[-1] > 127:
                if len(head) == 5:
                    side.head, side.skip = b"", _FOREVER
                continue
            side.head = b""
            length = sum((byte & 127) << 7 * index for index, byte in enumerate(head[1:]))
            self._packet(head[0], length, data[pos : pos + length])
            side.skip = max(0, length - (size - pos))
            pos = min(size, pos + length)

    def _packet(self, first: int, length: int, body: bytes) -> None:
        self._kinds[first >> 4] += 1
        if first >> 4 == 1 and len(body) > 2:
            at = 2 + (body[0] << 8 | body[1])
            self._five = len(body) > at and body[at] == 5
        if sum(self._kinds) <= 2:
            self._found.append(image_of(first, length, body, self._five, self._preview))
        else:
            self._last = image_of(first, length, body, self._five, self._preview)

    def _push(self, direction: int, size: int) -> None:
        if self._last is not None:
            self._found.append(self._last)
        self._kinds[0] = min(self._rest, UNKNOWN)
        kinds = b"".join(_KIND.pack(kind, count) for kind, count in enumerate(self._kinds) if count)
        images = b"".join(self._found)
        whole = _HEAD.size + len(kinds) + len(images)
        records = self._records
        if len(records) + whole > self._most:
            room, gone = self._most - self._most // 4 - whole, 0
            while len(records) - gone > room and gone < len(records):
                gone += records[gone] | records[gone + 1] << 8
            del records[:gone]
        counts = len(self._found) << 5 | len(kinds) // _KIND.size
        records += _HEAD.pack(whole, direction, counts, int(self._now() * 1000), min(size, UNKNOWN)) + kinds + images
        self.written += 1
        self._kinds, self._found, self._last, self._rest = [0] * 16, [], None, 0


def image_of(first: int, length: int, body: bytes, five: bool, preview: int = 0) -> bytes:
    """What is kept of one packet. ``body``: its beginning, as far as it is there."""
    kept = _publish(first, length, body, five, preview) if first >> 4 == 3 else body[: KEPT[first >> 4]]
    return _IMAGE.pack(5 + len(kept), first, length) + kept


def _publish(first: int, length: int, body: bytes, five: bool, preview: int) -> bytes:
    size = body[0] << 8 | body[1] if len(body) > 1 else 0
    at, packet_id, payload = 2 + size, 0, UNKNOWN
    if first & 6:
        if len(body) >= at + 2:
            packet_id = body[at] << 8 | body[at + 1]
        at += 2
    if five:
        at = _behind_properties(body, at)
    if 0 <= at <= length and len(body) >= at:
        payload = length - at
    begun = body[at : at + preview] if payload != UNKNOWN else b""
    return _PUBLISH.pack(payload, packet_id, size) + body[2 : 2 + min(size, TOPIC)] + begun


def _behind_properties(body: bytes, at: int) -> int:
    """Where the properties that begin there end; -1 if that is not known."""
    length = shift = 0
    for index in range(at, min(at + 4, len(body))):
        length |= (body[index] & 127) << shift
        shift += 7
        if body[index] < 128:
            return index + 1 + length
    return -1
