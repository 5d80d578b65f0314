"""What is known of another writer's log: its last turns, found in their summaries when a reader comes so far.

    ... │ block │ block │ block │ block ·····│
                        ├ recent ───────┤    └ the writer
                        └ first turn    └ turn: nothing is known from here on

Readers of what is before the first turn find it in the index. When a reader comes to the end of what is known, the
summaries of all turns that were announced meanwhile are fetched at once; those that the writer has written over
already are of blocks whose index is complete.
"""

from __future__ import annotations

import logging

from twisted.internet.defer import Deferred

from iot_mqtt.grid.log.followed_catalogue import FollowedCatalogue, Named
from iot_mqtt.grid.log.keys import BLOCK_TURNS, block_of
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import DROPPING
from iot_mqtt.grid.log.replaying import pages_of, replay
from iot_mqtt.grid.log.ring import Ring, Turns, is_complete
from iot_mqtt.ports.log import TURN_BITS, LogFigures

log = logging.getLogger(__name__)


class Knowledge:
    """``reading.Head`` of a log that is followed."""

    def __init__(self, ring: Ring, catalogue: FollowedCatalogue, recent: Recent, figures: LogFigures) -> None:
        self._ring = ring
        self._catalogue = catalogue
        self._recent = recent
        self._figures = figures
        #: Readers that wait for the one that is getting to know more; None: nobody is.
        self._waiting: list[Deferred[None]] | None = None
        self._begun = -1
        self.turn = 0

    @property
    def end(self) -> int:
        """Behind the last turn that is known."""
        return self.turn << TURN_BITS

    async def advance(self, turn: int) -> None:
        """Know everything before this turn, all of which is committed. Readers that wait for it wait together."""
        while turn > self.turn:
            if self._waiting is not None:
                waiting: Deferred[None] = Deferred()
                self._waiting.append(waiting)
                await waiting
                continue
            self._waiting = []
            try:
                await self._advance(turn)
            finally:
                # One after another: a lock that each passes on to the next would be left by hundreds in each other's
                # calls.
                woken, self._waiting = self._waiting, None
                for one in woken:
                    one.callback(None)

    async def _advance(self, turn: int) -> None:
        known = self.turn
        if turn <= known:
            return
        begun, turns = self._begun, await self._ring.read(known, turn)
        if not all(is_complete(turns.get(number)) for number in range(known, turn)):
            # Turns that a start has left out, or not all of their shards: there may be more of these since that start.
            extent = self._ring.extent
            begun = await self._look_for_start()
            if self._ring.extent != extent:
                turns = await self._ring.read(known, turn)
        # The index of the blocks before the last two is there, even if the last turn itself is not complete yet.
        first = max((block_of(max(turns, default=0)) - 1) * BLOCK_TURNS, self._recent.first_turn)
        missed = first > known
        if missed or begun != self._begun:
            await self._catalogue.reload()
        if missed:
            self._catalogue.miss(known, first)
        turns = {number: turns[number] for number in sorted(turns) if max(known, first) <= number < turn}
        await self._learn(turns)
        # Nothing is awaited from here on: readers see all of it or nothing.
        self._recent.forget(first)
        for number, records in turns.items():
            replay(number, records, self._catalogue, self._recent)
        self._catalogue.recent_turn = self._recent.first_turn
        self._begun = begun
        self.turn = max(turn, first)

    async def _look_for_start(self) -> int:
        """Where the writer's last start began."""
        begun = await self._ring.begun()
        return self._begun if begun is None else begun.turn

    async def _learn(self, turns: Turns) -> None:
        """Have the generations and streams that these turns name."""
        named: dict[int, Named] = {}
        for turn, records in turns.items():
            for page in pages_of(records):
                generation = self._catalogue.generations.get(page.generation)
                if generation is not None and turn < generation.first_turn:
                    continue
                before = named.get(page.generation)
                streams = set() if before is None else before.streams
                streams.add(page.stream)
                named[page.generation] = Named(streams, turn)
        await self._catalogue.learn(named)
        for id, (streams, turn) in named.items():
            generation = self._catalogue.generations.get(id)
            if generation is None or generation.state == DROPPING or not streams - generation.streams.keys():
                continue
            await self._catalogue.confirm([generation])
            missing = sorted(streams - generation.streams.keys())
            if generation.state != DROPPING and missing:
                self._figures.damaged_pages += len(missing)
                log.error(
                    "the log is damaged: generation %d has no streams %s, which turns up to %d wrote to; their "
                    "messages are skipped",
                    id,
                    missing[:10],
                    turn,
                )
