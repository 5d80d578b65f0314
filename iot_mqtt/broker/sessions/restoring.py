"""Sessions from their records: a session first, then what hangs on it, in the order in which these steps stand.

Records without their session are left-overs of a session that ended while its node was killed: they are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iot_mqtt.broker.claims import Doubt, Unfollowed
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publishing.retained_reading import RetainedReading
from iot_mqtt.broker.readers.cursors import SessionCursor, is_plain
from iot_mqtt.broker.readers.elsewhere import follow_all
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.gathering import Source, Wanted
from iot_mqtt.broker.sessions.replays import Replays
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.ports.store import Store, StoredReplay, StoredSession
from iot_mqtt.topics import Routes, parse_replay
from iot_mqtt.values import Subscription


@dataclass(slots=True)
class Load:
    """What is being loaded."""

    source: Source
    #: The other clients are somebody else's, and nothing of theirs is touched.
    wanted: Wanted
    #: The sessions that were restored.
    sessions: list[KeptSession] = field(default_factory=list)
    #: How far their replays are, by client id and filter.
    replays: dict[tuple[str, str], StoredReplay] = field(default_factory=dict)
    #: Retained messages that are still to be read, by the same: those behind a topic.
    unread: dict[tuple[str, str], bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class SessionRestoring:
    """Sessions with their subscriptions, and how far they have read the logs."""

    sessions: Sessions
    routes: Routes[Session]
    reading: Reading
    replays: Replays
    retained: RetainedReading
    logs: Logs
    store: Store

    async def restore(self, load: Load) -> None:
        """Read all of that; nobody is connected to them."""
        async for stored in load.source.sessions():
            if load.wanted(stored.client_id):
                load.sessions.append(self._restore(stored))
        await self._progress(load)
        await self._subscriptions(load)
        for session in load.sessions:
            self.sessions.loading.discard(session)
            follow_all(self.reading, session, self.logs.others.values())

    def loaded(self, load: Load) -> None:
        """All of them are whole: what was said when they were handed over is not said a second time."""
        for session in load.sessions:
            if session.counted is not None:
                self.reading.progress.moved(session)

    def _restore(self, stored: StoredSession) -> KeptSession:
        session = self.sessions.create(
            KeptSession, stored.client_id, version=stored.version, created_at=stored.created_at
        )
        session.durable = True
        session.expiry_interval = stored.expiry_interval
        session.disconnected_at = stored.disconnected_at
        self.sessions.own(session, stored.owner)
        session.epoch = stored.epoch
        session.counted = None
        session.cursor = SessionCursor(self.reading, session, self.logs.own, 0, live=False)
        self.sessions.loading.add(session)
        return session

    async def _progress(self, load: Load) -> None:
        own = self.logs.own
        async for client_id, progress in load.source.progress():
            session = self.sessions.get_kept(client_id)
            if session is None or session.cursor is None:
                if load.wanted(client_id):
                    self.store.remove_progress(client_id)
                continue
            for place in progress.places():
                if place.writer == own.writer:
                    session.cursor.position = place.position
                    session.cursor.past = list(place.past) or None
                    if place.position >= own.end:
                        session.cursor.backlog = 0
                elif place.position or place.past:
                    _unfollowed(session)[place.writer] = Unfollowed(place.position, place.past)
            session.last_id_kept = progress.last_id
            if progress.last_id is not None:
                session.in_doubt = True
                session.cursor.doubt = Doubt(own.end)
            if progress.counted is not None:
                session.counted = {counted.writer: counted for counted in progress.counted}
                session.cursor.take_over(session.counted.pop(own.writer, None))
            load.replays.update(((client_id, replay.filter), replay) for replay in progress.replays)
            load.unread.update(((client_id, unread.filter), unread.after) for unread in progress.unread)

    async def _subscriptions(self, load: Load) -> None:
        async for client_id, subscription, since in load.source.subscriptions():
            session = self.sessions.get_kept(client_id)
            filter = subscription.filter
            if session is None:
                if load.wanted(client_id):
                    self.store.remove_subscription(client_id, filter)
                continue
            session.subscribed(subscription)
            replay = parse_replay(filter)
            if replay is not None:
                self._replay(load, session, subscription, replay[1], since)
                continue
            self.routes.subscribe(session, subscription)
            if is_plain(filter):
                self._claim(session, filter, since)
            if (client_id, filter) in load.unread:
                self.retained.resume(session, subscription, load.unread[client_id, filter])

    def _claim(self, session: KeptSession, filter: str, since: Mapping[int, int]) -> None:
        own, cursor = self.logs.own.writer, session.cursor
        if cursor is None:
            return
        cursor.since[filter] = since.get(own, 0)
        for writer, position in since.items():
            if writer != own:
                _unfollowed(session).setdefault(writer, Unfollowed()).since[filter] = position

    def _replay(
        self, load: Load, session: KeptSession, subscription: Subscription, plain: str, since: Mapping[int, int]
    ) -> None:
        own = self.logs.own
        stored = load.replays.get((session.client_id, subscription.filter))
        if stored is None:
            stored = StoredReplay(subscription.filter, since.get(own.writer, 0), None, own.writer)
        # A place in another node's log is of no use here: it goes on with what is published from now on.
        position = stored.position if stored.writer == own.writer else own.end
        cursor = self.replays.enter(session, subscription, plain, position)
        if stored.sought is not None:
            cursor.begin(stored.sought)


def _unfollowed(session: KeptSession) -> dict[int, Unfollowed]:
    if session.unfollowed is None:
        session.unfollowed = {}
    return session.unfollowed
