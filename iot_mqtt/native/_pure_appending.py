"""The pure-Python twin of ``_appending.pyx``: how rows of runs go into the log, and turns into pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any
from zlib import crc32

_CHECK = Struct(">BI")
#: The number of runs, and the one run (``grid.log.page``).
_ONE = Struct(">IIIBdHI")
_NUMBER = (1 << 24) - 1

#: What a turn has of each shard: generation, stream, messages and bytes of each page (``grid.log.records``); and
#: messages and bytes in all.
Written = tuple[dict[int, bytearray], int, int]
_WRITTEN = Struct(">IIII")


class RowWriter:
    """For one log. It fills ``logged``, a class with slots, and ``reference``, a tuple; the other classes it reads and
    counts on: where the runs of a topic go (``place``), and what they go to.
    """

    def __init__(
        self,
        logged: type[Any],
        reference: type[Any],
        run: type[Any],
        place: type[Any],
        stream: type[Any],
        generation: type[Any],
        *,
        nobody: Any,
        version: int,
    ) -> None:
        self._logged = logged
        self._reference = reference
        self._nobody = nobody
        self._version = version

    def append(
        self,
        runs: Sequence[Any],
        found: list[Any],
        places: dict[bytes, Any],
        gathering: dict[Any, list[Any]],
        shard: int,
        publisher: str,
        arrived: float,
        origin: Any,
        turn: int,
        position: int,
        usable: int,
    ) -> int:
        """Add the runs behind those that were found to what gathers, from ``position`` on, up to the first one whose
        topic has no place in a generation that is as ``usable`` says, and takes more; the position behind them.
        """
        for run in runs[len(found) :]:
            topic, count = run.topic, run.count
            place = places.get(topic)
            stream = None if place is None else place.streams[shard]
            if place is None or stream is None:
                break
            generation = place.generation
            if generation.state != usable or arrived >= generation.until or generation.bytes >= generation.full_at:
                break
            where = tuple.__new__(self._reference, (generation.id, stream.id, position, count))
            logged = self._logged(where, run, topic, publisher, arrived, origin)
            gathered = gathering.get(stream)
            if gathered is None:
                gathering[stream] = [logged]
            else:
                gathered.append(logged)
            position += count
            generation.end, generation.ended_at = position, arrived
            stream.last_turn = turn
            found.append(logged)
        return position

    def stage(
        self,
        gathered: dict[Any, list[Any]],
        end: bytes,
        cache: Any,
        operations: list[Any],
        encode: Callable[[Sequence[Any]], bytes],
        ticket: int,
    ) -> Written:
        """Add the pages of a turn, whose keys have this end, and count them; what was written to each shard.
        ``encode`` makes a page of what is more than one run of nobody's.
        """
        written: dict[int, bytearray] = {}
        all_messages = all_bytes = 0
        for stream, runs in gathered.items():
            plain = len(runs) == 1 and runs[0].origin is self._nobody
            page = self._page_of_one(runs[0]) if plain else encode(runs)
            operations.append((cache, stream.key + end, page))
            size, messages = len(page), sum([found.reference[3] for found in runs])
            stream.pages += 1
            stream.messages += messages
            stream.bytes += size
            generation = stream.generation
            generation.messages += messages
            generation.bytes += size
            generation.ticket = ticket
            all_messages += messages
            all_bytes += size
            written.setdefault(stream.shard, bytearray()).extend(
                _WRITTEN.pack(generation.id, stream.id, messages, size)
            )
        return written, all_messages, all_bytes

    def _page_of_one(self, found: Any) -> bytes:
        run = found.run
        wire = run.wire
        publisher = found.publisher.encode()
        number = found.reference[2] & _NUMBER
        head = _ONE.pack(1, number, run.count, 1 if run.five else 0, found.arrived, len(publisher), len(wire))
        body = b"".join((head, publisher, wire))
        return _CHECK.pack(self._version, crc32(body)) + body
