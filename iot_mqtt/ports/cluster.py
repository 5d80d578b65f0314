"""One broker of many nodes: what a node's broker asks of the cluster, and what the cluster asks of it.

    Peers (implemented by ``cluster``)      forward, changed, retain, claim …      called by the broker
    Node  (implemented by ``broker``)       received, peer_interest, release …     called by the cluster

Every session has a *home*: the node that holds it in memory and writes its records. A client that connects to
another node is claimed for that one first; its old home lets go of it, or is fenced if it is dead.

Everything is called in the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from iot_mqtt.codec import PublishRun
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import NOBODY, Message, Origin


class Interest(NamedTuple):
    """What one node wants of one filter; nothing at all takes an earlier entry away."""

    #: As subscribed: shared ones begin with ``$share/``.
    filter: str
    #: A connected receiver wants it: forward.
    live: bool = False
    #: A durable session wants it, connected or not: record.
    kept: bool = False
    #: Of a shared group: the connected members.
    members: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        return not (self.live or self.kept or self.members)


class Forwarded(NamedTuple):
    """A run of messages that goes to another node; or several runs of one client, for plain subscribers, of which none
    is in the log.
    """

    run: PublishRun
    #: With aliases resolved.
    topic: bytes
    publisher: str
    #: Wall clock when it came, as the sender's log has it, if it is there; message expiry counts from it. 0: it is in
    #: no log, and nothing counts from it.
    arrived: float
    #: Where it is in the sender's log; None: nobody durable wanted it there.
    reference: Reference | None = None
    #: For the plain subscribers of the receiving node.
    plain: bool = True
    #: (shared group as subscribed, client id of the member that was picked); of a durable one, which is given out with
    #: the reference, the name of its part
    members: tuple[tuple[str, str], ...] = ()
    origin: Origin = NOBODY
    #: Runs behind the first, each with its topic; only for a peer that takes them.
    more: tuple[PublishRun, ...] = ()
    #: Of the span that it is forwarded by, as W3C's ``traceparent``, and behind a space its ``tracestate``;
    #: empty: it is not traced.
    context: str = ""
    #: The member may have been sent it before.
    again: bool = False


class Claim(Enum):
    """How a claim for a client id ended."""

    #: Nobody had it and nothing is kept for it.
    NEW = auto()
    #: This node is its home now; what is kept for it can be loaded.
    TAKEN = auto()
    #: The same, and its home before is dead: nobody knows what that one has not done any more.
    INHERITED = auto()
    #: Never as this owner: its session is somebody else's, and its home has left it as it is.
    FOREIGN = auto()
    #: Not now: its home does not answer, or this node may not own anything new.
    REFUSED = auto()


class Peers(Protocol):
    """The other nodes."""

    #: Of this node; it is also the writer number of its log.
    number: int

    async def numbers(self) -> Mapping[int, int | None]:
        """Every other node that was ever there, as the grid knows it now; with the boot that its log has ended with, or
        None while it may grow. Raises ``Unavailable``.
        """
        ...

    def forward(self, peer: int, item: Forwarded) -> None:
        """Gather for a peer; it leaves with the next ``flush``."""
        ...

    def takes_more(self, peer: int) -> bool:
        """Whether a peer understands an item of several runs."""
        ...

    def flush(self) -> None:
        """The end of the broker's turn."""
        ...

    def crowded(self, peer: int) -> bool:
        """So much waits for this peer that publishers should pause."""
        ...

    def changed(self, interest: Sequence[Interest]) -> int:
        """This node's interest changed; returns the version that the change made."""
        ...

    def when_known(self, version: int, call: Callable[[], None]) -> None:
        """``call`` once every live peer acts on this version, or after a bounded time; at once if that is so."""
        ...

    def known_by(self, peer: int, version: int) -> bool:
        """Whether a peer acts on this version; a peer that is down has nothing to act on."""
        ...

    def tell_group(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        """Tell a peer of a durable shared group what has become of messages, or ask; ``question``: the number of that,
        or of what this answers. 0: neither.
        """
        ...

    def retain(self, topic: bytes, message: Message | None, version: int) -> None:
        """Tell everybody of a retained message, or that there is none any more."""
        ...

    def claim(
        self,
        client_id: str,
        done: Callable[[Claim, str], None],
        wanted: Callable[[], bool] | None = None,
        owner: str | None = None,
    ) -> None:
        """Make this node the home of a client. ``done`` may be called before this returns; the text says why not.

        ``wanted`` is asked before the present home is: a client that has given up here may be there already. ``owner``:
        who the client is; a home whose session is another's keeps it. None: what is claimed is no client.
        """
        ...

    def stray(self, client_id: str) -> None:
        """What is kept of a client whose home is this node could not be read. If nobody else has asked for it a while
        later, ``Node.adopt`` is, until it succeeds.
        """
        ...

    async def let_go(self, client_id: str, unused: Callable[[], bool]) -> None:
        """This node is a client's home no more, and nobody is: nothing is kept of the client, and that is committed.

        Only a record that is still this life's is removed, and only if it is ``unused`` right before. Raises
        ``Unavailable``.
        """
        ...


class Node(Protocol):
    """The broker of this node."""

    def interest(self) -> Sequence[Interest]:
        """All of it, for a peer that begins."""
        ...

    def committed_end(self) -> int:
        """How far this node's log is safe."""
        ...

    def peer_interest(
        self, peer: int, interest: Sequence[Interest], done: Callable[[], None], *, full: bool = False
    ) -> None:
        """What a peer wants; ``full``: and nothing else. ``done`` (which acknowledges it) is called when all that was
        recorded before is committed: what was not forwarded for this interest is then behind the announced end.
        """
        ...

    def doubt(self, some: bool) -> None:
        """Whether there is a member of which it is not known what it wants now: it is ``unheard``, or this node stood
        still and has not heard it since. Until then whatever will be acknowledged is recorded.
        """
        ...

    def unheard(self, some: bool) -> None:
        """Whether there is a member that is not heard, or has not said everything since it is: it may have anything."""
        ...

    def unread(self, some: bool) -> None:
        """Whether there may be clients at home here whose sessions could not be read. What they want is not known here,
        and will soon be forgotten elsewhere: until then everything is wanted.
        """
        ...

    def peer_knows(self, peer: int, version: int) -> None:
        """A peer acts on this version of this node's interest."""
        ...

    def follow(self, numbers: Iterable[int]) -> None:
        """These nodes are there, or were at some time: what is in their logs may be owed to sessions that are at home
        here, or come. They are read as soon as they can be.
        """
        ...

    def peer_up(self, peer: int) -> None:
        """It can be reached; also the first that is heard of a new node."""
        ...

    def peer_down(self, peer: int) -> None:
        """It cannot; what it keeps durable sessions for is still recorded."""
        ...

    def peer_left(self, peer: int) -> None:
        """It is off the list, so its log has an end, which the grid says once it is fenced (``node_gone``)."""
        ...

    def peer_started(self, peer: int) -> None:
        """A life of it begins, or it is on the list again: what it forwarded before may be lost, and how far its log is
        nobody says.
        """
        ...

    def received(self, peer: int, items: Sequence[Forwarded], end: int) -> None:
        """In the order of sending; ``end``: how far the peer's log is safe, everything up to there that this node
        wanted having been forwarded before.
        """
        ...

    def stream_broken(self, peer: int) -> None:
        """Something that the peer forwarded is lost; what was recorded is in its log."""
        ...

    def retained(self, peer: int, topic: bytes, message: Message | None, version: int) -> None: ...

    def group_told(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        """What a peer's ``tell_group`` says, in order with what it forwards."""
        ...

    def yields(self, client_id: str, owner: str) -> bool:
        """Whether a client of this owner may have what is at home here; asked before ``release``."""
        ...

    def release(self, client_id: str, done: Callable[[bool], None]) -> None:
        """Another node claims a client whose home is here: close its connection, commit everything of its session
        and forget it. ``done(True)`` once nothing more will be written for it; False: not possible now.
        """
        ...

    def adopt(self, clients: Collection[str], done: Callable[[bool], None]) -> None:
        """These clients of a dead, fenced node have this node for a home now (their channel records say so): load
        their sessions, fire what wills are due, expire what is over.
        """
        ...

    def recall(self, number: int, done: Callable[[Sequence[Interest] | None], None]) -> None:
        """What a node that writes nothing more has noted in the grid that it keeps; None: the grid does not say now."""
        ...

    def node_gone(self, number: int) -> None:
        """A node is dead and fenced: its log has reached its end, its connections are no more."""
        ...
