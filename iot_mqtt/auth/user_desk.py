"""What an operator does with users of the grid: look, add, change, delete. The pool's threads hash passwords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any

from iot_mqtt.auth import argon, kinds, scram_keys
from iot_mqtt.auth.accounts import Account
from iot_mqtt.auth.generations import Generations
from iot_mqtt.auth.grid_users import account_of, body_of, names
from iot_mqtt.auth.hashing import HashPool
from iot_mqtt.auth.users import check_name, check_new_name
from iot_mqtt.ports.directory import USERS, Conflict, Directory, Document
from iot_mqtt.ports.limits import read_limits, written_limits

#: Bytes of a password; MQTT has room for as many.
LONGEST_PASSWORD = 65_535


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user as operators see him: never the hash."""

    name: str
    version: int
    enabled: bool
    #: Kind of the password's hash; None: no password fits.
    password: str | None
    #: Whether the user may log in by SCRAM.
    scram: bool
    groups: tuple[str, ...]
    client_ids: tuple[str, ...]
    limits: dict[str, Any]
    #: Whether the chain of any listener asks for users of the grid.
    in_chain: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be different; None: as it was."""

    password: str | None = None
    #: A hash that was made elsewhere, in place of a password.
    hash: str | None = None
    #: With a new password: keys for SCRAM as well.
    scram: bool = False
    enabled: bool | None = None
    groups: list[str] | None = None
    client_ids: list[str] | None = None
    limits: Mapping[str, Any] | None = None
    #: The version that must be there; 0: none; None: any.
    version: int | None = None


class UserDesk:
    """Writes raise ``ValueError``, ``Conflict``, ``TooMuch`` and ``Unavailable``."""

    def __init__(self, directory: Directory, pool: HashPool, *, asked: bool) -> None:
        """``asked``: whether the chain of any listener asks for users of the grid."""
        self._directory = directory
        self._pool = pool
        self._asked = asked
        self._generations = Generations(directory)

    def page(self, after: str | None, limit: int, contains: str = "") -> list[UserInfo]:
        """By name. ``contains``: a part of it, whatever the case of its letters."""
        if not contains:
            return [self._info(one) for one in self._directory.page(USERS, after or "", limit)]
        part, known = contains.casefold(), self._directory.of(USERS)
        named = (name for name in known if name > (after or "") and part in name.casefold())
        return [self._info(known[name]) for name in nsmallest(limit, named)]

    def find(self, name: str) -> UserInfo | None:
        found = self._directory.get(USERS, name)
        return None if found is None else self._info(found)

    async def put(self, name: str, changes: Changes, *, new: bool) -> UserInfo:
        """Add a user, or change one that is there. What the user has and the changes do not speak of stays."""
        (check_new_name if new else check_name)(name)
        if new:
            # Of a user who was deleted elsewhere a moment ago this node is to know.
            await self._directory.refresh()
        document = self._directory.get(USERS, name)
        if new and document is not None:
            raise Conflict(f"there is a user {name!r} already")
        if document is None and not new:
            raise KeyError(name)
        account = Account(name) if document is None else _account(document)
        account = _changed(account, changes)
        if changes.password is not None:
            account = await self._with_password(account, changes.password, scram=changes.scram)
        version = changes.version
        if version is None:
            # What was read above is what is replaced: nobody's change is lost.
            version = 0 if document is None else document.version
        return self._info(await self._directory.put(USERS, name, body_of(account), version))

    async def delete(self, name: str) -> bool:
        """False if there is no such user. What is kept for him is not the next one's of his name."""
        await self._directory.refresh()
        if self._directory.get(USERS, name) is None:
            return False
        await self._generations.end(name)
        return await self._directory.delete(USERS, name)

    async def _with_password(self, account: Account, password: str, *, scram: bool) -> Account:
        secret = password.encode()
        if not 1 <= len(secret) <= LONGEST_PASSWORD:
            raise ValueError(f"a password has 1 to {LONGEST_PASSWORD} bytes")

        def make() -> tuple[str, scram_keys.ScramKeys | None]:
            return argon.hash_password(secret), scram_keys.derive(secret) if scram else None

        encoded, keys = await self._pool.run(make)
        return replace(account, hash=encoded, scram=keys)

    def _info(self, document: Document) -> UserInfo:
        try:
            account = account_of(document.name, document.body)
        except ValueError:
            account = Account(document.name, enabled=False)
        return UserInfo(
            name=account.name,
            version=document.version,
            enabled=account.enabled,
            password=None if account.hash is None else kinds.kind_of(account.hash).name,
            scram=account.scram is not None,
            groups=tuple(sorted(account.groups)),
            client_ids=account.client_ids,
            limits=dict(account.limits),
            in_chain=self._asked,
        )


def _changed(account: Account, changes: Changes) -> Account:
    if changes.enabled is not None:
        account = replace(account, enabled=changes.enabled)
    if changes.groups is not None:
        account = replace(account, groups=frozenset(names(changes.groups, "groups")))
    if changes.client_ids is not None:
        account = replace(account, client_ids=tuple(names(changes.client_ids, "client_ids")))
    if changes.limits is not None:
        account = replace(account, limits=written_limits(read_limits(changes.limits)))
    if changes.hash is not None:
        if changes.password is not None:
            raise ValueError("one of password and hash")
        kinds.check(changes.hash)
        account = replace(account, hash=changes.hash, scram=None)
    return account


def _account(document: Document) -> Account:
    try:
        return account_of(document.name, document.body)
    except ValueError as error:
        raise ValueError(f"what is kept of the user cannot be read ({error}); delete it first") from error
