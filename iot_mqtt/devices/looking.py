"""Before a command is accepted over MQTT: was the same one accepted by another node?

A sender that did not see its PUBACK sends the command again, with its id, and to whichever node it finds. The node of
before may have committed it, for a target that is at home elsewhere: only the grid knows. So the sender is not read
from while the grid is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.codec import Properties
from iot_mqtt.devices.asked import command_id_of
from iot_mqtt.ports.devices import DeviceStore, StoredCommand

if TYPE_CHECKING:
    from iot_mqtt.broker.turn import Turn
    from iot_mqtt.devices.accepting import Accepting
    from iot_mqtt.devices.elsewhere import Elsewhere
    from iot_mqtt.ports.clock import Clock

#: Of a command: its owner and its id.
Place = tuple[str, str]


class Looking:
    """Does nothing on a sole node, whose book has everything."""

    def __init__(
        self, store: DeviceStore, accepting: Accepting, elsewhere: Elsewhere, turn: Turn, clock: Clock
    ) -> None:
        self._store = store
        self._accepting = accepting
        self._elsewhere = elsewhere
        self._turn = turn
        self._clock = clock
        #: What was looked for, and is published now.
        self._looked: Place | None = None

    def looks(self, topic: bytes, properties: Properties, then: Callable[[], None]) -> bool:
        """Whether the grid is asked first; ``then`` is called with its answer at hand, and publishes the command."""
        place = self._elsewhere.place_of(topic[len(DOWN) :].decode(), command_id_of(properties) or "")
        if place is None or place == self._looked:
            return False
        self._look(place, then)
        return True

    def _look(self, place: Place, then: Callable[[], None]) -> None:
        def found(record: StoredCommand | None) -> None:
            self._turn.call_soon(partial(self._over, place, record, then))

        def failed(_: BaseException) -> None:
            # Not known is not "not there": the sender waits.
            self._clock.call_later(RETRY_SECONDS, partial(self._look, place, then))

        drive(self._store.command(*place), found, failed)

    def _over(self, place: Place, record: StoredCommand | None, then: Callable[[], None]) -> None:
        self._looked, self._accepting.looked_up = place, record
        try:
            then()
        finally:
            self._looked, self._accepting.looked_up = None, None
