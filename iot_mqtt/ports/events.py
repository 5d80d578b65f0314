"""What happens on a node, told to whoever watches: clients that come and go, sessions that end, alarms, commands.

::

    publish ──▶ the last ``KEPT``, for who comes back and wants what he missed
        └─────▶ watchers, at once

Whoever knows it publishes it. Publishing costs a small value; nothing is looked up or written for nobody, and the names
of its fields are not kept with each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from iot_mqtt.ports.named import made

__all__ = [
    "ALARM_CLEARED",
    "ALARM_RAISED",
    "CLIENT_CONNECTED",
    "CLIENT_DISCONNECTED",
    "CLIENT_REFUSED",
    "COMMAND_CHANGED",
    "KINDS",
    "SESSION_ENDED",
    "Event",
    "Events",
]

CLIENT_CONNECTED: Final = "client.connected"
CLIENT_DISCONNECTED: Final = "client.disconnected"
CLIENT_REFUSED: Final = "client.refused"
SESSION_ENDED: Final = "session.ended"
ALARM_RAISED: Final = "alarm.raised"
ALARM_CLEARED: Final = "alarm.cleared"
COMMAND_CHANGED: Final = "command.changed"
KINDS: Final = (
    CLIENT_CONNECTED,
    CLIENT_DISCONNECTED,
    CLIENT_REFUSED,
    SESSION_ENDED,
    ALARM_RAISED,
    ALARM_CLEARED,
    COMMAND_CHANGED,
)
#: Events that are kept; an event is half a kilobyte at most, about.
KEPT: Final = 1000


class Event(NamedTuple):
    """One thing that happened."""

    #: Counted from 1, in this life of the node.
    number: int
    #: Seconds since 1970.
    at: float
    kind: str
    names: Sequence[str]
    #: What JSON can say. Texts of clients are cut by who publishes them.
    values: Sequence[object]

    @property
    def fields(self) -> dict[str, object]:
        """The values by their names."""
        return dict(zip(self.names, self.values, strict=True))


class Events:
    """Of one life of a node."""

    __slots__ = ("last", "life", "watchers", "_kept", "_wall")

    def __init__(self, wall: Callable[[], float], kept: int = KEPT) -> None:
        self._wall = wall
        self._kept: deque[Event] = deque(maxlen=kept)
        #: Of the last event.
        self.last = 0
        #: Tells this life from others of the node.
        self.life = f"{int(wall() * 1000):x}"
        #: Called with each event; they raise nothing and do not block.
        self.watchers: tuple[Callable[[Event], None], ...] = ()

    def publish(self, kind: str, fields: Mapping[str, object]) -> None:
        """It happened."""
        self.note(kind, tuple(fields), tuple(fields.values()))

    def note(self, kind: str, names: Sequence[str], values: Sequence[object]) -> None:
        """The same of what happens often: ``names`` is one tuple for all of a kind."""
        self.last += 1
        event = made(Event, (self.last, self._wall(), kind, names, values))
        self._kept.append(event)
        for watch in self.watchers:
            watch(event)

    def after(self, number: int, most: int) -> tuple[list[Event], int]:
        """Events that came after one, as many as that; and how many of them are not kept any more."""
        first = self._kept[0].number if self._kept else self.last + 1
        lost = max(0, first - 1 - number)
        begin = max(0, number - first + 1)
        return [self._kept[index] for index in range(begin, min(begin + most, len(self._kept)))], lost
