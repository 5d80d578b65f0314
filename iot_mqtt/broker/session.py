"""A session while the broker runs: the pure parts of ``session`` joined with what is particular to it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from iot_mqtt.broker.publication import Publication
from iot_mqtt.codec import Connect, PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import Context, Timeout
from iot_mqtt.ports.access import Permissions, Principal
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import StoredSession
from iot_mqtt.session import Delivery, DeliveryQueue, Inbound, Outbound, Piece
from iot_mqtt.values import NEVER, Subscription, Will

if TYPE_CHECKING:
    from iot_mqtt.broker.log_cursor import LogCursor
    from iot_mqtt.broker.publishing.retained_reading import RetainedReader
    from iot_mqtt.broker.readers.cursors import SessionCursor
    from iot_mqtt.broker.readers.elsewhere import ElsewhereCursor, Unfollowed
    from iot_mqtt.broker.readers.replay import ReplayCursor


class ClientConnection(Protocol):
    """Where a session's client is connected, as sessions and what sends to them know it."""

    writable: bool

    @property
    def patient(self) -> bool:
        """A gateway."""
        ...

    @property
    def principal(self) -> Principal | None: ...

    @property
    def permissions(self) -> Permissions | None: ...

    @property
    def connect(self) -> Connect | None: ...

    @property
    def ctx(self) -> Context | None: ...

    @property
    def five(self) -> bool:
        """Speaks version 5."""
        ...

    @property
    def plain(self) -> int:
        """3 or 5 when runs of that family may pass as they are, 0 when each must be looked at."""
        ...

    @property
    def max_packet_size(self) -> int: ...

    def aliases(self, count: int) -> bool:
        """Whether so many messages are sent with an alias for their topic."""
        ...

    def may_receive(self, topic: bytes) -> bool: ...

    def send(self, data: bytes) -> None:
        """Add bytes to this turn's write."""
        ...

    def send_qos0(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None: ...

    def send_now(self, publication: Publication, qos: int, retain: bool, identifiers: tuple[int, ...]) -> int:
        """As much as can be sent without keeping it; how many messages that is."""
        ...

    def send_delivery(self, delivery: Delivery) -> bool:
        """False when it is larger than the client takes."""
        ...

    def send_piece(self, piece: Piece, *, dup: bool) -> list[int]:
        """Returns the packet ids of messages that are larger than the client takes."""
        ...

    def send_pubrel(self, ids: list[int]) -> None: ...

    def answer(self, type: PacketType, ids: list[int], ticket: int = 0) -> None:
        """Acknowledge once ``ticket`` is committed."""
        ...

    def write_out(self) -> None:
        """Write what gathered."""
        ...

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Close from our side."""
        ...


class Session:
    """One client's session, connected or not. It is also the receiver that ``topics.Routes`` holds.

    A session with an expiry interval outlives its connection, and a ``durable`` one, which is kept in the store,
    the node as well. For a session without one nothing is kept that only a later connection could need.
    """

    __slots__ = (
        "client_id",
        "version",
        "username",
        "owner",
        "durable",
        "expiry_interval",
        "created_at",
        "disconnected_at",
        "last_disconnect",
        "epoch",
        "connection",
        "subscriptions",
        "inbound",
        "outbound",
        "sending",
        "unsent",
        "cursor",
        "elsewhere",
        "unfollowed",
        "beginning",
        "turns",
        "replays",
        "queue",
        "readers",
        "sequence",
        "last_id_kept",
        "in_doubt",
        "delivered",
        "dropped",
        "denied",
        "will",
        "will_timer",
        "expiry_timer",
        "ended",
        "__weakref__",
    )

    def __init__(
        self, client_id: str, *, version: int, created_at: float, limits: tuple[int, int], receive_maximum: int
    ) -> None:
        self.client_id = client_id
        self.version = version
        #: As the client called itself; nobody need have verified it.
        self.username: str | None = None
        #: Who began it (``Principal.owner``); None: nobody knows, it was kept before there were owners.
        self.owner: str | None = None
        self.durable = False
        self.expiry_interval = 0
        self.created_at = created_at
        self.disconnected_at: float | None = None
        self.last_disconnect: str | None = None
        self.epoch = 0
        self.connection: ClientConnection | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.inbound = Inbound(receive_maximum)
        self.outbound = Outbound(0)
        #: What has its packet id and wait for a commit or for the outbox, in order.
        self.sending: deque[Delivery | Piece] | None = None
        #: How many messages ``sending`` holds.
        self.unsent = 0
        #: How far a durable session has read the log.
        self.cursor: SessionCursor | None = None
        #: How far it has read those of other nodes, by writer.
        self.elsewhere: dict[int, ElsewhereCursor] | None = None
        #: What it is owed of logs that nobody here reads yet, by writer.
        self.unfollowed: dict[int, Unfollowed] | None = None
        #: Plain filters that are new and whose place in other nodes' logs is not fixed yet.
        self.beginning: dict[str, Subscription] | None = None
        #: Whose turn it is to read, when several are behind.
        self.turns = 0
        #: ``$replay/`` filter → how far that one has.
        self.replays: dict[str, ReplayCursor] | None = None
        self.queue = DeliveryQueue(*limits)
        #: Retained messages still to be read for new subscriptions.
        self.readers: deque[RetainedReader] | None = None
        self.sequence = 0
        #: The packet id that was given out last when it was written last, if later ones may be used unwritten.
        self.last_id_kept: int | None = None
        #: Its client was connected when a node died: what is written of it is not all that was sent.
        self.in_doubt = False
        self.delivered = 0
        self.dropped: Counter[str] | None = None
        self.denied: Counter[str] | None = None
        self.will: Will | None = None
        self.will_timer: Timeout | None = None
        self.expiry_timer: Timeout | None = None
        self.ended = False

    @property
    def inflight_count(self) -> int:
        """For the ``least_inflight`` policy of shared subscriptions."""
        return len(self.outbound) + len(self.queue)

    def cursors(self) -> Iterator[LogCursor]:
        """All its own readers: for the plain subscriptions, one for each log, and the replays."""
        yield from self.plain_cursors()
        if self.replays:
            yield from self.replays.values()

    def close_readers(self) -> None:
        """It is over: nobody reads for it any more."""
        for cursor in self.cursors():
            cursor.closed = True
        self.cursor = self.elsewhere = self.unfollowed = self.beginning = None
        self.replays = None

    def plain_cursors(self) -> Iterator[SessionCursor]:
        """Those for the plain subscriptions, one for each log."""
        if self.cursor is not None:
            yield self.cursor
        if self.elsewhere:
            yield from self.elsewhere.values()

    def cursor_for(self, writer: int) -> SessionCursor | None:
        """The reader of one node's log for the plain subscriptions."""
        if self.cursor is not None and self.cursor.log.writer == writer:
            return self.cursor
        return self.elsewhere.get(writer) if self.elsewhere else None

    def let_go(self, cursor: SessionCursor) -> None:
        """A reader for the plain subscriptions is needed no more."""
        if cursor is self.cursor:
            self.cursor = None
        elif self.elsewhere is not None:
            self.elsewhere.pop(cursor.log.writer, None)

    def since(self, filter: str) -> dict[int, int]:
        """Where in each log the claim of a plain filter begins, by writer; what is not named begins with its log."""
        found = {cursor.log.writer: cursor.since[filter] for cursor in self.plain_cursors() if filter in cursor.since}
        for writer, unfollowed in (self.unfollowed or {}).items():
            if filter in unfollowed.since:
                found[writer] = unfollowed.since[filter]
        return found

    @property
    def backlog(self) -> int | None:
        """Messages that wait in the logs for it; None when they have not been counted since the start.

        Of other nodes' logs these are the ones that it was offered while it could not take them: what is there
        besides is found when it is read, and not waited for.
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

    @property
    def never_expires(self) -> bool:
        """True for the interval that stands for "for ever"."""
        return self.expiry_interval >= NEVER

    def count_drop(self, reason: str, count: int = 1) -> None:
        """Note messages that this session did not get."""
        if self.dropped is None:
            self.dropped = Counter()
        self.dropped[reason] += count

    def drop(self, counters: Counters, reason: Drop, count: int) -> None:
        """The same, among those of the node, too."""
        self.count_drop(reason, count)
        counters.dropped[reason] += count

    def count_denied(self, action: str, count: int = 1) -> None:
        """Note requests that its rights did not cover."""
        if self.denied is None:
            self.denied = Counter()
        self.denied[action] += count

    def stored(self) -> StoredSession:
        """Its record in the store."""
        return StoredSession(
            client_id=self.client_id,
            version=self.version,
            expiry_interval=self.expiry_interval,
            created_at=self.created_at,
            disconnected_at=self.disconnected_at,
            username=self.username,
            epoch=self.epoch,
            owner=self.owner,
        )
