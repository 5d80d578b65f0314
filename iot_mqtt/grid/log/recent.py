"""The last turns, in memory: which streams they touched, and the messages themselves until they are committed.

The block that fills is known from here and from nowhere else. Once it is full its index is written, some
streams with each batch, while the next block fills; when that is committed, readers take it from the grid. A
start finds both blocks again in the summaries of their turns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from iot_mqtt.grid.log.generation import Generation, Stream, stage_record
from iot_mqtt.grid.log.keys import (
    ALL_STREAMS,
    BLOCK_TURNS,
    block_of,
    page_key,
    times_key,
)
from iot_mqtt.grid.log.plan import Plan, from_turn, planned
from iot_mqtt.grid.log.records import DROPPING, TIMES, encode_directory, encode_index, encode_times
from iot_mqtt.grid.log.selection import Selection
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import LogRun

#: Index entries written with one turn, so that none has to write them all.
CLOSED_PER_TURN = 512
_TURNS_PER_TIME = BLOCK_TURNS // TIMES

Keep = Callable[[int, dict[Stream, list[LogRun]], int], None]
T = TypeVar("T")


class _Block:
    """256 turns, by stream, and how far its index is written."""

    def __init__(self, writer: int, number: int) -> None:
        self.writer = writer
        self.number = number
        self.turns: dict[Stream, bytearray] = {}
        self.generations: set[Generation] = set()
        self.times = [0.0] * TIMES
        self._left: Iterator[tuple[Stream, bytearray]] | None = None
        #: The batch that completed its index.
        self.ticket: int | None = None

    def add(self, turn: int, wall: float, streams: Collection[Stream]) -> None:
        low = turn % BLOCK_TURNS
        part = low // _TURNS_PER_TIME
        self.times[part] = self.times[part] or wall
        turns = self.turns
        for stream in streams:
            found = turns.get(stream)
            if found is None:
                turns[stream] = bytearray((low,))
                self.generations.add(stream.generation)
            else:
                found.append(low)

    def stage(self, batch: WriteBatch, ticket: int, turn: int, limit: int | None) -> None:
        """Write up to so many entries, and the summary behind the last one. Records stand behind entries: what is of
        one cache and stands together is written at once.
        """
        if self._left is None:
            self._left = iter(self.turns.items())
        part = list(islice(self._left, limit))
        there = [(stream, turns) for stream, turns in part if stream.generation.state != DROPPING]
        for stream, turns in there:
            key = page_key(stream.generation.id, stream.shard, stream.id, self.number)
            batch.put(CacheName.LOG_INDEX, key, encode_index(bytes(turns)))
        for stream, _ in there:
            stage_record(batch, stream, turn)
        if len(part) != limit:
            self._stage_summary(batch, turn)
            self.ticket = ticket

    def _stage_summary(self, batch: WriteBatch, turn: int) -> None:
        directories: dict[tuple[Generation, int], list[tuple[int, bytes]]] = {}
        for stream, turns in self.turns.items():
            if stream.generation.state != DROPPING:
                directories.setdefault((stream.generation, stream.shard), []).append((stream.id, bytes(turns)))
        for (generation, shard), entries in directories.items():
            key = page_key(generation.id, shard, ALL_STREAMS, self.number)
            batch.put(CacheName.LOG_INDEX, key, encode_directory(entries))
        for generation in {generation for generation, _ in directories}:
            stage_record(batch, generation, turn)
        batch.put(CacheName.LOG_META, times_key(self.writer, self.number), encode_times(self.times))


class Recent:
    """``held`` is what is not committed, by turn and stream; the last turn of it is the one that gathers."""

    def __init__(self, writer: int, keep: Keep | None = None) -> None:
        """``keep`` gets the turns that were held and are committed, with the size of their pages."""
        self._writer = writer
        self._keep = keep
        self._sizes: dict[int, int] = {}
        self.held: dict[int, dict[Stream, list[LogRun]]] = {}
        #: Turns that are in no batch yet.
        self._gathering: dict[int, dict[Stream, list[LogRun]]] = {}
        self._blocks: list[_Block] = []
        #: Everything from this turn on is known here.
        self.first_turn = 0

    def gather(self, turn: int, gathering: dict[Stream, list[LogRun]]) -> None:
        """The turn that gathers from now on; it is seen as it grows."""
        self.held[turn] = gathering
        self._gathering[turn] = gathering

    def staged(self, turn: int, wall: float, streams: Collection[Stream], size: int = 0) -> None:
        """The turn is in a batch; ``size``: of its pages."""
        if turn in self.held:
            self._sizes[turn] = size
        number = block_of(turn)
        if not self._blocks or self._blocks[-1].number != number:
            self._blocks.append(_Block(self._writer, number))
        self._blocks[-1].add(turn, wall, streams)
        self._gathering.pop(turn, None)

    def stage(self, batch: WriteBatch, ticket: int, turn: int) -> None:
        """Go on with the index of the block that is full, before a turn is summarised."""
        for block in self._blocks:
            if block.ticket is None and block.number < block_of(turn):
                # The summaries of its turns are overwritten from the next block but one on.
                hurry = block.number + 1 < block_of(turn)
                block.stage(batch, ticket, turn - 1, None if hurry else CLOSED_PER_TURN)

    def committed(self, ticket: int, unstaged: int) -> None:
        """Let go of what is on the grid now; ``unstaged`` is the first turn that is not."""
        for turn in [turn for turn in self.held if turn < unstaged]:
            held, size = self.held.pop(turn), self._sizes.pop(turn, 0)
            if self._keep is not None and held:
                self._keep(turn, held, size)
        while self._blocks and self._blocks[0].ticket is not None and self._blocks[0].ticket <= ticket:
            number = self._blocks.pop(0).number
            self.first_turn = (number + 1) * BLOCK_TURNS

    def forget(self, turn: int) -> None:
        """Let go of the blocks before a turn: a reader of another's log takes them from the grid from now on."""
        while self._blocks and self._blocks[0].number < block_of(turn):
            self._blocks.pop(0)
        self.first_turn = max(self.first_turn, turn)

    def plan(self, selection: Selection, turn: int) -> Plan:
        """From a turn on, the streams with pages that the selection may want: all, or those of the first block."""
        for block in self._blocks:
            base = block.number * BLOCK_TURNS
            if base + BLOCK_TURNS <= turn:
                continue
            wanted = list(_wanted(block.turns, block.generations, selection))
            if wanted and (plan := from_turn(planned(base, wanted), turn)):
                return plan
        rows = []
        for number, streams in self._gathering.items():
            if number >= turn:
                generations = {stream.generation for stream in streams}
                found = [stream for stream, _ in _wanted(streams, generations, selection)]
                if found:
                    rows.append((number, found))
        return rows

    @property
    def times(self) -> list[tuple[int, float]]:
        """Turns of the blocks in memory, with the time at which each part of the block begins."""
        return [
            (block.number * BLOCK_TURNS + part * _TURNS_PER_TIME, wall)
            for block in self._blocks
            for part, wall in enumerate(block.times)
            if wall
        ]


def _wanted(
    touched: Mapping[Stream, T], generations: Collection[Generation], selection: Selection
) -> Iterator[tuple[Stream, T]]:
    """Those of the touched streams that the selection admits, found by way of the fewer."""
    for generation in generations:
        admitted = selection.streams(generation)
        if len(admitted) < len(touched):
            yield from ((stream, touched[stream]) for stream in admitted if stream in touched)
        else:
            yield from ((stream, found) for stream, found in touched.items() if stream in admitted)
