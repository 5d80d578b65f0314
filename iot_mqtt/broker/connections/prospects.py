"""What would become of a client: what CONNECT asks besides its password, in the order of ``handlers.connect``.

Nothing is done, counted or logged. Not asked: its will, and whether there is room for one more session.
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.broker.connections.bouncer import Bouncer
from iot_mqtt.broker.connections.door import Door
from iot_mqtt.broker.connections.limiting import Limiting
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Action, Authorizer, ConnectAttempt, Denied, Principal
from iot_mqtt.ports.addresses import host_of

_NOT_ITS_NAME = Denied(ReasonCode.NOT_AUTHORIZED, "the rules do not give this client id to this user")
_NOT_ITS_SESSION = Denied(ReasonCode.NOT_AUTHORIZED, "the session of this client id is another user's")


class Prospects:
    """Of clients of this node. ``alone``: there is no other node."""

    def __init__(
        self,
        door: Door,
        bouncer: Bouncer,
        authorizer: Authorizer,
        owners: Owners,
        limiting: Limiting,
        sessions: Sessions,
        alone: Callable[[], bool],
    ) -> None:
        self.alone = alone
        self._door = door
        self._bouncer = bouncer
        self._authorizer = authorizer
        self._owners = owners
        self._limiting = limiting
        self._sessions = sessions

    async def of(self, attempt: ConnectAttempt, verdict: Principal | Denied) -> Principal | Denied:
        """What becomes of a client of whom authentication says ``verdict``."""
        refusing = self._door.refusing or self._door.busy
        if refusing is not None:
            return Denied(refusing.reason, refusing.detail)
        client_id, host = attempt.client_id, host_of(attempt.peer)
        banned = self._bouncer.refusal(client_id, attempt.username, host)
        if banned is not None or isinstance(verdict, Denied):
            return banned or verdict
        return (
            self._bouncer.refusal(client_id, verdict.owner, host)
            or await self._named(client_id, verdict)
            or self._limiting.refusal(verdict, self._sessions.get(client_id))
            or verdict
        )

    def open_question(self, client_id: str) -> str:
        """What this node does not know of it; empty if it knows all."""
        if not client_id or self.alone() or self._sessions.get(client_id) is not None:
            return ""
        return "if another node has its session, that node says whose it is"

    async def _named(self, client_id: str, who: Principal) -> Denied | None:
        if not client_id:
            return None
        permissions = await self._authorizer.permissions(who)
        if not permissions.unrestricted and not permissions.allows(Action.CLIENT, client_id):
            return _NOT_ITS_NAME
        return None if self._owners.yields(client_id, who.identity) else _NOT_ITS_SESSION
