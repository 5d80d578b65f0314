"""What waits for a session: a bounded first-in-first-out queue that counts messages and bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from iot_mqtt.ports.counters import Drop
from iot_mqtt.session.delivery import Delivery

#: Bytes that a queue may have in any case, however much waits for others.
FLOOR = 1024 * 1024


class QueuedInAll:
    """What waits in all queues together; a message counts once for each session that it waits for."""

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self.limit = limit


class DeliveryQueue:
    """Deliveries without a packet id yet. The limits refuse the newcomer and never touch what is kept."""

    __slots__ = ("_items", "bytes", "in_all", "max_messages", "max_bytes")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        # A deque costs 600 bytes even when empty, and most sessions never queue anything.
        self._items: deque[Delivery] | None = None
        self.bytes = 0
        #: What it is part of; None: of nothing.
        self.in_all: QueuedInAll | None = None
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def __len__(self) -> int:
        return 0 if self._items is None else len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._items or ())

    def refusal(self, size: int) -> Drop | None:
        """Why a message of ``size`` bytes can't be taken now; None if it can."""
        if len(self) >= self.max_messages:
            return Drop.QUEUE_FULL
        if self.bytes + size > self.max_bytes:
            return Drop.QUEUE_BYTES
        in_all = self.in_all
        if in_all is not None and in_all.bytes + size > in_all.limit and self.bytes + size > FLOOR:
            return Drop.QUEUES_FULL
        return None

    def append(self, delivery: Delivery) -> None:
        """Put it last; the caller has asked ``refusal`` (or restores what was accepted before a restart)."""
        if self._items is None:
            self._items = deque()
        self._items.append(delivery)
        self._count(delivery.message.size)

    def popleft(self) -> Delivery:
        """Take the one that waits longest."""
        if not self._items:
            raise IndexError("the queue is empty")
        delivery = self._items.popleft()
        self._count(-delivery.message.size)
        if not self._items:
            self._items = None
        return delivery

    def take_all(self) -> list[Delivery]:
        """Empty the queue."""
        items = list(self._items or ())
        self._items = None
        self._count(-self.bytes)
        return items

    def leave(self) -> None:
        """Its session is not here any more: what still waits counts for nobody."""
        if self.in_all is not None:
            self.in_all.bytes -= self.bytes
            self.in_all = None

    def _count(self, size: int) -> None:
        self.bytes += size
        if self.in_all is not None:
            self.in_all.bytes += size
