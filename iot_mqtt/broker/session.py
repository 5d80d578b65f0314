"""A session while the broker runs: the pure parts of ``session`` joined with what is particular to it."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from mypy_extensions import mypyc_attr

from iot_mqtt.broker.allowance import Allowance
from iot_mqtt.broker.claims import ClaimCursor
from iot_mqtt.broker.log_cursor import LogCursor, Replay
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Connect, PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import Context, Stage
from iot_mqtt.ports.access import Permissions, Principal, user_of
from iot_mqtt.ports.clock import Timer
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.session import Delivery, DeliveryQueue, Inbound, Outbound, OutboundAliases, Piece, Row
from iot_mqtt.values import Message, Subscription, Will

#: What of a session's messages has its packet id and is to be sent, in order.
Line: TypeAlias = deque[Delivery | Piece | Row]
_NO_SUBSCRIPTIONS: Final[Mapping[str, Subscription]] = MappingProxyType({})


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientConnection(Stage):
    """Where a session's client is connected, as sessions and what sends to them know it.

    It is a class, and not a ``Protocol``: what is compiled looks at its attributes where they stand, once for every
    message, and does not ask for them by name.
    """

    __slots__ = (
        "session",
        "ctx",
        "connect",
        "connecting",
        "closed",
        "principal",
        "permissions",
        "allowance",
        "rights_version",
        "connected_at",
        "five",
        "plain",
        "writable",
        "outbound_aliases",
        "max_packet_size",
    )

    def __init__(self, allowance: Allowance) -> None:
        """``allowance``: the usual one."""
        self.session: Session | None = None
        self.ctx: Context | None = None
        self.connect: Connect | None = None
        #: True while CONNECT is being answered; what comes meanwhile is stashed.
        self.connecting = False
        self.closed = False
        self.principal: Principal | None = None
        self.permissions: Permissions | None = None
        #: What the client may use up; the usual before it is known who it is.
        self.allowance = allowance
        #: Of the rights that its subscriptions were held against.
        self.rights_version = -1
        self.connected_at = 0.0
        #: Speaks version 5.
        self.five = False
        #: 3 or 5 when runs of that family may pass as they are, 0 when each must be looked at.
        self.plain = 0
        self.writable = False
        #: None: it takes none.
        self.outbound_aliases: OutboundAliases | None = None
        self.max_packet_size = 0

    @property
    def patient(self) -> bool:
        """A gateway."""
        raise NotImplementedError

    @property
    def durable_sessions(self) -> bool:
        """Whether a session that begins here is kept in the store, if it outlives its connection."""
        raise NotImplementedError

    def aliases(self, count: int) -> bool:
        """Whether so many messages are sent with an alias for their topic."""
        raise NotImplementedError

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message that is the next to be sent may be."""
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        """Add bytes to this turn's write."""
        raise NotImplementedError

    def send_qos0(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None:
        """A run in a form of its own."""
        raise NotImplementedError

    def send_now(self, publication: Publication, qos: int, retain: bool, identifiers: tuple[int, ...]) -> int:
        """As much as can be sent without keeping it; how many messages that is."""
        raise NotImplementedError

    def send_delivery(self, delivery: Delivery) -> bool:
        """False when it is larger than the client takes."""
        raise NotImplementedError

    def send_piece(self, piece: Piece, *, dup: bool) -> list[int]:
        """Returns the packet ids of messages that are larger than the client takes."""
        raise NotImplementedError

    def send_pubrel(self, ids: list[int]) -> None:
        """PUBREL for exchanges whose PUBREC is safely noted."""
        raise NotImplementedError

    def answer(
        self, type: PacketType, ids: list[int], ticket: int = 0, reason: ReasonCode = ReasonCode.SUCCESS
    ) -> None:
        """Acknowledge once ``ticket`` is committed."""
        raise NotImplementedError

    def write_out(self) -> None:
        """Write what gathered."""
        raise NotImplementedError

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Close from our side."""
        raise NotImplementedError


class RetainedPages(Protocol):
    """The retained messages that a new subscription is still to get."""

    @property
    def subscription(self) -> Subscription: ...

    @property
    def topic(self) -> bytes | None:
        """The only one that it wants; None: it may want more."""
        ...

    @property
    def after(self) -> bytes | None:
        """The last topic that was read; None: none was."""
        ...

    def came_since(self, session: Session, message: Message) -> bool:
        """Whether its session gets it as it was published, since this began."""
        ...

    def read_on(self, session: Session) -> bool:
        """Send the next page; False when nothing more can be done now."""
        ...


class Session:
    """One client's session. It is also the receiver that ``topics.Routes`` holds.

    This is the kind that ends with its connection: nothing is kept of it that only a later connection could need. The
    other kind is a ``KeptSession``. What differs is asked by the names below; of the constants, only that kind has
    attributes.
    """

    __slots__ = (
        "client_id",
        "version",
        "owner",
        "created_at",
        "connection",
        "_subscriptions",
        "inbound",
        "outbound",
        "sending",
        "unsent",
        "queue",
        "replays",
        "readers",
        "delivered",
        "dropped",
        "denied",
        "will",
        "ended",
    )

    #: Whether it is in the store.
    durable: bool = False
    #: Whether it is one of a class of its own (``Allowance.application``): it reads in turns.
    application: bool = False
    #: Seconds that it outlives its connection by.
    expiry_interval: int = 0
    disconnected_at: float | None = None
    #: How its last connection ended.
    last_disconnect: str | None = None
    #: Of the will whose delay is not over.
    will_timer: Timer | None = None

    def __init__(self, client_id: str, version: int, created_at: float, settings: MqttSettings) -> None:
        self.client_id = client_id
        self.version = version
        #: Who began it (``Principal.identity``); None: nobody knows, it was kept before there were owners.
        self.owner: str | None = None
        self.created_at = created_at
        self.connection: ClientConnection | None = None
        #: None: it has not subscribed to anything, as what only publishes.
        self._subscriptions: dict[str, Subscription] | None = None
        self.inbound = Inbound(settings.receive_maximum)
        self.outbound = Outbound(0)
        #: What has its packet id and wait for a commit or for the outbox, in order.
        self.sending: Line | None = None
        #: How many messages ``sending`` holds.
        self.unsent = 0
        self.queue = DeliveryQueue(settings.max_queued_messages, settings.max_queued_bytes)
        #: ``$replay/`` filter → how far that one has.
        self.replays: dict[str, Replay] | None = None
        #: Retained messages still to be read for new subscriptions.
        self.readers: OrderedDict[str, RetainedPages] | None = None
        self.delivered = 0
        self.dropped: Counter[str] | None = None
        self.denied: Counter[str] | None = None
        self.will: Will | None = None
        self.ended = False

    @property
    def user(self) -> str | None:
        """The verified user whose it is; None: an anonymous client's, or nobody knows."""
        return user_of(self.owner or "") or None

    @property
    def inflight_count(self) -> int:
        """For the ``least_inflight`` policy of shared subscriptions."""
        return len(self.outbound) + len(self.queue)

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """Filter → subscription, shared ones and replays among them."""
        return _NO_SUBSCRIPTIONS if self._subscriptions is None else self._subscriptions

    def subscribed(self, subscription: Subscription) -> None:
        """It has one more, or another one of that filter."""
        if self._subscriptions is None:
            self._subscriptions = {}
        self._subscriptions[subscription.filter] = subscription

    def unsubscribed(self, filter: str) -> Subscription | None:
        """It has that one no more; None: it had none."""
        return None if self._subscriptions is None else self._subscriptions.pop(filter, None)

    def cursors(self) -> Iterator[LogCursor]:
        """All its own readers: for the plain subscriptions, one for each log, and the replays."""
        yield from (self.replays or {}).values()

    def plain_cursors(self) -> Iterator[ClaimCursor]:
        """Those for the plain subscriptions, one for each log."""
        return iter(())

    def close_readers(self) -> None:
        """It is over: nobody reads for it any more."""
        for cursor in self.cursors():
            cursor.closed = True
        self.replays = None

    @property
    def backlog(self) -> int | None:
        """Messages that wait in the logs for it; None when they have not been counted since the start.

        Of other nodes' logs these are the ones that it was offered while it could not take them, and those that were
        found by ``readers.elsewhere_count``: what is there besides is not waited for.
        """
        count = 0
        for cursor in self.cursors():
            if cursor.backlog is None:
                return None
            count += cursor.backlog
        return count

    @property
    def waiting(self) -> int:
        """Messages that it has, in its queue or under way, and that its client has not confirmed."""
        return len(self.queue) + len(self.outbound) - self.outbound.released

    def count_drop(self, reason: str, count: int = 1) -> None:
        """Note messages that this session did not get."""
        if self.dropped is None:
            self.dropped = Counter()
        self.dropped[reason] += count

    def drop(self, counters: Counters, reason: Drop, count: int, topic: bytes = b"", publisher: str = "") -> None:
        """The same, among those of the node, too."""
        self.count_drop(reason, count)
        counters.dropped[reason] += count
        # Whoever is away misses QoS 0 all the time.
        weak = reason is Drop.OFFLINE_QOS0
        counters.recent.note(self.client_id, reason, topic, count, publisher=publisher, weak=weak)

    def deny(self, counters: Counters, action: str, asked: bytes | str, count: int = 1, detail: str = "") -> None:
        """Note requests that its rights did not cover; ``asked``: the topic or the filter."""
        if self.denied is None:
            self.denied = Counter()
        self.denied[action] += count
        counters.denied[action] += count
        counters.recent.note(self.client_id, f"denied_{action}", asked, count, detail)
