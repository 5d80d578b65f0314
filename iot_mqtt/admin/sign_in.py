"""Logging in by name and password: verified on the pool's threads, counted, written down.

Whoever gives a name that nobody has waits as long as one who gives a wrong password, and is told the same.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from iot_mqtt.admin.admins import LONGEST_NAME, LONGEST_PASSWORD, Admin, AdminDesk
from iot_mqtt.admin.auditing import Auditor
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.lockout import Lockout
from iot_mqtt.auth import argon
from iot_mqtt.auth.hashing import Question
from iot_mqtt.errors import Refused, Unavailable
from iot_mqtt.ports.addresses import source_of

log = logging.getLogger(__name__)

#: Records of lock-outs a minute: a flood of guesses must not push out of the log what is older.
RECORDS_A_MINUTE = 10


class Pool(Protocol):
    """Verifies passwords aside; ``auth.hashing.HashPool`` is one."""

    def verify(self, question: Question, source: str) -> Awaitable[bool]: ...


class SignIn:
    """``now``: wall clock. ``monotonic``: for how long somebody is locked out."""

    def __init__(
        self,
        desk: AdminDesk,
        pool: Pool,
        lockout: Lockout,
        auditor: Auditor,
        monotonic: Callable[[], float],
    ) -> None:
        self._desk = desk
        self._pool = pool
        self._lockout = lockout
        self._auditor = auditor
        self._monotonic = monotonic
        self._decoy = argon.decoy()
        #: Attempts by what came of them: ok, wrong, locked (not looked at), failed (could not be looked at).
        self.outcomes: Counter[str] = Counter(ok=0, wrong=0, locked=0, failed=0)
        self._recorded: list[float] = []
        self._unrecorded = 0

    async def admin(self, name: str, password: str, address: str) -> Admin:
        """The user whose name and password these are; otherwise an ``ApiError``."""
        source = source_of(f"{address}:0")
        name = name[: LONGEST_NAME + 1]
        wait = self._lockout.wait(name, source, self._monotonic())
        if wait:
            self.outcomes["locked"] += 1
            raise _locked(wait)
        # Counted before it is known: guesses that come at once are as many as those that come one by one.
        wait = self._lockout.begin(name, source, self._monotonic())
        try:
            found = await self._verified(name, password, source)
        except (Refused, Unavailable) as error:
            self.outcomes["failed"] += 1
            self._lockout.take_back(name, source)
            raise Unavailable(f"passwords cannot be looked at now: {error.detail}") from error
        if found is None:
            self.outcomes["wrong"] += 1
            log.warning("a login at the admin port was refused", extra={"admin": name, "address": address})
            await self._record_lockout(name, source, address, wait)
            raise ApiError(HTTPStatus.UNAUTHORIZED, "wrong_login", "name or password is wrong")
        self.outcomes["ok"] += 1
        self._lockout.forgive(name, source)
        return found

    async def _verified(self, name: str, password: str, source: str) -> Admin | None:
        known = self._desk.admin(name)
        # A random password takes the work of others, too.
        encoded = (known and known.hash) or self._decoy
        secret = password[: LONGEST_PASSWORD + 1].encode("utf-8", "surrogatepass")
        # Names and addresses of this port are not those of MQTT: wrong passwords there take nobody's turn here.
        fits = await self._pool.verify(Question(f"admin {name}", encoded, secret), f"admin {source}")
        # The user may have changed while a thread was busy: what he is now counts.
        now = self._desk.admin(name)
        if now is None or known is None or (now.hash, now.random_hash) != (known.hash, known.random_hash):
            return None
        return now if fits or now.is_random(secret) else None

    async def _record_lockout(self, name: str, source: str, address: str, seconds: float) -> None:
        if not seconds:
            return
        now = self._monotonic()
        self._recorded = [at for at in self._recorded if now - at < 60]
        if len(self._recorded) >= RECORDS_A_MINUTE:
            self._unrecorded += 1
            return
        self._recorded.append(now)
        failures, unrecorded = self._lockout.failures(name, source), self._unrecorded
        self._unrecorded = 0
        said = json.dumps({"locked_for": seconds, "wrong_passwords": failures, "not_recorded_before": unrecorded})
        try:
            await self._auditor.note(name, "", address, "POST", "login", HTTPStatus.TOO_MANY_REQUESTS, said)
        except Unavailable as error:
            log.error("a lock-out could not be written down: %s", error)


def _locked(seconds: float) -> ApiError:
    whole = str(int(seconds) + 1)
    detail = f"too many wrong passwords for this name from this address; try again in {whole} s"
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "locked", detail, {"Retry-After": whole})
