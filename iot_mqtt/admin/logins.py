"""Logins of browsers: a random cookie each, whose hash is a document of the directory.

Kept there, and not signed, because a login must be able to end: by logging out, by an admin, for another password. So
it works behind a balancer, too: every node knows it within a second, and a node that is asked sooner looks into the
grid before it says no. A cookie is made at the login and never taken from a client.

A login ends ``idle`` seconds after somebody used it last (which is written down in steps of a tenth of that),
``longest`` seconds after it began, and when its user is removed or gets another role or password.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from twisted.internet.defer import ensureDeferred

from iot_mqtt.admin.admins import Admin, AdminDesk
from iot_mqtt.admin.callers import Caller, hash_of
from iot_mqtt.ports.directory import LOGINS, Conflict, Directory, Document

log = logging.getLogger(__name__)

#: Logins of one user, and of all. The one that was used longest ago makes room.
MAX_PER_ADMIN: Final = 10
MAX_LOGINS: Final = 1000
#: Logins that are over, taken away at one new one.
SWEPT: Final = 32
_SECRET = re.compile(rb"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class MadeLogin:
    """What the browser is given, once."""

    secret: str
    csrf: str
    ends_at: float


class Logins:
    """All logins of the cluster. ``now`` is wall-clock seconds."""

    def __init__(
        self, directory: Directory, desk: AdminDesk, now: Callable[[], float], *, idle: float, longest: float
    ) -> None:
        self._directory = directory
        self._desk = desk
        self._now = now
        self._idle = idle
        self._longest = longest
        #: Hash → when it was used here.
        self._used: dict[str, float] = {}

    def known(self, secret: bytes) -> Caller | None:
        """Whose cookie this is; None for nobody's."""
        if not _SECRET.fullmatch(secret):
            return None
        document = self._directory.get(LOGINS, hash_of(secret))
        admin = None if document is None else self._of(document)
        if document is None or admin is None:
            return None
        return Caller(admin.name, admin.role, login=document.name, csrf=csrf_of(secret), must_change=admin.must_change)

    @staticmethod
    def may_be(secret: bytes) -> bool:
        """Whether a cookie looks like one of ours."""
        return _SECRET.fullmatch(secret) is not None

    async def look(self) -> None:
        """Know what other nodes have let in. Raises ``Unavailable``.

        Whoever shows something like a cookie can have a node do this: it is one small read, and there are no more of
        them at once than connections to the port.
        """
        await self._directory.refresh()

    async def make(self, admin: Admin, address: str) -> MadeLogin:
        """A login of a user who has shown who he is."""
        await self._make_room(admin.name)
        secret, now = secrets.token_urlsafe(32), self._now()
        body = {
            "admin": admin.name,
            "generation": admin.generation,
            "address": address,
            "made_at": now,
            "used_at": now,
        }
        await self._directory.put(LOGINS, hash_of(secret.encode()), body, 0)
        return MadeLogin(secret, csrf_of(secret.encode()), now + self._longest)

    async def end(self, id: str) -> None:
        """It is over; on every node within a second."""
        self._used.pop(id, None)
        await self._directory.delete(LOGINS, id)

    @property
    def count(self) -> int:
        """Logins that are kept, those that are over and not yet taken away included."""
        return len(self._directory.of(LOGINS))

    def _of(self, document: Document) -> Admin | None:
        """The user of a login that is good."""
        body = document.body
        admin = self._desk.admin(str(body.get("admin")))
        if admin is None or admin.generation != body.get("generation"):
            return None
        now = self._now()
        over = now - _number(body, "made_at") >= self._longest or now - self._last(document) >= self._idle
        return None if over else admin

    def _last(self, document: Document) -> float:
        return max(_number(document.body, "used_at"), self._used.get(document.name, 0.0))

    def use(self, id: str) -> None:
        """Somebody has asked for something with it."""
        document = self._directory.get(LOGINS, id)
        if document is None:
            return
        now = self._now()
        self._used[document.name] = now
        if len(self._used) > 2 * MAX_LOGINS:
            kept = self._directory.of(LOGINS)
            self._used = {id: at for id, at in self._used.items() if id in kept}
        if now - _number(document.body, "used_at") >= self._idle / 10:
            writing = ensureDeferred(self._write(document, now))
            writing.addErrback(lambda failure: log.info("a login's use is not kept: %s", failure.getErrorMessage()))

    async def _write(self, document: Document, now: float) -> None:
        with suppress(Conflict):  # another node, or another request, was faster
            # At the version that was read: a login that somebody ends meanwhile does not come back.
            await self._directory.put(LOGINS, document.name, {**document.body, "used_at": now}, document.version)

    async def _make_room(self, name: str) -> None:
        kept = self._directory.of(LOGINS)
        over = [one for one in kept.values() if self._of(one) is None]
        for one in over[:SWEPT]:
            await self.end(one.name)
        good = [one for one in kept.values() if self._of(one) is not None]
        his = [one for one in good if one.body.get("admin") == name]
        for found, most in ((his, MAX_PER_ADMIN), (list(kept.values()), MAX_LOGINS)):
            for one in sorted(found, key=self._last)[: max(0, len(found) + 1 - most)]:
                await self.end(one.name)


def csrf_of(secret: bytes) -> str:
    """What a page shows besides the cookie, which it cannot read; no other page learns it, and nobody keeps it."""
    return hmac.digest(secret, b"iot-mqtt csrf", "sha256").hex()


def _number(body: Mapping[str, Any], name: str) -> float:
    return float(body.get(name, 0.0))
