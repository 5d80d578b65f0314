"""The facade for the admin side, about sessions, what they have subscribed to and what waits for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from iot_mqtt.broker.facade import BacklogInfo, SessionInfo, SessionsWanted, SubscriptionInfo
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.views.backlog import Backlogs, Look, here_of, lag_of, waiting_elsewhere
from iot_mqtt.broker.views.paging import Made, by_client, page, plain_of
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import user_of
from iot_mqtt.ports.endings import SESSION_PURGED
from iot_mqtt.ports.log import Breath
from iot_mqtt.topics import matches


class SessionsView:
    """Of one node."""

    def __init__(
        self,
        sessions: Sessions,
        backlogs: Backlogs,
        outflow: Outflow,
        attempts: Attempts,
        end: Callable[[Session, ReasonCode, str], None],
        turn: Turn,
        breathe: Breath,
    ) -> None:
        self._sessions = sessions
        self._backlogs = backlogs
        self._outflow = outflow
        self._attempts = attempts
        self._end = end
        self._turn = turn
        self._breathe = breathe

    async def sessions(
        self, after: str | None = None, limit: int = 100, wanted: SessionsWanted | None = None
    ) -> Sequence[SessionInfo]:
        """Sessions in order of their client ids."""
        fits = None if wanted is None or wanted == SessionsWanted() else partial(self._fits, wanted)
        return Made(await page(list(self._sessions), by_client, after, limit, self._breathe, fits), self._session)

    def _fits(self, wanted: SessionsWanted, session: Session) -> bool:
        owner = None if session.owner is None else user_of(session.owner)
        return (
            (wanted.prefix is None or session.client_id.startswith(wanted.prefix))
            and (wanted.user is None or owner == wanted.user)
            and (wanted.connected is None or wanted.connected == (session.connection is not None))
            and (wanted.state is None or self._outflow.state(session) == wanted.state)
            and (wanted.filter is None or wanted.filter in session.subscriptions)
        )

    def session(self, client_id: str) -> SessionInfo | None:
        """One session."""
        session = self._sessions.get(client_id)
        return None if session is None else self._session(session)

    async def counted(self, sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
        """See ``facade.BrokerView``."""
        return await self._counted(self._backlogs.look(), sessions)

    def counting(self) -> Callable[[Sequence[SessionInfo]], Awaitable[Sequence[SessionInfo]]]:
        """See ``facade.BrokerView``."""
        return partial(self._counted, self._backlogs.look())

    async def _counted(self, look: Look, sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
        found = []
        for info in sessions:
            session = self._sessions.get(info.client_id)
            waiting = None if session is None else await waiting_elsewhere(session, look)
            if session is not None and waiting is not None and session.backlog is not None:
                backlog = max(session.backlog, here_of(session) + waiting)
                info = replace(info, backlog=backlog, backlog_complete=look.complete)
            found.append(info)
        return found

    async def backlog(self, client_id: str) -> BacklogInfo | None:
        """What waits for one session, in messages and bytes."""
        session = self._sessions.get(client_id)
        return None if session is None else await self._backlogs.of(session)

    async def subscriptions(
        self,
        client_id: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
        topic: str | None = None,
    ) -> list[SubscriptionInfo]:
        """Subscriptions in order of client id and filter."""
        if client_id is None:
            sessions = list(self._sessions)
        else:
            one = self._sessions.get(client_id)
            sessions = [] if one is None else [one]
        fits = None if topic is None else partial(_matches, topic)
        return await page(_subscriptions(sessions), _place, after, limit, self._breathe, fits)

    async def purge(self, client_id: str) -> bool:
        """End a session and forget what was kept for it."""
        session = self._sessions.get(client_id)
        if session is None:
            return False
        self._attempts.ended(client_id, session.user, SESSION_PURGED, session.connection)
        self._end(session, ReasonCode.ADMINISTRATIVE_ACTION, SESSION_PURGED)
        await self._turn.settled()
        return True

    def _session(self, session: Session) -> SessionInfo:
        return SessionInfo(
            client_id=session.client_id,
            owner=None if session.owner is None else user_of(session.owner),
            connected=session.connection is not None,
            durable=session.durable,
            expiry_interval=session.expiry_interval,
            created_at=session.created_at,
            disconnected_at=session.disconnected_at,
            last_disconnect=session.last_disconnect,
            subscriptions=len(session.subscriptions),
            inflight=len(session.outbound),
            awaiting_release=session.outbound.released,
            received=session.inbound.count,
            queued=len(session.queue),
            queued_bytes=session.queue.bytes,
            backlog=session.backlog,
            position=self._backlogs.position(session),
            lag=lag_of(session),
            delivered=session.delivered,
            dropped=dict(session.dropped or {}),
            denied=dict(session.denied or {}),
            has_will=session.will is not None,
            state=self._outflow.state(session),
        )


def _subscriptions(sessions: Sequence[Session]) -> Iterator[SubscriptionInfo]:
    for session in sessions:
        for subscription in list(session.subscriptions.values()):
            yield SubscriptionInfo(session.client_id, subscription)


def _place(one: SubscriptionInfo) -> tuple[str, str]:
    return one.client_id, one.subscription.filter


def _matches(topic: str, one: SubscriptionInfo) -> bool:
    return matches(plain_of(one.subscription.filter), topic)
