"""Who is let in: steps that are asked in turn. The first decisive answer counts, and no answer means no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iot_mqtt.auth.files import WatchedFile
from iot_mqtt.auth.hashing import Question
from iot_mqtt.auth.users import Users
from iot_mqtt.auth.verdicts import Verifier
from iot_mqtt.errors import MqttError, ReasonCode, Unavailable
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.addresses import source_of


class Step(Protocol):
    """One way to know a client."""

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        """Decide, or leave it to the next step with None."""
        ...


class Chain:
    """An ``Authenticator`` made of steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        for step in self._steps:
            verdict = await step.consider(attempt)
            if verdict is not None:
                return verdict
        return Denied(ReasonCode.NOT_AUTHORIZED, "nobody vouches for this client")


class CertificateStep:
    """The common name of a verified client certificate is the user, unless the client names another one, or the file
    of users disables that one.
    """

    def __init__(self, users: WatchedFile[Users] | None = None) -> None:
        self._users = users

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        name = attempt.certificate_name
        if not name or attempt.username not in (None, "", name):
            return None
        if self._users is not None and self._users.content.is_disabled(name):
            return Denied(ReasonCode.NOT_AUTHORIZED, "this user is disabled")
        return Principal(attempt.client_id, name)


class PasswordStep:
    """User name and password, against the file of users. Decides on everyone who names a user."""

    def __init__(self, users: WatchedFile[Users], verifier: Verifier) -> None:
        self._users = users
        self._verifier = verifier

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
        if good:
            return Principal(attempt.client_id, name)
        # The same words for a wrong name and a wrong password, and the same work behind them.
        return Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong")

    async def _fits(self, name: str, password: bytes | None, source: str) -> bool:
        if not password:
            return False
        encoded = self._users.content.hash_of(name)
        fits = await self._verifier.verify(Question(name, encoded, password), source)
        # The file may have changed while a thread was busy: what it says now counts.
        users = self._users.content
        return fits and name in users and users.hash_of(name) == encoded


class AnonymousStep:
    """Lets in who names no user; with ``any_name`` also who names one, which then counts for nothing."""

    def __init__(self, *, any_name: bool) -> None:
        self._any_name = any_name

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        if attempt.username is None or self._any_name:
            return Principal(attempt.client_id, attempt.username, anonymous=True)
        return None
