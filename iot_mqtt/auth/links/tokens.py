"""The link ``jwt``: the password is a token that somebody else has signed.

A token is no guess, whatever is wrong with it: nobody finds a signature by trying, and many devices show one that has
ended, or is by a key that was replaced. So no answer here is 0x86, which is counted as a wrong password.
"""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.auth import tokens
from iot_mqtt.auth.accounts import Accounts
from iot_mqtt.auth.links.certificate import DISABLED
from iot_mqtt.auth.settings import JwtSettings
from iot_mqtt.auth.token_keys import TokenKey
from iot_mqtt.auth.tokens import BadToken, Claims, UnknownKey
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.clock import Clock


class Keys(Protocol):
    """Where keys come from."""

    def now(self) -> tuple[TokenKey, ...]:
        """Those that there are."""
        ...

    async def renew(self) -> None:
        """Look again, because a token names another one, unless it is too soon for that."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why there may be keys that are not known."""
        ...


class TokenLink:
    """Decides on every password that looks like a token. The user is whom the token names."""

    name = "jwt"
    counts = False

    def __init__(self, settings: JwtSettings, keys: Keys, accounts: Accounts, clock: Clock) -> None:
        self._settings = settings
        self._keys = keys
        self._accounts = accounts
        self._clock = clock

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        if not tokens.looks_like(attempt.password):
            return None
        assert attempt.password is not None
        try:
            claims = await self._claims(attempt.password)
        except BadToken as error:
            return Denied(ReasonCode.NOT_AUTHORIZED, str(error))
        if self._settings.check_username and attempt.username not in (None, "", claims.user):
            return Denied(ReasonCode.NOT_AUTHORIZED, "the token is another user's")
        if self._accounts.is_disabled(claims.user):
            return DISABLED
        return Principal(
            attempt.client_id,
            claims.user,
            groups=claims.groups,
            brought_rules=claims.rules,
            expires_at=claims.expires_at,
        )

    def known(self, attempt: ConnectAttempt) -> str:
        trouble = self._keys.trouble
        counted = f"{len(self._keys.now())} keys" + (f"; {trouble}" if trouble else "")
        return counted if tokens.looks_like(attempt.password) else f"the password is no token; {counted}"

    async def _claims(self, token: bytes) -> Claims:
        try:
            return self._read(token)
        except UnknownKey:
            await self._keys.renew()
        if not self._keys.now():
            raise Unavailable("there are no keys to verify tokens with")
        return self._read(token)

    def _read(self, token: bytes) -> Claims:
        return tokens.read(token, self._keys.now(), self._settings, self._clock.wall())
