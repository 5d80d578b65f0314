"""Where the broker keeps what must survive it: typed records, staged during a turn and committed together.

Staging costs a list append. ``flush`` at the end of a turn hands everything staged to the grid as one
batch, unless one is under way: then it gathers further. ``latest`` numbers the newest batch that holds
anything and ``committed`` the last one that is safe; whoever staged something that must be safe before an
effect (a delivery, an acknowledgement) notes ``latest`` as a ticket and acts once ``committed`` has reached it.

A failed commit is "not ready": it is repeated until it succeeds, and nothing behind it moves meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import NamedTuple, Protocol

from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import Message, Subscription, Will


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session that outlives its connection."""

    client_id: str
    version: int
    expiry_interval: int
    created_at: float
    #: None while connected; a start after a crash finds it so.
    disconnected_at: float | None
    #: The user of ``owner``, for versions before ours, which show it; nobody reads it here.
    username: str | None
    #: Counts the connections of the session; the fence against late writes of an old owner.
    epoch: int
    #: Who began it, "" for anonymous clients; None: it was kept before there were owners.
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A message that waits for, or is under way to, one session. ``packet_id`` 0: not sent yet."""

    sequence: int
    message: Message
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    packet_id: int
    shared: bool


@dataclass(frozen=True, slots=True)
class StoredWill:
    """A will; ``due_at`` is set once the connection is gone and its delay runs, ``owner`` is that of its session."""

    will: Will
    due_at: float | None
    owner: str | None = None


class StoredPast(NamedTuple):
    """A subscription that is over and still has a claim on the log, from one position to another."""

    subscription: Subscription
    since: int
    until: int


class StoredReplay(NamedTuple):
    """How far a replay is, by the filter that its subscription is kept under."""

    filter: str
    position: int
    #: The time that it begins at, while the place of that in the log is still being looked for.
    sought: float | None = None
    #: Whose log it reads.
    writer: int = 0


class StoredPlace(NamedTuple):
    """How far a session has read one node's log."""

    writer: int
    position: int
    past: tuple[StoredPast, ...] = ()


class StoredCount(NamedTuple):
    """What was counted of one log when its session was handed over."""

    writer: int
    #: Messages that wait.
    messages: int
    #: Whether nobody had ever counted others.
    told: bool
    #: Nothing that comes later in the log was looked at.
    end: int


class StoredUnread(NamedTuple):
    """Retained messages that a subscription has not read: those behind a topic; None: all of them."""

    filter: str
    after: bytes | None = None


class StoredProgress(NamedTuple):
    """How far a session has read the logs. A log that has no place here is read from its beginning."""

    position: int
    past: tuple[StoredPast, ...] = ()
    replays: tuple[StoredReplay, ...] = ()
    #: Whose log ``position`` and ``past`` are of.
    writer: int = 0
    #: In the logs of other nodes.
    elsewhere: tuple[StoredPlace, ...] = ()
    #: The packet id that was given out last, where others may be used before this is written again.
    last_id: int | None = None
    #: None: it was not handed over, or by a version that does not say.
    counted: tuple[StoredCount, ...] | None = None
    unread: tuple[StoredUnread, ...] = ()

    def places(self) -> tuple[StoredPlace, ...]:
        """All of them."""
        return (StoredPlace(self.writer, self.position, self.past), *self.elsewhere)


class StoredFlight(NamedTuple):
    """Messages of the log that are under way to a session, with those packet ids that are not acknowledged."""

    reference: Reference
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    #: Name of the cursor they were taken by: ``""``, or the filter of a shared group or of a replay.
    origin: str
    #: (offset from the reference, packet ids of consecutive messages)
    pieces: tuple[tuple[int, tuple[int, ...]], ...]


class StoredGroup(NamedTuple):
    """How far a durable shared group has read the log, and what was returned to it."""

    position: int
    returned: tuple[Reference, ...] = ()


class CommitOrder(IntEnum):
    """Who takes part in commits, in the order in which they are asked, before and after.

    A grid need not write a batch as a whole: what is left of one that was cut off is its first part. So nothing may
    stand before what it refers to, and whoever is told of a commit may rely on those before him having been told.
    """

    #: The pages. Everything else refers to messages by their place in the log.
    LOG = auto()
    #: Which rules the messages on those pages go up by: before anybody moves on over them.
    RULES = auto()
    #: How far the uplink's sink has them. Too early a place sends some twice; one without its rules sends them wrongly.
    UPLINK = auto()
    #: Writes nothing: what has gathered for other nodes leaves with this commit. The end of the log is announced then,
    #: and what is before that end must not come later.
    FORWARDING = auto()
    #: Sessions: what they have under way, and then how far they are.
    PROGRESS = auto()
    #: Shared groups, behind the sessions: what one of those goes on with is not given to others.
    GROUPS = auto()
    #: Writes nothing: counts what waits for this commit, when all is in it.
    BUDGET = auto()
    #: Devices and commands, and what waits for their commit: sequences of readings, which are safe when the pages are.
    DEVICES = auto()
    #: What became of messages, when all is in it.
    LEDGER = auto()


