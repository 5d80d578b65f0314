"""Who a client is once somebody has vouched for it: every verdict of a link and of a method passes here."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal, is_user_name
from iot_mqtt.ports.addresses import host_of, written

#: Characters of a name that a refusal quotes.
_QUOTED = 64


def vouched(
    by: str, principal: Principal, attempt: ConnectAttempt, generation: Callable[[str], int]
) -> Principal | Denied:
    """The same with its address, and which user of its name it is. A name that no user may have (``is_user_name``) is
    nobody's, wherever it comes from: certificates, balancers and services are not ours.
    """
    if not principal.anonymous and not is_user_name(principal.username or ""):
        name = (principal.username or "")[:_QUOTED]
        return Denied(ReasonCode.NOT_AUTHORIZED, f"{by} vouches for {name!r}, which no user may be called")
    owner = principal.owner
    return principal._replace(address=written(host_of(attempt.peer)), generation=generation(owner) if owner else 0)
