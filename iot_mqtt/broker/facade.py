"""What the admin side may ask of the broker; the only door from ``admin`` into it.

Answers are plain values, safe to turn into JSON. Listings are paged by key so that a node with a hundred
thousand sessions answers in bounded time and memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from iot_mqtt.broker.log_part import LogPart
from iot_mqtt.errors import MqttError, Refused
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.status import BrokerInfo, UplinkInfo
from iot_mqtt.values import Message, Subscription

#: Clients a second that are sent to other nodes, unless something else is asked for.
DEFAULT_RATE = 100
MAX_RATE = 100_000


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """One connected client."""

    client_id: str
    username: str | None
    peer: str
    listener: str
    protocol: str  # of MQTT: "3.1", "3.1.1", "5.0"; of a gateway the name of its codec
    clean_start: bool
    keep_alive: int
    connected_at: float
    bytes_received: int
    bytes_sent: int
    outbox_bytes: int
    writable: bool
    subscriptions: int
    inflight: int
    queued: int
    #: Why it is not read from: "disk_full", "uncommitted", "rate"; None: it is.
    paused: str | None


#: Why nothing more is being sent to a session.
STATES = ("offline", "committing", "outbox_full", "inflight_full", "reading", "caught_up")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session, connected or not."""

    client_id: str
    #: The user who began it, "" for an anonymous client; None: nobody knows, it was kept before there were owners.
    owner: str | None
    connected: bool
    durable: bool
    expiry_interval: int
    created_at: float
    disconnected_at: float | None
    #: Why the last connection ended, by reason name.
    last_disconnect: str | None
    subscriptions: int
    inflight: int
    awaiting_release: int
    received: int
    queued: int
    queued_bytes: int
    #: Messages that wait in the log; None while they are being counted.
    backlog: int | None
    #: How far it has read the log; None if it does not read it.
    position: int | None
    #: Batches written since then, if anything waits.
    lag: int
    delivered: int
    dropped: dict[str, int]
    denied: dict[str, int]
    has_will: bool
    #: One of ``STATES``.
    state: str
    #: False: more than ``backlog`` may wait in the logs of other nodes.
    backlog_complete: bool = True


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """What became of a client that is not there: a CONNECT that was refused, or a session that has ended."""

    client_id: str
    #: "refused" or "ended".
    kind: str
    at: float
    #: A name, for programs.
    reason: str
    #: The same for people.
    text: str
    username: str | None
    #: Empty where nobody was connected when the session ended.
    peer: str
    #: Empty where that is not known any more: of connections in the life of the node before this one.
    listener: str


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """What a session, or a group it is in, is owed from the log for one filter."""

    filter: str
    #: "subscription", "ended" (still owed something), "shared" or "replay".
    kind: str
    #: The claim begins there; None: it began elsewhere.
    since: int | None
    #: It ends there; None: it goes on.
    until: int | None
    #: How far it was read.
    position: int
    live: bool
    #: Messages found for it, at least; of a group: that wait for it, None while they are being counted.
    messages: int | None


