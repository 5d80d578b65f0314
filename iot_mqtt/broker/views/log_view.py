"""The facade's part for the log: what it holds, what it takes, and whether all of it can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

from iot_mqtt.broker.driving import breath, drive
from iot_mqtt.broker.log_part import (
    GenerationInfo,
    LoggedInfo,
    LoggedWanted,
    ShardInfo,
    StreamInfo,
    VerificationInfo,
)
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.upkeep import Upkeep
from iot_mqtt.broker.views.log_messages import logged
from iot_mqtt.broker.views.paging import pieces
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.fields import made_of
from iot_mqtt.ports.log import Breath, Damage, Log
from iot_mqtt.ports.status import LogInfo
from iot_mqtt.ports.store import Store

#: Damaged pages that are named; the rest is counted.
MAX_DAMAGES = 1000


class LogView:
    """``facade.LogPart`` over a running broker."""

    def __init__(
        self,
        log: Log,
        store: Store,
        budget: Budget,
        upkeep: Upkeep,
        verification: Verification,
        clock: Clock,
        breathe: Breath,
    ) -> None:
        self._log = log
        self._store = store
        self._budget = budget
        self._upkeep = upkeep
        self._verification = verification
        self._clock = clock
        self._breathe = breathe

    def info(self) -> LogInfo:
        """Figures of the log, and of the room for it."""
        log, budget, store = self._log, self._budget, self._store
        generations = log.generations()
        return made_of(
            LogInfo,
            log.figures,
            budget,
            end=log.end,
            messages=sum(one.messages for one in generations),
            bytes=log.size,
            generations=len(generations),
            streams=sum(one.streams for one in generations),
            disk_level=budget.level.value,
            uncommitted_bytes=budget.uncommitted,
            uncommitted_operations=store.waiting,
            trouble=store.trouble if store.failing else None,
        )

    async def shards(self) -> list[ShardInfo]:
        """Streams summed by shard."""
        sums: dict[int, list[int]] = {}
        async for stream in self._streams(None, None):
            found = sums.setdefault(stream.shard, [0, 0, 0, 0])
            for place, figure in enumerate((1, stream.pages, stream.messages, stream.bytes)):
                found[place] += figure
        return [ShardInfo(shard, *sums[shard]) for shard in sorted(sums)]

    def generations(self, after: int | None = None, limit: int = 100) -> list[GenerationInfo]:
        """In order of their numbers."""
        found = sorted(self._log.generations())
        return [GenerationInfo(*one) for one in found if after is None or one.id > after][:limit]

    async def streams(
        self, generation: int | None = None, after: tuple[int, int] | None = None, limit: int = 100
    ) -> list[StreamInfo]:
        """In order of generation and number."""
        found: list[StreamInfo] = []
        async for stream in self._streams(generation, after):
            if len(found) == limit:
                break
            found.append(stream)
        return found

    async def _streams(self, generation: int | None, after: tuple[int, int] | None) -> AsyncIterator[StreamInfo]:
        """One generation's after the other: there may be very many."""
        log = self._log
        for number in sorted(one.id for one in log.generations()):
            if (generation is not None and number != generation) or (after is not None and number < after[0]):
                continue
            async for piece in pieces(await log.streams(number, self._breathe), self._breathe):
                for one in piece:
                    if after is None or (number, one.id) > after:
                        yield StreamInfo(
                            number, one.id, one.shard, one.structure, *one.bucket, one.pages, one.messages, one.bytes
                        )

    def verify(self) -> VerificationInfo:
        """Begin to check every page."""
        self._verification.begin()
        return self._verification.info()

    def verification(self) -> VerificationInfo:
        """How far that is."""
        return self._verification.info()

    async def drop(self, generation: int) -> bool:
        """Drop a closed generation."""
        return await self._upkeep.drop(generation)

    async def messages(self, wanted: LoggedWanted) -> list[LoggedInfo]:
        """A page of what it holds."""
        return await logged(self._log, wanted, self._clock.wall(), self._breathe)


class Verification:
    """One check of every page at a time; what the last one found is kept."""

    __slots__ = (
        "_log",
        "_clock",
        "_call_soon",
        "_running",
        "_began_at",
        "_ended_at",
        "_failure",
        "_damaged",
        "_damages",
    )

    def __init__(self, log: Log, clock: Clock, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._log = log
        self._clock = clock
        self._call_soon = call_soon
        self._running = False
        self._began_at: float | None = None
        self._ended_at: float | None = None
        self._failure: str | None = None
        self._damaged = 0
        self._damages: list[Damage] = []

    def begin(self) -> None:
        """In the background, unless it is being done."""
        if self._running:
            return
        self._running, self._failure, self._damaged, self._damages = True, None, 0, []
        self._began_at, self._ended_at = self._clock.wall(), None
        drive(self._check(), self._done, self._failed)

    async def _check(self) -> None:
        async for damage in self._log.verify(partial(breath, self._call_soon)):
            self._damaged += 1
            if len(self._damages) < MAX_DAMAGES:
                self._damages.append(damage)

    def _done(self, _: None) -> None:
        self._running, self._ended_at = False, self._clock.wall()

    def _failed(self, error: BaseException) -> None:
        self._running, self._ended_at, self._failure = False, self._clock.wall(), str(error)

    def info(self) -> VerificationInfo:
        """As values."""
        return VerificationInfo(
            running=self._running,
            began_at=self._began_at,
            ended_at=self._ended_at,
            failure=self._failure,
            damaged=self._damaged,
            damages=list(self._damages),
        )
