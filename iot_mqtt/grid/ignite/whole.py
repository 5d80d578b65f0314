"""Batches that are there whole or not at all, on servers that write one entry after the other.

What a turn of commits is about to write is written down first, under the node's number; whoever takes the place of a
node that died in the middle writes the rest of it before anything else::

    note ─▶ entries, cache after cache ─▶ the note is taken away, in the same frame

    META  whole/<number>         version (1) │ boot (8) │ turn (8) │ parts (2) │ crc (4) │ operations
          whole/<number>/<part>  more of them, where they are long
          finishing/<number>     version (1) │ number (1) │ boot (8): who is at it

A note stands as long as nobody but its writer has anything to do with the entries, and writing them once more spoils
nothing. It goes before anybody is told that the turn is over: then another node may become the home of its clients.

Two who finish the same batch would: the slower one would write over what the faster one has done since. So one of them
says that it is at it, by a compare-and-set, and the others wait until it is over, or until that one is dead, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from twisted.internet.defer import DeferredLock

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster_status import node_words
from iot_mqtt.ports.grid import CacheName, Grid, Operation, WriteBatch
from iot_mqtt.ports.scanning import scan

log = logging.getLogger(__name__)

VERSION: Final = 0x10
#: Bytes of operations in one entry; and what an entry of a note has around them in a frame, at most.
PART: Final = 1 << 20
AROUND: Final = 128
MOST_PARTS: Final = 0xFFFF
#: Seconds between two looks at whether somebody else is ready, and after which it is said that nobody knows.
LOOK: Final = 0.1
PATIENCE: Final = 10.0

_HEAD: Final = Struct(">BQQHI")
_CLAIM: Final = Struct(">BBQ")
_ENTRY: Final = Struct(">cHI")
_REMOVED: Final = 0xFFFFFFFF
_CACHES: Final = {tag: cache for cache, tag in TAGS.items()}

Life = tuple[int, int]


class Note(NamedTuple):
    """What was about to be written."""

    boot: int
    operations: list[Operation]


def head_key(number: int) -> bytes:
    return b"whole/%03d" % number


def part_key(number: int, part: int) -> bytes:
    return b"whole/%03d/%05d" % (number, part)


def claim_key(number: int) -> bytes:
    return b"finishing/%03d" % number


def note_of(
    life: Life, turn: int, operations: Sequence[Operation], room: int = PART
) -> tuple[list[Operation], Operation]:
    """The entries of a note: further parts, which are written first, and its head. ``room``: bytes in each."""
    number, boot = life
    data = b"".join(_encoded(operations))
    pieces = [data[start : start + room] for start in range(0, len(data), room)] or [b""]
    if len(pieces) > MOST_PARTS:
        raise Unavailable(f"a turn of {len(data)} bytes is too large to be written whole")
    head = _HEAD.pack(VERSION, boot, turn, len(pieces), crc32(data)) + pieces[0]
    parts: list[Operation] = [
        (CacheName.META, part_key(number, part), turn.to_bytes(8) + piece) for part, piece in enumerate(pieces[1:], 1)
    ]
    return parts, (CacheName.META, head_key(number), head)


def gone(number: int) -> Operation:
    """The note is taken away. Its further parts stay until others take their place."""
    return CacheName.META, head_key(number), None


def _encoded(operations: Sequence[Operation]) -> list[bytes]:
    found = []
    for cache, key, value in operations:
        found.append(_ENTRY.pack(TAGS[cache], len(key), _REMOVED if value is None else len(value)))
        found.append(key)
        if value is not None:
            found.append(value)
    return found


def _decoded(data: bytes) -> list[Operation]:
    found: list[Operation] = []
    at, end = 0, len(data)
    while at < end:
        tag, key_size, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        key = data[at : at + key_size]
        at += key_size
        value = None
        if size != _REMOVED:
            value = data[at : at + size]
            at += size
        cache = _CACHES.get(tag)
        if cache is None:
            raise Unavailable(
                f"what a dead node was writing is for a cache that this version does not know (tag 0x{tag.hex()})"
            )
        found.append((cache, key, value))
    return found


def _claimed(claim: bytes) -> Life:
    """Whose a claim is."""
    try:
        version, number, boot = _CLAIM.unpack_from(claim)
    except error as cut:
        raise Unavailable("a claim to finish what a dead node was writing is cut short") from cut
    if version >> 4 != VERSION >> 4:
        raise Unavailable(
            f"a claim to finish what a dead node was writing is of format {version >> 4}; this version reads 1"
        )
    return number, boot


class SwappingGrid(Grid, Protocol):
    """A grid that tells who it writes as."""

    @property
    def identity(self) -> Life: ...


class Finisher:
    """Writes the rest of what the dead were about to write."""

    def __init__(self, grid: SwappingGrid, clock: Clock) -> None:
        self._grid = grid
        self._clock = clock
        # One at a time: two lives of one node may be finished at the same moment.
        self._lock = DeferredLock()
        #: Batches that were found, and written again.
        self.finished = 0

    async def finish(self, number: int, boot: int) -> None:
        """Of a node's lives up to this one, which are fenced. Raises ``Unavailable``; then it is to be tried again."""
        await self._lock.acquire()
        try:
            await self._free_claims(number, boot)
            await self._finish(number, boot)
        finally:
            self._lock.release()

    async def _free_claims(self, number: int, boot: int) -> None:
        """What the dead were at is for others to finish."""
        async for key, claim in scan(self._grid, CacheName.META, b"finishing/"):
            claimer, claimer_boot = _claimed(claim)
            if claimer == number and claimer_boot <= boot:
                await self._grid.compare_and_set(CacheName.META, key, claim, None)

    async def _finish(self, number: int, boot: int) -> None:
        mine = _CLAIM.pack(VERSION, *self._grid.identity)
        key = claim_key(number)
        until = self._clock.monotonic() + PATIENCE
        while await self._note(number, boot) is not None:
            claim = await self._grid.get(CacheName.META, key)
            if claim == mine or (claim is None and await self._grid.compare_and_set(CacheName.META, key, None, mine)):
                # Somebody may have finished it between the two.
                note = await self._note(number, boot)
                if note is not None:
                    await self._write(number, note)
                await self._grid.compare_and_set(CacheName.META, key, mine, None)
                return
            if self._clock.monotonic() >= until:
                raise Unavailable(f"another node is still finishing what {node_words(number)} had begun to write")
            await pause(self._clock, LOOK)
        # An earlier attempt of ours may have finished it, and not have been told so.
        if await self._grid.get(CacheName.META, key) == mine:
            await self._grid.compare_and_set(CacheName.META, key, mine, None)

    async def _note(self, number: int, boot: int) -> Note | None:
        """What a fenced life has left; None if nothing, or if a later one is at work."""
        head = await self._grid.get(CacheName.META, head_key(number))
        if head is None:
            return None
        try:
            version, written_by, turn, parts, crc = _HEAD.unpack_from(head)
        except error as cut:
            raise Unavailable(f"the note of what {node_words(number)} was writing is cut short") from cut
        if version >> 4 != VERSION >> 4:
            raise Unavailable(f"the note of what {node_words(number)} was writing has format {version >> 4}; we read 1")
        if written_by > boot:
            return None
        pieces = [head[_HEAD.size :]]
        if parts > 1:
            keys = [part_key(number, part) for part in range(1, parts)]
            more = await self._grid.get_many(CacheName.META, keys)
            # Parts of a later turn, whose head was never written: this one was over before they were begun.
            if any(piece is None or piece[:8] != turn.to_bytes(8) for piece in more):
                return None
            pieces += [piece[8:] for piece in more if piece is not None]
        data = b"".join(pieces)
        if crc32(data) != crc:
            raise Unavailable(f"the note of what {node_words(number)} was writing is damaged")
        return Note(written_by, _decoded(data))

    async def _write(self, number: int, note: Note) -> None:
        batch = WriteBatch()
        batch.operations = note.operations
        batch.needed = True
        await self._grid.commit(batch)
        over = WriteBatch()
        over.operations = [gone(number)]
        await self._grid.commit(over)
        self.finished += 1
        log.info(
            "what a dead node was writing is whole", extra={"number": number, "boot": note.boot, "entries": len(batch)}
        )
