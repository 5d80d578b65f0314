"""Periodic work on the log: retention drops generations whose time is over, and counts whom that costs what."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import drive
from iot_mqtt.errors import ReasonCode, Refused, Unavailable

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker

logger = logging.getLogger(__name__)


class Upkeep:
    """Never two at once: a generation is written off and dropped before the next is looked at."""

    __slots__ = ("_broker", "_busy")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._busy = False

    def begin(self) -> None:
        """Drop what is due, in the background. Called every few seconds; a failure is tried again then."""
        if not self._busy:
            self._busy = True
            drive(self._retain(), self._ended, self._failed)

    def _ended(self, _: None) -> None:
        self._busy = False

    def _failed(self, error: BaseException) -> None:
        self._busy = False
        logger.error("the log's retention failed; trying again: %s", error)

    async def _retain(self) -> None:
        broker = self._broker
        due = broker.log.due(broker.clock.wall())
        # Closing a generation is a change that has to be committed.
        broker.turn.plan()
        for generation in due:
            await self._drop(generation.id)

    async def _drop(self, generation: int) -> None:
        # Nothing is read of a generation whose dropping has begun: when it is repeated, nothing is lost once more.
        uplink = self._broker.uplink
        await self._broker.census.write_off(generation)
        try:
            if uplink is not None:
                await uplink.write_off(generation)
            await self._broker.log.drop(generation)
        finally:
            if uplink is not None:
                uplink.go_on()
        logger.info("a generation of the log was dropped", extra={"generation": generation})

    async def drop(self, generation: int) -> bool:
        """Drop a closed generation by order; False if there is none of that number."""
        found = next((one for one in self._broker.log.generations() if one.id == generation), None)
        if found is None:
            return False
        if not found.closed:
            raise Refused(f"generation {generation} still takes messages", ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        if self._busy:
            raise Unavailable("generations are being dropped; try again")
        self._busy = True
        try:
            await self._drop(generation)
        finally:
            self._busy = False
        return True
