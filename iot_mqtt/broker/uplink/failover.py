"""What a node that is gone has recorded for the platform, sent up by another one.

The records keep the ids that they would have had: the spool is the dead node's, and the place is moved on where that
node kept it. Should it come back meanwhile, it goes on from there; both may then send the same records, as after any
start. The place is moved by compare-and-set, so that it never goes back behind what its owner has written.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from iot_mqtt.broker.uplink.ledger import Ledger
from iot_mqtt.broker.uplink.reader import Uplink
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.log import (
    Breath,
    Damage,
    Followed,
    GenerationInfo,
    LogFigures,
    LogRun,
    Reading,
    Reference,
    StreamInfo,
)
from iot_mqtt.ports.uplink import Place, Places, Plan, Sink

logger = logging.getLogger(__name__)

#: Seconds between two times that the place is kept.
KEEP_SECONDS = 1.0


class SwappedPlaces(Places, Protocol):
    """A place that its owner may move, too."""

    def swap(self, before: Place, after: Place) -> Awaitable[bool]:
        """Move it, unless somebody else has."""
        ...


class EndedLog:
    """The log of a writer that is gone: what is there is all there will be. It is a ``ports.log.CommittedLog``."""

    def __init__(self, log: Followed) -> None:
        self._log = log
        self.writer = log.writer
        self.figures: LogFigures = log.figures

    @property
    def end(self) -> int:
        """See the port, as for all of these."""
        return self._log.end

    @property
    def committed_end(self) -> int:
        return self._log.end

    async def read(
        self, filters: Sequence[str], position: int, messages: int, budget: int, *, all_up: bool = False
    ) -> Reading:
        return await self._log.read(filters, position, messages, budget, all_up=all_up)

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]:
        return await self._log.fetch(references)

    def scan(self, generation: int | None = None, position: int = 0) -> AsyncIterator[LogRun]:
        return self._log.scan(generation, position)

    async def position_at(self, wall: float) -> int:
        return await self._log.position_at(wall)

    def generations(self) -> list[GenerationInfo]:
        return self._log.generations()

    async def streams(self, generation: int | None = None, breath: Breath | None = None) -> list[StreamInfo]:
        return await self._log.streams(generation, breath)

    def verify(self, breath: Breath | None = None) -> AsyncIterator[Damage]:
        return self._log.verify(breath)


class UplinkFailover:
    """Of one node that is gone."""

    def __init__(
        self, places: SwappedPlaces, log: Followed, clock: Clock, call_soon: Callable[[Callable[[], None]], None]
    ) -> None:
        self._places = places
        self._log = EndedLog(log)
        self._refresh = log.refresh
        self._clock = clock
        self._call_soon = call_soon
        self._uplink: Uplink | None = None

    async def owed(self) -> Place | None:
        """Where it stands; None: everything is up, or the node had no uplink."""
        kept = await self._places.load()
        await self._refresh()
        if kept is None or (kept.position >= self._log.end and kept.taken == kept.recorded):
            return None
        return kept

    async def run(self, kept: Place, plan: Plan, sink: Sink, may_go_on: Callable[[], bool]) -> bool:
        """From where it stands to the end; whether it got there."""
        ledger = Ledger(self._places, self._log, self._clock, _nothing)
        uplink = Uplink(plan, sink, ledger, self._log, self._clock, self._call_soon)
        self._uplink = uplink
        await uplink.attach()
        uplink.begin()
        end = self._log.end
        try:
            while may_go_on():
                await pause(self._clock, KEEP_SECONDS)
                ledger.bring_up_to_date()
                over = ledger.safe_to >= end
                place = _done_with(ledger.place, end) if over else ledger.place
                if place != kept and not await self._places.swap(kept, place):
                    logger.info(
                        "the node is back, and sends up what it has recorded", extra={"number": self._log.writer}
                    )
                    return False
                kept = place
                if over:
                    logger.info(
                        "what a node that is gone has recorded is up",
                        extra={"number": self._log.writer, "records": ledger.safe},
                    )
                    return True
            return False
        finally:
            self.stop()

    def stop(self) -> None:
        """Leave it as it is kept."""
        uplink, self._uplink = self._uplink, None
        if uplink is not None:
            uplink.abandon()


def _done_with(place: Place, end: int) -> Place:
    """Nothing is owed of a log that has ended there, whatever was counted before a crash."""
    return place._replace(position=end, taken=place.recorded, taken_bytes=place.recorded_bytes)


def _nothing() -> None:
    """The place is kept when it is looked at."""
