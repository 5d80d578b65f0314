r"""The link ``certificate``: a field of a verified client certificate is the user.

The TLS layer has verified the certificate; this link reads a name out of it, and a pattern may cut the user out of that
name: ``(?P<user>[^@]+)@plant\.example``.
"""

from __future__ import annotations

import re

from iot_mqtt.auth.accounts import Accounts
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal

DISABLED = Denied(ReasonCode.NOT_AUTHORIZED, "this user is disabled")


class CertificateLink:
    """Takes the user from the certificate, unless the client names another one, or a store disables that one."""

    name = "certificate"
    counts = False

    def __init__(self, accounts: Accounts, field: str = "cn", pattern: str = "") -> None:
        """``pattern`` must fit the whole field; its group ``user``, or the first one, is the user."""
        self._accounts = accounts
        self._field = field
        self._pattern = re.compile(pattern) if pattern else None

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        name = self._name(attempt)
        if not name or attempt.username not in (None, "", name):
            return None
        if self._accounts.is_disabled(name):
            return DISABLED
        return Principal(attempt.client_id, name)

    def known(self, attempt: ConnectAttempt) -> str:
        name = self._name(attempt)
        return f"the certificate ({self._field}) says {name!r}" if name else "there is no certificate with such a name"

    def _name(self, attempt: ConnectAttempt) -> str | None:
        for value in self._values(attempt):
            if self._pattern is None:
                return value
            match = self._pattern.fullmatch(value)
            if match is not None:
                return _user(match)
        return None

    def _values(self, attempt: ConnectAttempt) -> tuple[str, ...]:
        if self._field == "cn":
            return () if not attempt.certificate_name else (attempt.certificate_name,)
        return attempt.certificate.get(self._field, ())


def _user(match: re.Match[str]) -> str | None:
    groups: dict[str, str | None] = match.groupdict()
    if "user" in groups:
        return groups["user"]
    return match[1] if match.re.groups else match[0]