@dataclass(frozen=True, slots=True)
class BacklogInfo:
    """What waits for one session."""

    client_id: str
    #: None while messages are being counted.
    messages: int | None
    bytes: int
    #: False: there are more bytes, the log was not read to its end.
    complete: bool
    claims: list[ClaimInfo]


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """One filter of one session."""

    client_id: str
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class RouteInfo:
    """A filter that somebody has subscribed to."""

    filter: str
    sessions: int
    #: Of these.
    connected: int


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A shared group, as far as its members are at home at one node."""

    #: With ``$share/<group>/``.
    filter: str
    group: str
    #: The filter that topics are held against.
    topics: str
    members: int
    connected: int
    #: The first of the members.
    client_ids: list[str]
    #: Messages in the node's log that nobody has got yet.
    waiting: int


@dataclass(frozen=True, slots=True)
class GroupShare:
    """What one member of a shared group has beside it, as it looks from its node."""

    #: With ``$share/<group>/``.
    filter: str
    #: Which member gets a message: ``mqtt.shared_policy``.
    policy: str
    #: Other members that are connected, here and at other nodes, by name.
    here: tuple[str, ...]
    elsewhere: tuple[str, ...]
    #: The other member that gets everything now; None: nobody does.
    holder: str | None
    #: The policy keeps messages together: they wait for their member although another one has room.
    keeps_order: bool


class NotPermitted(Refused):
    """The client that something is done for may not have it."""


class SubscriptionPart(Protocol):
    """Who gets what, and subscriptions that are made and given up for clients."""

    def routes(self, topic: str | None = None, after: str | None = None, limit: int = 100) -> list[RouteInfo]:
        """By filter; ``topic``: only filters that match it."""
        ...

    def shares(self, client_id: str) -> list[GroupShare]:
        """The shared groups of a session, with who else is in them."""
        ...

    def groups(self, after: str | None = None, limit: int = 100) -> list[GroupInfo]:
        """By filter."""
        ...

    async def subscribe(self, client_id: str, wanted: Subscription) -> Subscription | None:
        """As the session's client would; returns what it has then, when it is committed and in force at all nodes.
        None: there is no such session. Raises ``NotPermitted`` for what it may not have.
        """
        ...

    async def unsubscribe(self, client_id: str, filter: str) -> bool | None:
        """False: there is no such subscription. None: there is no such session."""
        ...


@dataclass(frozen=True, slots=True)
class ClientsWanted:
    """Which clients are listed; None: whatever it is."""

    #: What the client id begins with.
    prefix: str | None = None
    user: str | None = None
    #: An address, or a network such as 10.0.7.0/28.
    address: str | None = None
    listener: str | None = None
    #: A part of the client id, whatever the case of its letters.
    contains: str | None = None


@dataclass(frozen=True, slots=True)
class SessionsWanted:
    """Which sessions are listed; None: whatever it is."""

    prefix: str | None = None
    #: The owner.
    user: str | None = None
    connected: bool | None = None
    #: As ``SessionInfo.state``.
    state: str | None = None
    #: Has subscribed to exactly that; to a shared group with ``$share/<group>/``.
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class DroppedInfo:
    """What did not arrive: of one client, for one reason, with one topic."""

    #: "dropped": messages that a receiver did not get; "refused": publishes and requests that were not taken, or not as
    #: asked; "denied": the right was missing; "connect": a client that was not let in.
    kind: str
    #: The reason.
    code: str
    #: Who did not get it, or was refused; empty where that was not said.
    client_id: str
    #: Of the last dropped message; empty where that is not known.
    publisher: str
    #: A topic or a filter; empty where there is none.
    topic: str
    #: How often, since the first one that is remembered.
    count: int
    first: float
    last: float
    detail: str
    #: Of clients that were not let in.
    user: str | None
    peer: str


@dataclass(frozen=True, slots=True)
class DroppedWanted:
    """Which of those; None: whatever it is. Texts are parts, whatever the case of their letters."""

    kind: str | None = None
    reason: str | None = None
    topic: str | None = None
    client: str | None = None
    publisher: str | None = None


@dataclass(frozen=True, slots=True)
class DrainInfo:
    """Clients on their way to other nodes."""

    #: "serving", "draining", "drained" or "rebalancing".
    state: str
    #: Newcomers are refused.
    refusing: bool
    #: Clients are told that this node will not come back.
    moved: bool
    #: Clients a second.
    rate: int
    #: None: nobody is or was being sent away.
    began_at: float | None
    #: Clients that are still connected.
    clients: int
    #: Clients that were sent away.
    sent_away: int
    #: Of ``clients``, those that leave as soon as what they sent is committed.
    leaving: int
    #: Of ``clients``, those that are still to be sent away.
    remaining: int
    #: Newcomers that were refused.
    refused: int
    #: Seconds, at this rate; None: there is nothing to do.
    estimate: float | None


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """One node, as it looks from the one that was asked; of what a link counts, that one has nothing."""

    number: int
    node_id: str
    #: The number of its present life.
    boot: int
    version: str
    #: "self", "up", "deaf" (it does not hear us), "silent" (we do not hear it), "left", or "dead" (and its sessions
    #: are being adopted).
    state: str
    draining: bool
    clients: int
    #: 0 (idle) to 1; None: it is the node that was asked.
    load: float | None = None
    #: Filters that it wants.
    routes: int = 0
    #: Whether both have the same of what it wants.
    routes_agree: bool = True
    #: Changes of what we want that it does not act on yet.
    routes_behind: int = 0
    #: How far the link lags: bytes that were sent to it and that it has not confirmed.
    unconfirmed: int = 0
    #: So much that QoS 0 for it is dropped.
    crowded: bool = False
    datagrams_sent: int = 0
    items_sent: int = 0
    bytes_sent: int = 0
    datagrams_received: int = 0
    items_received: int = 0
    bytes_received: int = 0
    repairs_asked: int = 0
    repairs_served: int = 0
    #: Times that something was lost for good, and had to be read from the log.
    gaps: int = 0
    items_missed: int = 0


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster as it looks from one node; a sole node is all there is."""

    clustered: bool
    node_id: str
    number: int = 0
    boot: int = 0
    #: "connected", "suspended", "lost"; "none" for a sole node.
    registry: str = "none"
    registry_trouble: str | None = None
    #: Why this node is not part of the cluster any more, until it begins a new life; None: it is.
    over: str | None = None
    #: Why commits fail; None: they do not.
    grid_trouble: str | None = None
    #: Bytes that are used in the fullest server of the grid, or by this node's own, and those that may be.
    room_used: int = 0
    room_limit: int = 0
    #: "none", "alarm" (from 80 % on), "full" (what would be stored is refused or waits).
    room_level: str = "none"
    #: Parts of the grid that have fewer copies than they should: until it is 0, no server of it may be taken away.
    #: None: not known now, or the grid is this node's own.
    copies_missing: int | None = None
    #: Servers of the grid. None: not known now, or the grid is this node's own.
    grid_servers: int | None = None
    members: list[MemberInfo] = field(default_factory=list)
    #: Filters that this node wants of the others.
    routes: int = 0
    routes_version: int = 0
    #: Everybody on the list acts on what the others want.
    routes_agree: bool = True
    #: Subscriptions that were confirmed although some peer had not said that it acts on them.
    known_late: int = 0
    #: Clients that this node has become the home of, by where their session was before.
    claims_granted: dict[str, int] = field(default_factory=dict)
    claims_refused: dict[str, int] = field(default_factory=dict)
    #: Clients that other nodes asked for.
    released: int = 0
    releases_refused: int = 0
    fences: int = 0
    #: Numbers of dead nodes that somebody still has to clean up after.
    dead: list[int] = field(default_factory=list)
    adoptions: int = 0
    adopted_clients: int = 0
    adoption_failures: int = 0
    unreadable_channels: int = 0
    incompatible: list[str] = field(default_factory=list)
    strangers: int = 0
    messages_forwarded: int = 0
    messages_from_peers: int = 0
    forwards_dropped: dict[str, int] = field(default_factory=dict)
    #: What does not work as it should, and why, in words; empty: all is well.
    degraded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShareInfo:
    """One node's part of a rebalancing."""

    number: int
    node_id: str
    clients: int
    #: How many it should have.
    mean: int
    #: How many it sends away; 0: it has not so many more than the others that it would be worth it.
    surplus: int
    #: Why there is no answer, or why it does nothing.
    note: str | None


