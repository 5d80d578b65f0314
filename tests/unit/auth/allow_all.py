"""Authentication and rights of a broker that nobody else can reach."""

from __future__ import annotations

from iot_mqtt.auth.rights import UNRESTRICTED
from iot_mqtt.ports.access import ConnectAttempt, Denied, Permissions, Principal


class AllowAll:
    """Lets everybody in and allows everything."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Principal(attempt.client_id, attempt.username, anonymous=True)

    async def permissions(self, principal: Principal) -> Permissions:
        return UNRESTRICTED
