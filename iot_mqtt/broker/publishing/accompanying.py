"""Messages that the broker accompanies: commands to devices, whose senders learn what became of them.

What a command is, is not known here, only where the broker asks: when one is published, before one leaves to a
client, when one was confirmed or given up, and when a session comes or goes. A topic's prefix says whether to ask, so
that other messages pay one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.steps import Sender, Step
from iot_mqtt.broker.sending.commands import DOWN, Commands, Leave
from iot_mqtt.codec import Properties
from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import Delivery, Piece

if TYPE_CHECKING:
    from iot_mqtt.broker.session import Session

#: Where publishing means more than handing on.
SPECIAL: Final = (DOWN, b"reply/", b"shadow/")


class Accompanying(Commands, Protocol):
    """Who knows the commands. Everything is called in the reactor's thread and nothing blocks."""

    def looks(self, topic: bytes, properties: Properties, then: Callable[[], None]) -> bool:
        """A message is about to be published to ``DOWN``. True: not yet, it is looked for on other nodes; ``then`` is
        called when that is over, some time later, and has it published.
        """
        ...

    def published(self, publication: Publication, connection: Sender | None) -> Outcome | None:
        """Something was published to one of ``SPECIAL``; None: it is an ordinary message, to be handed on."""
        ...

    def refused(self, session: Session, command: str) -> None:
        """PUBACK or PUBREC with a reason that says no."""
        ...

    def client_came(self, connection: Sender) -> None:
        """A client is connected, or has subscribed to more."""
        ...

    def client_left(self, connection: Sender) -> None:
        """Its session has lost this connection."""
        ...

    def session_came(self, client_id: str, *, inherited: bool) -> None:
        """A session that another node had is at home here; ``inherited``: that one is dead."""
        ...

    def session_left(self, client_id: str) -> None:
        """It is at home elsewhere now."""
        ...

    def session_ended(self, client_id: str) -> None:
        """It is gone, with all that waited in it."""
        ...


class Accompany(Step):
    """The step of ``SPECIAL`` topics: whoever knows commands is asked what a message there is."""

    __slots__ = ("_accompanying",)

    alone = True
    prefixes = SPECIAL

    def __init__(self, accompanying: Accompanying) -> None:
        self._accompanying = accompanying

    def concerns(self, topic: bytes) -> bool:
        return topic.startswith(SPECIAL)

    def take(self, publication: Publication, sender: Sender | None) -> Outcome | None:
        return self._accompanying.published(publication, sender) if publication.qos else None


class Unaccompanied:
    """An ``Accompanying`` that knows no commands: everything is an ordinary message."""

    __slots__ = ()

    def looks(self, topic: bytes, properties: Properties, then: Callable[[], None]) -> bool:
        return False

    def published(self, publication: Publication, connection: Sender | None) -> Outcome | None:
        return None

    def leaving(self, session: Session, item: Delivery | Piece) -> Leave:
        return Leave.YES

    def confirmed(self, session: Session, command: str) -> None:
        pass

    def refused(self, session: Session, command: str) -> None:
        pass

    def dropped(self, session: Session, command: str, reason: Drop) -> None:
        pass

    def client_came(self, connection: Sender) -> None:
        pass

    def client_left(self, connection: Sender) -> None:
        pass

    def session_came(self, client_id: str, *, inherited: bool) -> None:
        pass

    def session_left(self, client_id: str) -> None:
        pass

    def session_ended(self, client_id: str) -> None:
        pass


class Accompaniment:
    """Who accompanies messages on this node: nobody, until commands are loaded."""

    __slots__ = ("by",)

    def __init__(self) -> None:
        self.by: Accompanying = Unaccompanied()
