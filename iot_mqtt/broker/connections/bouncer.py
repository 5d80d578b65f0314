"""Bans at the broker: who sends CONNECT is asked for, and who is there when a ban comes has to go.

CONNACK says 0x8A (3.x: 5). DISCONNECT has no such code [MQTT-3.14.2-1]: who is there is told 0x98 and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.driving import breath, done, drive
from iot_mqtt.broker.session import Session
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.access import Denied
from iot_mqtt.ports.addresses import host_of
from iot_mqtt.ports.bans import Ban, Bans, Cause
from iot_mqtt.ports.counters import Counters

#: Connections that are looked at before others get their turn.
AT_ONCE = 500


class Bouncer:
    """Of all listeners."""

    __slots__ = ("_bans", "_call_soon", "_connections", "_counters", "_session_of")

    def __init__(
        self,
        bans: Bans,
        connections: Iterable[Connection],
        session_of: Callable[[str], Session | None],
        counters: Counters,
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """``connections``: those that there are, whenever it is asked."""
        self._bans = bans
        self._connections = connections
        self._session_of = session_of
        self._counters = counters
        self._call_soon = call_soon

    def refusal(self, client_id: str, user: str | None, host: str) -> Denied | None:
        """What a client that is banned is told; ``user``: who it says it is, or is."""
        ban = self._ban(client_id, user, host)
        return None if ban is None else Denied(ReasonCode.BANNED, _text(ban))

    def check(self, connection: Connection, user: str | None) -> None:
        """Raise ``Refused`` for a client that is banned; ``user``: who it says it is, or is."""
        if not self._bans:
            return
        client_id = "" if connection.connect is None else connection.connect.client_id
        ban = self._ban(client_id, user, host_of(connection.peer))
        if ban is not None:
            self._counters.banned[ban.cause] += 1
            raise Refused(_text(ban), ReasonCode.BANNED)

    def _ban(self, client_id: str, user: str | None, host: str) -> Ban | None:
        return self._bans.find(client_id, user or "", host) if self._bans else None

    def added(self, bans: list[Ban]) -> None:
        """There are new bans: whoever they concern and is here has to go. Whoever has shown the right password since
        somebody guessed at it stays.
        """
        bans = [ban for ban in bans if ban.cause != Cause.GUESSING]
        named = [
            ban.client for ban in bans if ban.client is not None and (ban.exact or not set("*?") & set(ban.client))
        ]
        if len(named) == len(bans):
            sessions = [self._session_of(client_id) for client_id in named]
            found = [session.connection for session in sessions if session is not None]
            self._look([one for one in found if isinstance(one, Connection)])
        else:
            drive(self._look_at_all(), done, _raised)

    async def _look_at_all(self) -> None:
        connections = list(self._connections)
        for begin in range(0, len(connections), AT_ONCE):
            self._look(connections[begin : begin + AT_ONCE])
            await breath(self._call_soon)

    def _look(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            if connection.closed or connection.ctx is None or not connection.ctx.channel.active:
                continue
            connect, session, principal = connection.connect, connection.session, connection.principal
            client_id = "" if connect is None else connect.client_id
            user = "" if connect is None else connect.username or ""
            ban = self._bans.find(
                client_id if session is None else session.client_id,
                user if principal is None else principal.owner,
                host_of(connection.peer),
            )
            if ban is not None and ban.cause != Cause.GUESSING:
                self._counters.banned[ban.cause] += 1
                there = session is not None and not connection.connecting
                connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION if there else ReasonCode.BANNED, _text(ban))


def _text(ban: Ban) -> str:
    return f"banned: {ban.reason}" if ban.reason else "banned"


def _raised(error: BaseException) -> None:
    raise error
