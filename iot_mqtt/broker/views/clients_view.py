"""The facade for the admin side, about clients that are connected, and attempts of those that are not."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.facade import AttemptInfo, ClientInfo, ClientsWanted
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.views.paging import Made, by_client, page
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.addresses import host_of, parsed
from iot_mqtt.ports.log import Breath

PROTOCOLS = {3: "3.1", 4: "3.1.1", 5: "5.0"}


class ClientsView:
    """Of one node."""

    def __init__(self, sessions: Sessions, attempts: Attempts, budget: Budget, turn: Turn, breathe: Breath) -> None:
        self._sessions = sessions
        self._attempts = attempts
        self._budget = budget
        self._turn = turn
        self._breathe = breathe

    async def clients(
        self, after: str | None = None, limit: int = 100, wanted: ClientsWanted | None = None
    ) -> Sequence[ClientInfo]:
        """Connected clients in order of their ids."""
        fits = _is_connected if wanted is None or wanted == ClientsWanted() else _fitting(wanted)
        shown = await page(list(self._sessions), by_client, after, limit, self._breathe, fits)
        found = [(session.connection, session) for session in shown if isinstance(session.connection, Connection)]
        return Made(found, lambda one: self._client(*one))

    def client(self, client_id: str) -> ClientInfo | None:
        """One connected client."""
        session = self._sessions.get(client_id)
        if session is None or not isinstance(session.connection, Connection):
            return None
        return self._client(session.connection, session)

    def attempts(self, client_id: str) -> list[AttemptInfo]:
        """What is remembered of a client that is not there."""
        return self._attempts.of(client_id)

    def unnamed(self, host: str | None, most: int = 10) -> list[AttemptInfo]:
        """Connections from an address, or from anywhere, that ended before they said who they are."""
        return self._attempts.all_unnamed(most) if host is None else self._attempts.from_address(host)[:most]

    async def kick(self, client_id: str) -> bool:
        """Close a client's connection."""
        session = self._sessions.get(client_id)
        if session is None or session.connection is None:
            return False
        session.connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, "closed by the operator")
        await self._turn.settled()
        return True

    def _client(self, connection: Connection, session: Session) -> ClientInfo:
        channel = connection.ctx.channel if connection.ctx is not None else None
        connect = connection.connect
        return ClientInfo(
            client_id=session.client_id,
            username=session.user,
            claimed_user=connection.claimed_user,
            peer=channel.peer if channel else "",
            listener=channel.listener if channel else "",
            protocol=connection.serving.kind.codec or PROTOCOLS[session.version],
            clean_start=bool(connect and connect.clean_start),
            keep_alive=connection.keep_alive,
            connected_at=connection.connected_at,
            bytes_received=channel.bytes_received if channel else 0,
            bytes_sent=channel.bytes_sent if channel else 0,
            outbox_bytes=channel.outbox.pending if channel else 0,
            writable=connection.writable,
            subscriptions=len(session.subscriptions),
            inflight=len(session.outbound),
            queued=len(session.queue),
            paused=self._budget.paused(connection),
        )


def _is_connected(session: Session) -> bool:
    return isinstance(session.connection, Connection)


def _fitting(wanted: ClientsWanted) -> Callable[[Session], bool]:
    network = None if wanted.address is None else ipaddress.ip_network(wanted.address, strict=False)
    part = None if wanted.contains is None else wanted.contains.casefold()

    def fits(session: Session) -> bool:
        connection = session.connection
        if not isinstance(connection, Connection):
            return False
        channel = None if connection.ctx is None else connection.ctx.channel
        return (
            (wanted.prefix is None or session.client_id.startswith(wanted.prefix))
            and (part is None or part in session.client_id.casefold())
            and (wanted.user is None or (session.user or "") == wanted.user)
            and (wanted.listener is None or (channel is not None and channel.listener == wanted.listener))
            and (network is None or (channel is not None and _within(channel.peer, network)))
        )

    return fits


def _within(peer: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    found = parsed(host_of(peer))
    return found is not None and found in network
