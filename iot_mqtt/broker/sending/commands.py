"""What sending asks of whoever knows the commands to devices: whether one may leave, and how it ended."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Protocol

from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import Delivery, Piece

#: Where commands are published: towards a device.
DOWN: Final = b"down/"


class Leave(Enum):
    """Whether a message may leave to its client now."""

    YES = auto()
    #: It waits: for its ticket, which was set, or to be pumped again.
    WAIT = auto()
    #: It is over: nobody must get it any more.
    NEVER = auto()
    #: The same, and the client may have it from an earlier connection.
    NEVER_AGAIN = auto()


class Commands(Protocol):
    """Who knows them. Everything is called in the reactor's thread and nothing blocks."""

    def leaving(self, session: Session, item: Delivery | Piece) -> Leave:
        """A message to ``DOWN`` is the next to leave to a client."""
        ...

    def confirmed(self, session: Session, command: str) -> None:
        """PUBACK or PUBREC."""
        ...

    def dropped(self, session: Session, command: str, reason: Drop) -> None:
        """It was given up before the client had it."""
        ...


class Known(Protocol):
    """By whom they are known, which may be settled later."""

    @property
    def by(self) -> Commands: ...
