"""What nodes say to each other of durable groups: gathered in a turn, said when its commit is over.

From who gives a part out: ``ask``, ``noted``, ``gives`` (from now on it is this node that does), and from who does
not (any more) ``elsewhere``. From the members' side: ``done``, ``returned``, ``full``, ``room``, ``held``, ``unknown``.
From either: ``lost``.

A node that begins hears nothing of it before it has read what it keeps: it would deny what it has not read yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from iot_mqtt.ports.log import Reference

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker

#: What is said to the members' side.
TO_MEMBERS: Final = frozenset({"ask", "noted", "gives", "elsewhere"})
#: References in one word.
MOST: Final = 2_000


class Word(NamedTuple):
    """Something to be said."""

    peer: int
    kind: str
    name: str
    client_id: str
    references: list[Reference]


class GroupTalk:
    """Of one node; a sole one talks to itself at most."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._gathered: list[Word] = []
        self._held: deque[tuple[int, Word]] = deque()
        #: What came before this node had read what it keeps; None afterwards.
        self._early: list[Word] | None = []

    def begin(self) -> None:
        """All sessions and groups that are kept here are in memory."""
        early, self._early = self._early or [], None
        for word in early:
            self.told(*word)

    def tell(self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference]) -> None:
        """Say it at the end of the turn, or after its commit."""
        broker = self._broker
        if broker.clustering is None or peer == broker.log.writer:
            broker.call_soon(partial(self.told, peer, kind, name, client_id, list(references)))
            return
        last = self._gathered[-1] if self._gathered else None
        if last is not None and last[:4] == (peer, kind, name, client_id) and len(last.references) < MOST:
            last.references.extend(references)
        else:
            self._gathered.append(Word(peer, kind, name, client_id, list(references)))
        broker.plan_turn()

    def told(self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference]) -> None:
        """A peer has said this, or this node to itself."""
        if self._early is not None:
            self._early.append(Word(peer, kind, name, client_id, list(references)))
        elif kind in TO_MEMBERS:
            self._broker.borrowing.told(peer, kind, name, client_id, references)
        else:
            self._broker.loans.told(peer, kind, name, client_id, references)

    def end_turn(self, latest: int) -> None:
        """What was gathered waits for this commit, and follows what was forwarded with it."""
        gathered, self._gathered = self._gathered, []
        self._held.extend((latest, word) for word in gathered)

    def committed(self, committed: int) -> None:
        clustering = self._broker.clustering
        while self._held and self._held[0][0] <= committed:
            _, word = self._held.popleft()
            if clustering is not None:
                clustering.say(word)
