"""Answers that wait for a commit, in the order in which they were given.

MQTT wants acknowledgements in the order of what they acknowledge [MQTT-4.6.0-2] [MQTT-4.6.0-3]; so an answer that
could go at once still waits behind one that can't.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from iot_mqtt.broker.connections.client_writer import ClientWriter
from iot_mqtt.codec import Packet, PacketType
from iot_mqtt.errors import ReasonCode

_PUBACK: Final = PacketType.PUBACK
_PUBREC: Final = PacketType.PUBREC
_SUCCESS: Final = ReasonCode.SUCCESS


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
        reason: ReasonCode = _SUCCESS,
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
        if (
            last is not None
            and last.data is None
            and last.ticket == ticket
            and last.type is type
            and last.reason is reason
        ):
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


class AnswerWriter(ClientWriter):
    """The half of a connection that writes, with answers in their order."""

    __slots__ = ("answers",)

    answers: Answers | None

    def answer(self, type: PacketType, ids: list[int], ticket: int = 0, reason: ReasonCode = _SUCCESS) -> None:
        """Acknowledge once ``ticket`` is committed, in order behind earlier answers."""
        if self.answers is None and ticket <= self.output.store.committed:
            self.send(self.written(type, ids, reason))
            return
        if type is _PUBACK and self.session is not None:
            self.session.inbound.unacknowledged += len(ids)
        self._waiting().acknowledge(ticket, type, ids, reason)

    def reply(self, packet: Packet, *, once_committed: bool = False) -> None:
        """Answer with a packet, at once or when all is committed that was staged, in order behind earlier answers."""
        data, store = self.written_to_fit(packet), self.output.store
        self.output.counters.others_sent[packet.type.name] += 1
        ticket = store.latest if once_committed else 0
        if self.answers is None and ticket <= store.committed:
            self.send(data)
        else:
            self._waiting().append(Waiting(ticket, packet.type, [], data=data))

    def after_commit(self, call: Callable[[], None]) -> None:
        """Do something once all is committed that was staged, in order behind earlier answers."""
        store = self.output.store
        if self.answers is None and store.latest <= store.committed:
            call()
        else:
            self._waiting().append(Waiting(store.latest, PacketType.CONNACK, [], call=call))

    def _waiting(self) -> Answers:
        if self.answers is None:
            self.answers = Answers()
            self.output.turn.await_commit(self)
        return self.answers

    def committed(self) -> None:
        """A commit is over: let the answers go that waited for it."""
        answers = self.answers
        if answers is None:
            return
        for answer in answers.due(self.output.store.committed):
            if self.closed:
                return
            if answer.call is not None:
                answer.call()
                continue
            if answer.type is _PUBACK or answer.type is _PUBREC:
                self.output.turn.acknowledged += len(answer.ids)
            if answer.type is _PUBACK and self.session is not None:
                self.session.inbound.unacknowledged -= len(answer.ids)
            self.send(answer.data or self.written(answer.type, answer.ids, answer.reason))
        if answers:
            self.output.turn.await_commit(self)
        else:
            self.answers = None
