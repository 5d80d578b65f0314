"""The sessions of a node by client id, and how long they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.others import Alone, OtherNodes
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Connect
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.access import user_of
from iot_mqtt.session import QueuedInAll
from iot_mqtt.values import ProtocolVersion

S = TypeVar("S", bound=Session)
_V5: Final = ProtocolVersion.V5


class Sessions:
    """Every session of this node. What else begins and ends with one is not known here."""

    __slots__ = ("_settings", "_by_id", "by_owner", "kept", "loading", "opening", "others", "queued")

    def __init__(self, settings: MqttSettings) -> None:
        self._settings = settings
        self._by_id: dict[str, Session] = {}
        #: What waits for all of them in memory.
        self.queued = QueuedInAll(settings.max_queued_bytes_in_all)
        #: How many of them may outlive their connection.
        self.kept = 0
        #: How many each user has here.
        self.by_owner: dict[str, int] = {}
        #: The client whose session is being opened: one that ends meanwhile is followed by another at once.
        self.opening: str | None = None
        #: Of which it is not known yet how far they have read.
        self.loading: set[Session] = set()
        #: Who is told of changes; set when the node joins others.
        self.others: OtherNodes = Alone()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def get(self, client_id: str) -> Session | None:
        """The session of a client, if it has one."""
        return self._by_id.get(client_id)

    def get_kept(self, client_id: str) -> KeptSession | None:
        """The same, if it is of the kind that is kept."""
        session = self._by_id.get(client_id)
        return session if isinstance(session, KeptSession) else None

    def create(self, kind: type[S], client_id: str, *, version: int, created_at: float) -> S:
        """A new, empty session of one of the two kinds."""
        session = kind(client_id, version, created_at, self._settings)
        session.queue.in_all = self.queued
        self.kept += issubclass(kind, KeptSession) - isinstance(self._by_id.get(client_id), KeptSession)
        self._by_id[client_id] = session
        return session

    def own(self, session: Session, owner: str | None) -> None:
        """It is somebody's from now on; None: nobody knows whose."""
        if session.owner != owner:
            self._disown(session)
            session.owner = owner
            if owner is not None:
                user = user_of(owner)
                self.by_owner[user] = self.by_owner.get(user, 0) + 1

    def _disown(self, session: Session) -> None:
        owner = session.owner
        if owner is not None:
            user = user_of(owner)
            left = self.by_owner[user] - 1
            if left:
                self.by_owner[user] = left
            else:
                del self.by_owner[user]

    def remove(self, session: Session) -> None:
        """It is not here any more; its client may have another one by now."""
        session.queue.leave()
        if self._by_id.get(session.client_id) is session:
            self.kept -= isinstance(session, KeptSession)
            del self._by_id[session.client_id]
            self._disown(session)

    def require_room(self, connect: Connect, client_id: str, longest: int) -> None:
        """Raise ``Refused`` where a client without a session cannot get another one: what is kept leaves room for those
        that end with their connection. ``longest``: see ``interval``.
        """
        settings = self._settings
        known = self._by_id.get(client_id)
        if known is None and len(self._by_id) >= settings.max_sessions:
            raise Refused("there are too many sessions", ReasonCode.QUOTA_EXCEEDED)
        most = settings.max_kept_sessions or max(1, settings.max_sessions * 9 // 10)
        if self.kept >= most and not isinstance(known, KeptSession) and self.interval(connect, longest):
            raise Refused("there are too many sessions that outlive their connection", ReasonCode.QUOTA_EXCEEDED)

    def interval(self, connect: Connect, longest: int) -> int:
        """The expiry interval that this CONNECT gets, within what is granted to its client."""
        if connect.version is _V5:
            return min(connect.properties.session_expiry_interval or 0, longest)
        return 0 if connect.clean_start else longest

    def set_expiry(self, session: Session, interval: int, longest: int) -> None:
        """DISCONNECT changed the expiry interval, within what is granted to its client."""
        if isinstance(session, KeptSession):
            session.expiry_interval = min(interval, longest)
