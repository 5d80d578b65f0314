"""Who a client is once somebody has vouched for it: every verdict of a link and of a method passes here."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.auth.accounts import Accounts
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal, is_user_name, vouched_for
from iot_mqtt.ports.addresses import host_of, written

#: Characters of a name that a refusal quotes.
_QUOTED = 64
#: The words for a client id that the rules do not give, so that nobody learns whose it is.
NOT_HIS = Denied(ReasonCode.NOT_AUTHORIZED, "not allowed to use this client id")


class Vouching:
    """What holds for every user, whichever link or method vouches for him."""

    def __init__(self, accounts: Accounts, generation: Callable[[str], int] = lambda _: 0) -> None:
        """``accounts``: all users that are kept here; ``generation``: which user of a name it is (``generations``)."""
        self._accounts = accounts
        self._generation = generation

    def vouched(self, by: str, principal: Principal, attempt: ConnectAttempt) -> Principal | Denied:
        """The same with its address, who vouched, and which user of its name it is. A name that no user may have
        (``is_user_name``) is nobody's, wherever it comes from: certificates, balancers and services are not ours. A
        user who is kept here has the client ids that are said of him here.
        """
        if not principal.anonymous and not is_user_name(principal.username or ""):
            name = (principal.username or "")[:_QUOTED]
            return Denied(ReasonCode.NOT_AUTHORIZED, f"{by} vouches for {name!r}, which no user may be called")
        owner = principal.owner
        if owner and not self._accounts.may_be(owner, attempt.client_id):
            return NOT_HIS
        generation = self._generation(owner) if owner else 0
        return vouched_for(principal, written(host_of(attempt.peer)), generation, by)


#: Where no user is kept.
STRANGERS = Vouching(Accounts([]))
