"""Who does not keep up: those for whom most waits, with the cause.

Every session is looked at, some in each turn; the log is asked for the oldest message of those that are shown only, and
between two of them others have their turn.
"""

from __future__ import annotations

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.views.backlog import lag_of
from iot_mqtt.broker.views.paging import page
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.access import user_of
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.log import Breath
from iot_mqtt.ports.slow import CAUSES, SlowInfo
from iot_mqtt.session import Flight

#: Bytes of the log that are read for the age of one message.
READ_BYTES = 64 * 1024

#: The order of the list: how much waits, with the most first, and the client id.
Place = tuple[int, str]


class SlowView:
    """Of one node."""

    def __init__(
        self,
        sessions: Sessions,
        states: Outflow,
        logs: Logs,
        clock: Clock,
        breathe: Breath,
    ) -> None:
        self._sessions = sessions
        self._states = states
        self._logs = logs
        self._clock = clock
        self._breathe = breathe

    async def slow(self, after: Place | None, limit: int, connected: bool | None = None) -> list[SlowInfo]:
        """The first ones behind a place."""
        # A session has one place, however much comes for it meanwhile.
        everybody = map(_placed, list(self._sessions))
        shown = await page(
            everybody, lambda one: one[0], after, limit, self._breathe, lambda one: _is_slow(one[1], connected)
        )
        found: list[SlowInfo] = []
        for _, session in shown:
            if not session.ended:
                found.append(await self._info(session))
                await self._breathe()
        return found

    async def _info(self, session: Session) -> SlowInfo:
        oldest, state = await self._oldest(session), self._states.state(session)
        connection = session.connection
        channel = connection.ctx.channel if isinstance(connection, Connection) and connection.ctx is not None else None
        return SlowInfo(
            client_id=session.client_id,
            owner=None if session.owner is None else user_of(session.owner),
            connected=connection is not None,
            state=state,
            cause=CAUSES.get(state, state),
            waiting=_waiting(session),
            queued=len(session.queue),
            backlog=session.backlog,
            inflight=len(session.outbound),
            window=session.outbound.limit,
            lag=lag_of(session),
            outbox_bytes=channel.outbox.pending if channel is not None else 0,
            oldest_seconds=None if oldest is None else max(0.0, self._clock.wall() - oldest),
            dropped=dict(session.dropped or {}),
        )

    async def _oldest(self, session: Session) -> float | None:
        """When the oldest message came that waits: what is under way came before what is not read yet."""
        flight = next((one for one in session.outbound.entries.values() if isinstance(one, Flight)), None)
        try:
            if flight is not None:
                offset = next((offset for offset, _ in flight.outstanding(session.outbound.entries)), 0)
                (run,) = await self._logs.fetch([flight.reference.part(offset, offset + 1)])
                return None if run is None else float(run.arrived)
            ages = [await _first(cursor) for cursor in list(session.cursors()) if not cursor.live]
        except Unavailable:
            return None
        return min((age for age in ages if age is not None), default=None)


async def _first(cursor: LogCursor) -> float | None:
    filters = cursor.filters()
    if not filters or cursor.closed:
        return None
    reading = await cursor.log.read(filters, cursor.position, 1, READ_BYTES)
    return reading.runs[0].arrived if reading.runs else None


def _waiting(session: Session) -> int:
    return session.waiting + sum(cursor.owed for cursor in session.cursors() if not cursor.live)


def _placed(session: Session) -> tuple[Place, Session]:
    return (-_waiting(session), session.client_id), session


def _is_slow(session: Session, connected: bool | None) -> bool:
    connection = session.connection
    if connected is not None and connected != (connection is not None):
        return False
    return bool((connection is not None and not connection.writable) or _waiting(session))
