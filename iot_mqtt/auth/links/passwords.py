"""The links ``file`` and ``grid``: user name and password, against what is kept of users here.

Links that stand beside each other are one: whoever is in neither costs one hash, not two.
"""

from __future__ import annotations

from iot_mqtt.auth.accounts import Accounts
from iot_mqtt.auth.hashing import Question
from iot_mqtt.auth.verdicts import Verifier
from iot_mqtt.errors import MqttError, ReasonCode, Unavailable
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.addresses import source_of

#: The same words for a wrong name and a wrong password, and the same work behind them.
WRONG = Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong")


class PasswordLink:
    """Decides on everyone who names a user. With ``others`` a name that nobody has here goes on to the next link, after
    the work of a wrong password; whether it was one is said at the end of the chain.
    """

    counts = True

    def __init__(self, name: str, accounts: Accounts, verifier: Verifier, *, others: bool = False) -> None:
        self.name = name
        self.accounts = accounts
        self._verifier = verifier
        self._others = others

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        name = attempt.username
        if name is None:
            return None
        try:
            good = await self._fits(name, attempt.password, source_of(attempt.peer))
        except Unavailable:
            raise
        except MqttError as error:
            return Denied(error.reason, error.detail)
        account = self.accounts.find(name)
        if account is None and self._others:
            return None
        if account is None or not good or self.accounts.is_disabled(name):
            return WRONG
        return Principal(attempt.client_id, name)

    def known(self, attempt: ConnectAttempt) -> str:
        if attempt.username is None:
            return "no user is named"
        account = self.accounts.find(attempt.username)
        if account is None:
            return "there is no such user"
        if self.accounts.is_disabled(attempt.username):
            return "the user is disabled"
        if not account.may_be(attempt.client_id):
            return f"the user may not have this client id, only {', '.join(account.client_ids)}"
        kept = "no password is set" if account.hash is None else f"the user has a password ({_kind(account.hash)})"
        return f"{kept}, groups: {', '.join(sorted(account.groups)) or 'none'}"

    async def _fits(self, name: str, password: bytes | None, source: str) -> bool:
        if not password:
            return False
        encoded = self.accounts.hash_of(name)
        decides = not self._others or self.accounts.find(name) is not None
        fits = await self._verifier.verify(Question(name, encoded, password, decides), source)
        # Users may have changed while a thread was busy: what they are now counts.
        account = self.accounts.find(name)
        return fits and account is not None and account.hash == encoded


def _kind(encoded: str) -> str:
    from iot_mqtt.auth.kinds import kind_of

    return kind_of(encoded).name
