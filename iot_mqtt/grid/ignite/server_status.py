"""What gateways say of their servers: how many there are, what is missing, and how full they are."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.grid.ignite.frames import Room, Topology


class ServerStatus:
    """As the gateway in use has said last."""

    def __init__(self) -> None:
        self.count = 0
        #: Partitions that have fewer copies than they should; None: not known.
        self.missing: int | None = None
        #: None: not known.
        self.room: Room | None = None
        self.on_room: Callable[[], None] = _nothing

    def changed(self, topology: Topology) -> None:
        """Some have come or gone, or copies were made."""
        self.count, self.missing = topology.servers, topology.missing

    def room_changed(self, room: Room) -> None:
        """They are fuller, or emptier."""
        self.room = room if room.offered else None
        self.on_room()

    def lost(self) -> None:
        """Nobody says it any more."""
        self.missing = None


def _nothing() -> None:
    """Nobody wants to know."""