class ClusterPart(Protocol):
    """This node among the others, and its clients on their way to them."""

    def info(self) -> ClusterInfo: ...

    def progress(self) -> DrainInfo:
        """Cheap enough to be asked every second."""
        ...

    def drain(self, rate: int | None, *, moved: bool) -> DrainInfo:
        """Let no clients in and send all away; again: with another rate."""
        ...

    def resume(self) -> None:
        """Let clients in again."""
        ...

    async def rebalance(self, rate: int | None, *, dry_run: bool) -> list[ShareInfo]:
        """Have every node send away what it has more than the others; by number."""
        ...

    async def remove(self, node_id: str) -> bool:
        """A node will not come back, and its number is for the next new one; False: there is none of this name. Raises
        ``NotGone``.
        """
        ...


class BrokerView(Protocol):
    """The facade. ``after`` is the last key of the page before."""

    counters: Counters

    @property
    def serving(self) -> bool:
        """Every listener accepts, all that is stored is loaded, and newcomers are let in."""
        ...

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator should know, in words; cheap, for it is asked often."""
        ...

    @property
    def log(self) -> LogPart: ...

    @property
    def cluster(self) -> ClusterPart: ...

    def info(self) -> BrokerInfo: ...

    def uplink(self) -> UplinkInfo | None:
        """None: nothing leaves towards the data platform."""
        ...

    @property
    def subscribing(self) -> SubscriptionPart: ...

    def clients(
        self, after: str | None = None, limit: int = 100, wanted: ClientsWanted | None = None
    ) -> Sequence[ClientInfo]:
        """``ValueError`` for an address that is none."""
        ...

    def client(self, client_id: str) -> ClientInfo | None: ...

    def attempts(self, client_id: str) -> list[AttemptInfo]:
        """What is remembered of a client that was refused, or whose session has ended; the newest first."""
        ...

    def sessions(
        self, after: str | None = None, limit: int = 100, wanted: SessionsWanted | None = None
    ) -> Sequence[SessionInfo]: ...

    def session(self, client_id: str) -> SessionInfo | None: ...

    async def counted(self, sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
        """The same with what waits for them in the logs of other nodes, which are read as far as is reasonable."""
        ...

    def counting(self) -> Callable[[Sequence[SessionInfo]], Awaitable[Sequence[SessionInfo]]]:
        """``counted`` of a list that is asked for in parts: what is reasonable is for all of them together."""
        ...

    async def backlog(self, client_id: str) -> BacklogInfo | None:
        """What waits for a session; reads the log for it, as far as is reasonable."""
        ...

    def subscriptions(
        self,
        client_id: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
        topic: str | None = None,
    ) -> list[SubscriptionInfo]:
        """``topic``: only those that it matches."""
        ...

    def retained(self, filter: str = "#", after: bytes | None = None, limit: int = 100) -> list[Message]: ...

    async def publish(self, message: Message) -> int:
        """Publish as the node itself; returns how many sessions matched, once it is committed."""
        ...

    async def publish_all(self, messages: Sequence[Message]) -> list[int | MqttError]:
        """The same of many, in their order, which are committed together."""
        ...

    async def kick(self, client_id: str) -> bool:
        """Close the client's connection (v5: 0x98); False if it has none."""
        ...

    async def purge(self, client_id: str) -> bool:
        """End the session and everything kept for it; False if there is none."""
        ...

    async def remove_retained(self, topic: bytes) -> bool: ...

    async def remove_all_retained(self, filter: str, limit: int) -> int:
        """Those that a filter matches, the first ones if there are more; how many that were."""
        ...
