"""What nodes say to each other of durable groups: gathered in a turn, said when its commit is over.

From who gives a part out: ``ask``, ``noted``, ``gives`` (from now on it is this node that does), and from who does
not (any more) ``elsewhere``. From the members' side: ``done``, ``returned``, ``full``, ``room``, ``held``, ``unknown``.
From either: ``lost``. An ``ask`` has a number, and what is said for an answer has the same; 0: it is none.

A node that begins hears nothing of it before it has read what it keeps: it would deny what it has not read yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from iot_mqtt.broker.shared_groups.members import RemoteMember
from iot_mqtt.broker.shared_groups.node import OtherNodes, Turn
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.log import Reference

#: Takes (peer, kind, name, client id, references, question).
Hear: TypeAlias = Callable[[int, str, str, str, Sequence[Reference], int], None]

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
    question: int


class GroupLink:
    """Of one node; a sole one talks to itself at most."""

    def __init__(self, turn: Turn, writer: int, hear: Hear) -> None:
        """``hear`` is told what others say, or this node to itself."""
        self._turn = turn
        self._writer = writer
        self._hear = hear
        #: A sole node has none.
        self._peers: Peers | None = None
        self._others: OtherNodes | None = None
        self._gathered: list[Word] = []
        self._held: deque[tuple[int, Word]] = deque()
        #: What came before this node had read what it keeps; None afterwards.
        self._early: list[Word] | None = []

    # Who else there is.

    def join(self, peers: Peers, others: OtherNodes) -> None:
        """There are other nodes; before anything is loaded."""
        self._peers, self._others = peers, others

    @property
    def clustered(self) -> bool:
        """Whether there may be other nodes."""
        return self._peers is not None

    def reachable(self) -> Sequence[int]:
        """The nodes that can be told something now."""
        return () if self._others is None else self._others.reachable()

    def hears(self, peer: int) -> bool:
        """Whether a node is there, and not only words that it said before it went."""
        return peer == self._writer or peer in self.reachable()

    def member(self, peer: int, filter: str, client_id: str) -> RemoteMember | None:
        """A member that is connected there."""
        found: RemoteMember | None = None if self._others is None else self._others.member(peer, filter, client_id)
        return found

    def kept_groups(self) -> Iterable[str]:
        """The shared filters that somebody durable on another node has."""
        return () if self._others is None else self._others.kept_groups()

    # What is said.

    def begin(self) -> None:
        """All sessions and groups that are kept here are in memory."""
        early, self._early = self._early or [], None
        for word in early:
            self._hear(*word)

    def tell(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int = 0
    ) -> None:
        """Say it at the end of the turn, or after its commit."""
        if self._peers is None or peer == self._writer:
            self._turn.call_soon(partial(self.told, peer, kind, name, client_id, list(references), question))
            return
        word = Word(peer, kind, name, client_id, list(references), question)
        last = self._gathered[-1] if self._gathered else None
        if last is not None and last._replace(references=word.references) == word and len(last.references) < MOST:
            last.references.extend(references)
        else:
            self._gathered.append(word)
        self._turn.plan()

    def told(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        """A peer has said this, or this node to itself."""
        if self._early is None:
            self._hear(peer, kind, name, client_id, references, question)
        else:
            self._early.append(Word(peer, kind, name, client_id, list(references), question))

    def end_turn(self, latest: int) -> None:
        """What was gathered waits for this commit, and follows what was forwarded with it."""
        gathered, self._gathered = self._gathered, []
        self._held.extend((latest, word) for word in gathered)

    def committed(self, committed: int) -> None:
        """What waited for this commit leaves."""
        while self._held and self._held[0][0] <= committed:
            _, word = self._held.popleft()
            if self._peers is not None:
                self._peers.tell_group(*word)
