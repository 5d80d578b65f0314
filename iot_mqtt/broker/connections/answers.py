"""Answers that wait for a commit, in the order in which they were given.

MQTT wants acknowledgements in the order of what they acknowledge [MQTT-4.6.0-2] [MQTT-4.6.0-3]; so an answer that
could go at once still waits behind one that can't.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from iot_mqtt.codec import PacketType
from iot_mqtt.errors import ReasonCode


class Waiting:
    """Answers of one kind that wait for the same commit.

    ``data`` is there where the packet is written already, ``call`` where something else is to happen then.
    """

    __slots__ = ("call", "data", "ids", "reason", "ticket", "type")

    def __init__(
        self,
        ticket: int,
        type: PacketType,
        ids: list[int],
        reason: ReasonCode = ReasonCode.SUCCESS,
        data: bytes | None = None,
        call: Callable[[], None] | None = None,
    ) -> None:
        self.ticket = ticket
        self.type = type
        self.ids = ids
        self.reason = reason
        self.data = data
        self.call = call


class Answers:
    """The answers of one connection that can't go yet. Made when the first one waits, dropped when none does."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: deque[Waiting] = deque()

    def __bool__(self) -> bool:
        return bool(self._items)

    def acknowledge(self, ticket: int, type: PacketType, ids: list[int], reason: ReasonCode) -> None:
        """Add an acknowledgement; those of one kind that wait for one commit become one run."""
        last = self._items[-1] if self._items else None
        if last is not None and last.ticket == ticket and last.type is type and last.reason is reason:
            last.ids.extend(ids)
        else:
            self._items.append(Waiting(ticket, type, list(ids), reason))

    def append(self, answer: Waiting) -> None:
        """Add anything else."""
        self._items.append(answer)

    def due(self, committed: int) -> Iterator[Waiting]:
        """Take out, in order, what waited for commits up to this one."""
        items = self._items
        while items and items[0].ticket <= committed:
            yield items.popleft()
