"""Admin users: names, roles and passwords of those who log in at the admin port, the same on every node.

They are documents of the directory, apart from the users of MQTT: who may publish may not therefore look in here, nor
the other way round. A *generation* is made anew with the password and the role; logins of another one are over.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iot_mqtt.admin.callers import ROOT, TOKENS, Role, hash_of, role_of
from iot_mqtt.admin.token import same
from iot_mqtt.auth import argon
from iot_mqtt.auth.hashing import HashPool
from iot_mqtt.auth.users import check_new_name
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.directory import ADMINS, Conflict, Directory, Document

#: People, not machines; each name is at most this long.
MAX_ADMINS: Final = 1000
LONGEST_NAME: Final = 64
#: Characters of a password. The shortest is NIST's.
SHORTEST_PASSWORD: Final = 8
LONGEST_PASSWORD: Final = 1024

#: How many there are of each user, by his name and when he was made.
_Tokens = Counter[tuple[object, object]]


@dataclass(frozen=True, slots=True)
class AdminInfo:
    """An admin user as others see him: never the hash."""

    name: str
    role: str
    #: Must set another password before anything else.
    must_change: bool
    made_at: float
    version: int
    #: Those that end with him, and may no more than he does.
    tokens: int


@dataclass(frozen=True, slots=True)
class Admin:
    """The same as the node needs him."""

    name: str
    role: Role
    #: None: the password is a random one that was made here.
    hash: str | None
    #: Of that one.
    random_hash: str | None
    generation: str
    must_change: bool

    def is_random(self, password: bytes) -> bool:
        """Whether this is the random password that the user was made with."""
        return self.random_hash is not None and same(hash_of(password).encode(), self.random_hash.encode())


class AdminDesk:
    """Writes raise ``ValueError``, ``Conflict``, ``TooMuch``, ``Refused`` and ``Unavailable``. ``now``: wall clock."""

    def __init__(self, directory: Directory, pool: HashPool, now: Callable[[], float]) -> None:
        self._directory = directory
        self._pool = pool
        self._now = now

    def page(self, after: str | None, limit: int) -> list[AdminInfo]:
        """By name."""
        tokens = self._tokens()
        return [_info(one, tokens) for one in self._directory.page(ADMINS, after or "", limit)]

    def find(self, name: str) -> AdminInfo | None:
        found = self._directory.get(ADMINS, name)
        return None if found is None else _info(found, self._tokens())

    def admin(self, name: str) -> Admin | None:
        """Who may log in by a name; None as well where what is kept cannot be read."""
        found = self._directory.get(ADMINS, name)
        try:
            return None if found is None else _admin(found)
        except (KeyError, ValueError):
            return None

    async def add(self, name: str, password: str, role: Role, *, must_change: bool) -> AdminInfo:
        """``Conflict`` if there is such a user."""
        self._check_new(name)
        return await self._make(name, {"hash": await self._hashed(password)}, role, must_change=must_change)

    async def add_random(self, name: str, role: Role) -> str:
        """The same with a random password, which is returned and has to be changed first of all. As a token's it needs
        no slow hash; so a node's first start has no work by it.
        """
        self._check_new(name)
        password = secrets.token_urlsafe(18)
        await self._make(name, {"random_hash": hash_of(password.encode())}, role, must_change=True)
        return password

    def _check_new(self, name: str) -> None:
        check_new_name(name)
        if name == ROOT:
            raise ValueError(f"{ROOT} is the token of the data directory")
        if len(name) > LONGEST_NAME:
            raise ValueError(f"a name has at most {LONGEST_NAME} characters")
        if len(self._directory.of(ADMINS)) >= MAX_ADMINS:
            raise Refused(f"there are {MAX_ADMINS} admin users already", ReasonCode.QUOTA_EXCEEDED)
        if self._directory.get(ADMINS, name) is not None:
            raise Conflict(f"there is an admin user {name!r} already")

    async def _make(self, name: str, password: Mapping[str, str], role: Role, *, must_change: bool) -> AdminInfo:
        body = {
            **password,
            "role": role.word,
            "generation": secrets.token_hex(8),
            "must_change": must_change,
            "made_at": self._now(),
        }
        return _info(await self._directory.put(ADMINS, name, body, 0), self._tokens())

    async def change(
        self, name: str, *, password: str | None = None, role: Role | None = None, must_change: bool | None = None
    ) -> AdminInfo:
        """What is not named stays; his logins end. ``KeyError``: there is none."""
        document = self._existing(name)
        changes: dict[str, Any] = {"generation": secrets.token_hex(8)}
        if role is not None:
            changes["role"] = role.word
        if must_change is not None:
            changes["must_change"] = must_change
        if password is not None:
            changes |= {"hash": await self._hashed(password), "random_hash": None}
        return await self._put(document, changes)

    async def unlock(self, name: str) -> AdminInfo:
        """Every node that sees this forgets wrong passwords at the name. ``KeyError``: there is none."""
        return await self._put(self._existing(name), {"unlocked_at": self._now()})

    async def delete(self, name: str) -> bool:
        """His logins end. False if there is none."""
        return await self._directory.delete(ADMINS, name)

    def _existing(self, name: str) -> Document:
        document = self._directory.get(ADMINS, name)
        if document is None:
            raise KeyError(name)
        return document

    async def _put(self, document: Document, changes: Mapping[str, Any]) -> AdminInfo:
        # At the version that was read: nobody's change is lost, and nobody who was removed comes back.
        put = self._directory.put(ADMINS, document.name, {**document.body, **changes}, document.version)
        return _info(await put, self._tokens())

    def _tokens(self) -> _Tokens:
        """Those that are not over."""
        bodies = [one.body for one in self._directory.of(TOKENS).values()]
        good = [one for one in bodies if one.get("expires_at") is None or one["expires_at"] > self._now()]
        return Counter((one.get("admin"), one.get("admin_made_at")) for one in good)

    async def _hashed(self, password: str) -> str:
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise ValueError(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
        secret = password.encode("utf-8", "surrogatepass")
        return await self._pool.run(lambda: argon.hash_password(secret))


def _admin(document: Document) -> Admin:
    body = document.body
    encoded, random_hash = body.get("hash"), body.get("random_hash")
    if encoded is not None:
        argon.check(str(encoded))
    return Admin(
        document.name,
        role_of(str(body["role"])),
        None if encoded is None else str(encoded),
        None if random_hash is None else str(random_hash),
        str(body["generation"]),
        bool(body.get("must_change")),
    )


def _info(document: Document, tokens: _Tokens) -> AdminInfo:
    body = document.body
    return AdminInfo(
        name=document.name,
        role=str(body.get("role")),
        must_change=bool(body.get("must_change")),
        made_at=float(body.get("made_at", 0.0)),
        version=document.version,
        tokens=tokens[document.name, body.get("made_at")],
    )
