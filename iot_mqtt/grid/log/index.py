"""What the grid knows of full blocks: which turns have a page of which stream."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.generation import Generation, Stream
from iot_mqtt.grid.log.keys import ALL_STREAMS, BLOCK_TURNS, block_of, page_key
from iot_mqtt.grid.log.plan import Plan, from_turn, planned, weight
from iot_mqtt.grid.log.records import DROPPING, decode_directory, decode_index
from iot_mqtt.grid.log.selection import Selection
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.log import LogFigures

#: From so many streams of a shard on, the directory of all of them is read instead of their entries.
WIDE = 32
#: Entries asked for in advance when few streams are wanted, so that rare topics are found in few steps.
AHEAD = 64
#: Bounds of what is kept: bytes of entries, and pages in plans.
CACHE_BYTES = 4 << 20
PLANNED_PAGES = 50_000

#: One entry: the turns of one stream, or of each stream of a shard.
Entry = dict[int, bytes]


class BlockIndex:
    """Reads it, and keeps what was read last. A full block only ever loses whole generations, so absent stays absent,
    and a plan is good until one of those that it was made of is dropped.
    """

    def __init__(self, grid: Grid, catalogue: Catalogue, figures: LogFigures) -> None:
        self._grid = grid
        self._catalogue = catalogue
        self._figures = figures
        self._entries: OrderedDict[bytes, tuple[Entry, int]] = OrderedDict()
        self._bytes = 0
        self._plans: OrderedDict[tuple[Selection, int], tuple[Plan, list[Generation]]] = OrderedDict()
        self._planned = 0

    async def plan(self, selection: Selection, turn: int, end: int) -> tuple[Plan, int]:
        """From a turn on, before ``end``: pages that the selection may want, and the turn to go on at."""
        block = block_of(turn)
        last = block_of(end - 1)
        while block <= last:
            plan = await self._block(selection, block, last)
            left = from_turn(plan, turn)
            block += 1
            if left:
                return left, block * BLOCK_TURNS
        return [], end

    async def _block(self, selection: Selection, block: int, last: int) -> Plan:
        known = self._plans.get((selection, block))
        if known is not None:
            plan, generations = known
            if not any(generation.state == DROPPING for generation in generations):
                self._plans.move_to_end((selection, block))
                return plan
            del self._plans[selection, block]
            self._planned -= weight(plan)
        streams = await self._candidates(selection, block)
        if not streams:
            return []
        found = [(stream, turns) for stream, turns in await self._turns(streams, block, last) if turns]
        plan = planned(block * BLOCK_TURNS, found)
        self._keep_plan(selection, block, plan, {stream.generation: None for stream, _ in found})
        return plan

    async def _candidates(self, selection: Selection, block: int) -> list[Stream]:
        first, last = block * BLOCK_TURNS, (block + 1) * BLOCK_TURNS - 1
        found: list[Stream] = []
        for generation in self._catalogue.between(first, last):
            await self._catalogue.ensure(generation)
            streams = selection.streams(generation)
            if generation.unseen >= first:
                found += [stream for stream in streams if stream.first_turn <= last]
            else:
                found += [stream for stream in streams if stream.first_turn <= last and stream.last_turn >= first]
        return found

    async def _turns(self, streams: list[Stream], block: int, last: int) -> Iterable[tuple[Stream, bytes]]:
        """The turns of each stream in a block; entries of following blocks are fetched along when it is cheap."""
        groups: dict[tuple[int, int], list[Stream]] = {}
        for stream in streams:
            groups.setdefault((stream.generation.id, stream.shard), []).append(stream)
        asked: dict[bytes, list[Stream]] = {}
        for (generation, shard), members in groups.items():
            if len(members) >= WIDE:
                asked[page_key(generation, shard, ALL_STREAMS, block)] = members
            else:
                for stream in members:
                    asked[_key(stream, block)] = [stream]
        ahead = [
            _key(stream, following)
            for following in range(block + 1, min(last, block + AHEAD // len(streams)) + 1)
            for stream in streams
            if len(streams) < WIDE and block_of(max(stream.last_turn, stream.generation.unseen)) >= following
        ]
        entries = await self._fetch(list(asked), ahead)
        return [(stream, entries[key].get(stream.id, b"")) for key, members in asked.items() for stream in members]

    async def _fetch(self, keys: list[bytes], ahead: list[bytes]) -> dict[bytes, Entry]:
        found: dict[bytes, Entry] = {}
        missing = []
        for key in keys:
            known = self._entries.get(key)
            if known is None:
                missing.append(key)
            else:
                self._entries.move_to_end(key)
                found[key] = known[0]
        if missing:
            missing += [key for key in ahead if key not in self._entries]
            for key, value in zip(missing, await self._grid.get_many(CacheName.LOG_INDEX, missing), strict=True):
                found[key] = self._keep(key, value)
        return found

    def _keep(self, key: bytes, value: bytes | None) -> Entry:
        entry: Entry = {}
        if value is not None:
            self._figures.bytes_read += len(value)
            stream = int.from_bytes(key[6:10], "big")
            entry = decode_directory(value) if stream == ALL_STREAMS else {stream: decode_index(value)}
        # An entry's bytes, and about what the objects around them take.
        weight = (0 if value is None else len(value)) + 100 * (len(entry) + 1)
        if key not in self._entries:
            self._entries[key] = entry, weight
            self._bytes += weight
            while self._bytes > CACHE_BYTES and len(self._entries) > 1:
                self._bytes -= self._entries.popitem(last=False)[1][1]
        return entry

    def _keep_plan(self, selection: Selection, block: int, plan: Plan, generations: Iterable[Generation]) -> None:
        if (selection, block) not in self._plans:
            self._plans[selection, block] = plan, list(generations)
            self._planned += weight(plan)
            while self._planned > PLANNED_PAGES and len(self._plans) > 1:
                self._planned -= weight(self._plans.popitem(last=False)[1][0])


def _key(stream: Stream, block: int) -> bytes:
    return page_key(stream.generation.id, stream.shard, stream.id, block)