class CommitParticipant(Protocol):
    """Somebody who gathers by himself and adds to a batch when that is about to leave."""

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Called before every batch; once only, however often the batch is repeated."""
        ...

    def committed(self, ticket: int) -> None:
        """The batch is safe. Called before whoever waits for it goes on."""
        ...


class Store(Protocol):
    """Staging, committing and reading back. The writing half never blocks and never fails."""

    committed: int
    #: Seconds from the end of the turn that began the batch committed last to its commit.
    waited: float
    #: Called after every commit, in the reactor's thread.
    on_committed: Callable[[], None]

    @property
    def failing(self) -> bool:
        """True while commits fail, or would; the reason is in ``trouble``."""
        ...

    @property
    def trouble(self) -> str | None: ...

    @property
    def outage(self) -> Callable[[], str | None]:
        """Says why the grid cannot be reached, once that has lasted for some seconds, whether or not anything is to be
        committed; None: it can.
        """
        ...

    @property
    def latest(self) -> int: ...

    @property
    def waiting(self) -> int:
        """Operations that are not committed yet."""
        ...

    def enlist(self, place: CommitOrder, participant: CommitParticipant) -> None:
        """Ask it from the next batch on, in its place, whoever was enlisted before."""
        ...

    def reserve(self, *, soon: bool = True) -> int:
        """The ticket of the batch that leaves next, which there will be: a participant has something for it. Not
        ``soon``: nobody waits for that, and it may gather for some milliseconds.
        """
        ...

    def hurry(self) -> None:
        """Somebody waits for what is staged."""
        ...

    def meanwhile(self, call: Callable[[], None]) -> None:
        """``call`` behind each batch that was handed over: what is done then keeps no acknowledgement waiting."""
        ...

    def flush(self) -> bool:
        """Hand over what gathered; whether anything waits for its commit now."""
        ...

    async def settled(self) -> None:
        """Return once everything staged so far is committed."""
        ...

    def save_session(self, session: StoredSession) -> None: ...

    def remove_session(self, client_id: str) -> None: ...

    def save_subscription(self, client_id: str, subscription: Subscription, since: Mapping[int, int]) -> None:
        """``since``: where in each log its claim begins, by writer; in others it begins with the log."""
        ...

    def remove_subscription(self, client_id: str, filter: str) -> None: ...

    def save_delivery(
        self,
        client_id: str,
        sequence: int,
        message: Message,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        packet_id: int,
        shared: bool,
    ) -> None: ...

    def remove_delivery(self, client_id: str, sequence: int) -> None: ...

    def save_dup(self, client_id: str, packet_id: int, sequence: int) -> None:
        """A queued delivery got its packet id."""
        ...

    def remove_dup(self, client_id: str, packet_id: int) -> None: ...

    # The way through the log.

    def save_progress(self, client_id: str, progress: StoredProgress) -> None: ...

    def remove_progress(self, client_id: str) -> None: ...

    def save_segment(self, client_id: str, number: int, flights: Sequence[StoredFlight]) -> None: ...

    def remove_segment(self, client_id: str, number: int) -> None: ...

    def save_group(self, filter: str, group: StoredGroup) -> None: ...

    def remove_group(self, filter: str) -> None: ...

    async def place_group(self, filter: str, group: StoredGroup) -> None:
        """Save it at once, of a group in another node's log; unless there is one."""
        ...

    def save_group_segment(self, filter: str, number: int, references: Sequence[Reference]) -> None: ...

    def remove_group_segment(self, filter: str, number: int) -> None: ...

    def save_pubrel(self, client_id: str, packet_id: int, order: int) -> None: ...

    def remove_pubrel(self, client_id: str, packet_id: int) -> None: ...

    def save_received(self, client_id: str, ids: Iterable[int]) -> None: ...

    def remove_received(self, client_id: str, packet_id: int) -> None: ...

    def save_will(self, client_id: str, will: StoredWill) -> None: ...

    def remove_will(self, client_id: str) -> None:
        """Nobody waits for it."""
        ...

    def save_retained(self, message: Message, version: int = 0) -> None:
        """``version``: of two writers' messages the greater one stands; 0: there is only one writer."""
        ...

    def save_all_retained(self, messages: Mapping[bytes, Message]) -> None:
        """The same for the messages of several topics, without versions."""
        ...

    def remove_retained(self, topic: bytes) -> None: ...

    # Of a node in a cluster.

    def save_route(self, node: int, filter: str) -> None:
        """Durable sessions at home on this node want what matches."""
        ...

    def remove_route(self, node: int, filter: str) -> None: ...

    # Reading back: everybody's records at start, or one client's.

    def sessions(self, client_id: str | None = None) -> AsyncIterator[StoredSession]: ...

    def subscriptions(self, client_id: str | None = None) -> AsyncIterator[tuple[str, Subscription, Mapping[int, int]]]:
        """(client id, subscription, since)"""
        ...

    def progress(self, client_id: str | None = None) -> AsyncIterator[tuple[str, StoredProgress]]: ...

    def segments(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int, list[StoredFlight]]]:
        """(client id, number, flights), in the order of each session's numbers."""
        ...

    def groups(self) -> AsyncIterator[tuple[str, StoredGroup]]: ...

    def group_segments(self) -> AsyncIterator[tuple[str, int, list[Reference]]]:
        """(filter, number, references)"""
        ...

    def deliveries(self, client_id: str | None = None) -> AsyncIterator[tuple[str, StoredDelivery]]:
        """In the order of each session's sequence."""
        ...

    def dups(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int, int]]:
        """(client id, packet id, sequence)"""
        ...

    def pubrels(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int, int]]:
        """(client id, packet id, order)"""
        ...

    def received(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int]]: ...

    def wills(self, client_id: str | None = None) -> AsyncIterator[tuple[str, StoredWill]]: ...

    def retained(self) -> AsyncIterator[tuple[Message, int]]:
        """(message, version)"""
        ...

    def routes(self) -> AsyncIterator[tuple[int, str]]:
        """(node, filter)"""
        ...
