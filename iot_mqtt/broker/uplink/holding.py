"""Acknowledgements that wait for the uplink's sink, with ``uplink.ack: kafka``.

::

    PUBLISH ─▶ log ─(commit)─▶ reader ─▶ sink ─(safe)─▶ PUBACK, PUBREC

They wait beside those that wait for a commit, not among them: MQTT wants the order kept within PUBACKs and within
PUBRECs [MQTT-4.6.0-2] [MQTT-4.6.0-3], so only these go behind one that is held, and SUBACK, PUBCOMP and the rest pass.
What a client may have unacknowledged bounds what is held for it. A client of 3.x knows no such bound; from there on it
is not read from. Nothing is held for a connection that is gone: whoever comes back sends again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.uplink.ledger import Ledger
from iot_mqtt.broker.uplink.others import Others
from iot_mqtt.codec import PacketType
from iot_mqtt.errors import ReasonCode


class Publisher(Protocol):
    """Whose acknowledgements wait: a connection."""

    closed: bool

    @property
    def session(self) -> Session | None: ...

    def answer(self, type: PacketType, ids: list[int], ticket: int, reason: ReasonCode, /) -> None:
        """Acknowledge when a commit is over."""
        ...

    def disconnect(self, reason: ReasonCode, detail: str, /) -> None:
        """Close it, with the reason."""
        ...


class Budget(Protocol):
    """Who holds publishers off."""

    def pause(self, connection: Any, why: Pause, items: list[object]) -> None:
        """Read no further from a connection."""
        ...

    def resume(self, connection: Any, why: Pause) -> None:
        """Read on from a connection, if this was why it was not read from."""
        ...


class HeldAnswer(NamedTuple):
    """Acknowledgements of one publish."""

    #: Everything before this position of the log must be safe in the sink; 0: it only keeps its place in the order.
    position: int
    ticket: int
    type: PacketType
    ids: list[int]
    reason: ReasonCode
    #: The look at other nodes' uplinks that must be over; 0: none.
    look: int = 0


class Held:
    """What is held for one connection. Made when the first one is, dropped when none is."""

    __slots__ = ("_queues", "count")

    def __init__(self) -> None:
        self._queues: dict[PacketType, deque[HeldAnswer]] = {}
        #: Messages.
        self.count = 0

    def keeps(self, type: PacketType) -> bool:
        """Whether an acknowledgement of this type has to go behind another one."""
        return type in self._queues

    def add(self, answer: HeldAnswer) -> None:
        """Behind those of its type."""
        self._queues.setdefault(answer.type, deque()).append(answer)
        self.count += len(answer.ids)

    def due(self, safe: int, seen: int) -> list[HeldAnswer]:
        """Take out, in order, what waits for nothing behind this position, and for no look behind this one."""
        found: list[HeldAnswer] = []
        for type, queue in list(self._queues.items()):
            while queue and queue[0].position <= safe and queue[0].look <= seen:
                answer = queue.popleft()
                self.count -= len(answer.ids)
                last = found[-1] if found else None
                if last is not None and last.type is type and last.reason is answer.reason:
                    ticket = max(last.ticket, answer.ticket)
                    found[-1] = HeldAnswer(answer.position, ticket, type, last.ids + answer.ids, answer.reason)
                else:
                    found.append(answer)
            if not queue:
                del self._queues[type]
        return found

    @property
    def first(self) -> int:
        """The position that the first of them waits for."""
        return min(queue[0].position for queue in self._queues.values())


class Holding:
    """All of a node."""

    def __init__(
        self, ledger: Ledger, budget: Budget, call_soon: Callable[[Callable[[], None]], None], most: int
    ) -> None:
        """``most``: messages held for one connection before it is not read from."""
        self._ledger = ledger
        self._budget = budget
        self._call_soon = call_soon
        self._most = most
        #: What other nodes have recorded; None: there are no others.
        self.others: Others | None = None
        self._held: dict[Publisher, Held] = {}
        self._planned = False

    @property
    def connections(self) -> int:
        """That wait for the sink."""
        return len(self._held)

    def held_for(self, client_id: str) -> int:
        """Messages of a client that are not acknowledged for that."""
        return sum(
            held.count
            for publisher, held in self._held.items()
            if publisher.session is not None and publisher.session.client_id == client_id
        )

    def ask_others(self) -> int:
        """The look at other nodes' uplinks that what one of them may have recorded waits for."""
        return 0 if self.others is None else self.others.ask()

    @property
    def _seen(self) -> int:
        return 0 if self.others is None else self.others.seen

    def hold(self, connection: Publisher, answer: HeldAnswer) -> bool:
        """Keep an acknowledgement for later, if that is what it has to wait for."""
        held = self._held.get(connection)
        is_safe = answer.position <= self._ledger.safe_to and answer.look <= self._seen
        if is_safe and (held is None or not held.keeps(answer.type)):
            return False
        if held is None:
            held = self._held[connection] = Held()
        held.add(answer)
        session = connection.session
        if answer.type is PacketType.PUBACK and session is not None:
            session.inbound.unacknowledged += len(answer.ids)
        if held.count > self._most:
            self._budget.pause(connection, Pause.UPLINK, [])
        return True

    def moved(self) -> None:
        """More is safe than before: let go of what waited for it, at the end of this turn."""
        if self._held and not self._planned:
            self._planned = True
            self._call_soon(self._release)

    def _release(self) -> None:
        self._planned = False
        safe, seen = self._ledger.safe_to, self._seen
        for connection, held in list(self._held.items()):
            if connection.closed or self._held.get(connection) is not held:
                continue
            if held.first > safe:
                continue
            due = held.due(safe, seen)
            if not held.count:
                del self._held[connection]
            session = connection.session
            for answer in due:
                if answer.type is PacketType.PUBACK and session is not None:
                    session.inbound.unacknowledged -= len(answer.ids)
                # It may still have to wait for a commit.
                connection.answer(answer.type, answer.ids, answer.ticket, answer.reason)
            if held.count * 2 <= self._most:
                self._budget.resume(connection, Pause.UPLINK)

    def give_up(self, end: int) -> None:
        """What is before this position may be lost: close whoever waits for that. It comes back and sends again."""
        for connection, held in list(self._held.items()):
            if held.first <= end:
                connection.disconnect(ReasonCode.UNSPECIFIED_ERROR, "retention has dropped what was not sent up")
                self.forget(connection)

    def forget(self, connection: Publisher) -> None:
        """The connection is gone."""
        self._held.pop(connection, None)
