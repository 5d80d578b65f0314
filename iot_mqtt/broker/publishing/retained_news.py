"""What is published while somebody reads what was retained before: he gets that as it comes, and not once more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from weakref import WeakSet

from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop

#: Of QoS 0, which nobody relies on.
_OF_QOS0: Final = (Drop.OFFLINE_QOS0, Drop.OUTBOX_FULL)


class Since:
    """When somebody has subscribed: what is published from then on he gets as it comes, unless he loses some of it."""

    __slots__ = ("number", "lost", "__weakref__")

    def __init__(self, number: int, session: Session) -> None:
        self.number = number
        self.lost = _lost(session)

    def holds(self, session: Session) -> bool:
        """Whether the session has lost nothing since."""
        return _lost(session) == self.lost


class RetainedNews:
    """Topics that were set since somebody has subscribed who has not read all of what was there: no more than there are
    retained messages.
    """

    __slots__ = ("_begun", "_count", "_at")

    def __init__(self) -> None:
        self._begun: WeakSet[Since] = WeakSet()
        self._count = 0
        #: Topic → its number among all that was set.
        self._at: dict[bytes, int] = {}

    def begin(self, session: Session) -> Since:
        """From now on, as long as this is kept."""
        since = Since(self._count, session)
        self._begun.add(since)
        return since

    def came(self, topics: Iterable[bytes]) -> None:
        """They were published, and whoever has subscribed to them gets that."""
        if self._begun:
            self._count += 1
            self._at.update(dict.fromkeys(topics, self._count))
        elif self._at:
            self._at = {}

    def gone(self, topic: bytes) -> None:
        """It has no retained message any more."""
        self._at.pop(topic, None)

    def has(self, topic: bytes, since: Since) -> bool:
        """Whether it was set since then."""
        return self._at.get(topic, 0) > since.number


def _lost(session: Session) -> int:
    """Messages of QoS 1 and 2 that it did not get."""
    dropped = session.dropped
    return 0 if dropped is None else dropped.total() - sum(dropped[reason] for reason in _OF_QOS0)
