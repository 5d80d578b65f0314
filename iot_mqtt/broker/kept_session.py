"""The kind of session that outlives its connection, and, where it is durable, its node."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, TypeAlias, TypeGuard

from iot_mqtt.broker.claims import ClaimCursor, Unfollowed
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.ports.clock import Timer
from iot_mqtt.ports.store import StoredCount, StoredSession
from iot_mqtt.values import NEVER, Subscription

#: A number that grows, and what begins.
Beginning: TypeAlias = tuple[int, Subscription]


class KeptSession(Session):
    """A session that began with an expiry interval. It may be resumed with another one: a kept session stays of this
    kind for as long as it lives, even if it is to end with the connection that it has.

    A ``durable`` one is in the store, and reads what it is owed from the logs. One of a listener whose sessions are not
    kept in the store has everything in memory.
    """

    __slots__ = (
        "durable",
        "application",
        "expiry_interval",
        "disconnected_at",
        "last_disconnect",
        "epoch",
        "expiry_timer",
        "will_timer",
        "sequence",
        "cursor",
        "elsewhere",
        "unfollowed",
        "beginning",
        "turns",
        "last_id_kept",
        "kept_with",
        "last_id_sure",
        "in_doubt",
        "counted",
    )

    def __init__(self, client_id: str, version: int, created_at: float, settings: MqttSettings) -> None:
        super().__init__(client_id, version, created_at, settings)
        self.durable = False
        self.application = False
        self.expiry_interval = 0
        self.disconnected_at: float | None = None
        self.last_disconnect: str | None = None
        #: How many connections it has had.
        self.epoch = 0
        self.expiry_timer: Timer | None = None
        self.will_timer: Timer | None = None
        #: Of what is kept for it; the number that was given out last.
        self.sequence = 0
        #: How far it has read this node's log.
        self.cursor: ClaimCursor | None = None
        #: How far it has read those of other nodes, by writer.
        self.elsewhere: dict[int, ClaimCursor] | None = None
        #: What it is owed of logs that nobody here reads yet, by writer.
        self.unfollowed: dict[int, Unfollowed] | None = None
        #: Plain filters that are new and whose place in other nodes' logs is not fixed yet, in the order of beginning.
        self.beginning: OrderedDict[str, Beginning] | None = None
        #: Whose turn it is to read, when several are behind.
        self.turns = 0
        #: The packet id that was given out last when it was written last, if later ones may be used unwritten.
        self.last_id_kept: int | None = None
        #: The batch that has it.
        self.kept_with = 0
        #: The one before, which is committed, while nothing but time has passed between the two.
        self.last_id_sure: int | None = None
        #: Its client was connected when a node died: what is written of it is not all that was sent.
        self.in_doubt = False
        #: What who had it before had counted of logs that nobody here reads yet, by writer; None: that was not said.
        self.counted: dict[int, StoredCount] | None = {}

    def cursors(self) -> Iterator[LogCursor]:
        yield from self.plain_cursors()
        yield from super().cursors()

    def plain_cursors(self) -> Iterator[ClaimCursor]:
        if self.cursor is not None:
            yield self.cursor
        if self.elsewhere:
            yield from self.elsewhere.values()

    def cursor_for(self, writer: int) -> ClaimCursor | None:
        """The reader of one node's log for the plain subscriptions."""
        if self.cursor is not None and self.cursor.log.writer == writer:
            return self.cursor
        return self.elsewhere.get(writer) if self.elsewhere else None

    def let_go(self, cursor: ClaimCursor) -> None:
        """A reader for the plain subscriptions is needed no more."""
        if cursor is self.cursor:
            self.cursor = None
        elif self.elsewhere is not None:
            self.elsewhere.pop(cursor.log.writer, None)

    def close_readers(self) -> None:
        super().close_readers()
        self.cursor = self.elsewhere = self.unfollowed = self.beginning = None

    def since(self, filter: str) -> dict[int, int]:
        """Where in each log the claim of a plain filter begins, by writer; what is not named begins with its log."""
        found = {cursor.log.writer: cursor.since[filter] for cursor in self.plain_cursors() if filter in cursor.since}
        for writer, unfollowed in (self.unfollowed or {}).items():
            if filter in unfollowed.since:
                found[writer] = unfollowed.since[filter]
        return found

    @property
    def never_expires(self) -> bool:
        """True for the interval that stands for "for ever"."""
        return self.expiry_interval >= NEVER

    def stored(self) -> StoredSession:
        """Its record in the store."""
        return StoredSession(
            client_id=self.client_id,
            version=self.version,
            expiry_interval=self.expiry_interval,
            created_at=self.created_at,
            disconnected_at=self.disconnected_at,
            username=self.user,
            epoch=self.epoch,
            owner=self.owner,
        )


#: Both kinds. What stands beside sessions in the routing table is of neither.
SESSIONS: Final = frozenset((Session, KeptSession))


def is_durable(session: Session) -> TypeGuard[KeptSession]:
    """Whether it is in the store; no other kind ever is."""
    return session.durable
