"""The file of users: ``name:$argon2id$...`` per line, blank lines and lines that begin with ``#`` left out.

Hashes of bcrypt and of mosquitto_passwd (``kinds``) are read as they are. Behind the hash there may be
``:scram-sha-256$...``, the user's keys for that method (``scram_keys``).

A ``!`` before the hash disables the user: nobody is let in by that name, and whoever is in is disconnected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from iot_mqtt.auth import kinds, scram_keys
from iot_mqtt.auth.accounts import Account, Decoys
from iot_mqtt.auth.files import FileError, WatchedFile
from iot_mqtt.auth.kinds import Cost
from iot_mqtt.auth.scram_keys import ScramKeys

#: Stands before the hash of a user who is disabled.
DISABLED = "!"
#: Stands before a user's keys for SCRAM, behind the hash.
SCRAM = ":scram-sha-256$"


class Entry(NamedTuple):
    """One user's line."""

    number: int
    name: str
    hash: str
    disabled: bool
    scram: ScramKeys | None = None


class Users:
    """Names and their hashes, as read. A decoy stands for the hash of every name that is not there."""

    __slots__ = ("_accounts", "_decoys", "costs", "iterations")

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        #: How many hashes have which cost.
        self.costs: Mapping[Cost, int] = Counter(kinds.cost(one.hash) for one in accounts.values() if one.hash)
        self._decoys = Decoys(self.costs)
        #: The same of keys for SCRAM, by their iterations.
        self.iterations: Mapping[int, int] = Counter(one.scram.iterations for one in accounts.values() if one.scram)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a user who may come in."""
        return name in self._accounts and self._accounts[name].enabled

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, name: str) -> Account | None:
        """The user, disabled or not."""
        return self._accounts.get(name)

    def is_disabled(self, name: str) -> bool:
        """Whether nobody is let in by this name, whoever vouches."""
        return name in self._accounts and not self._accounts[name].enabled

    def gone_in(self, later: Users) -> frozenset[str]:
        """Users who may come in by this file and may not by a later one."""
        return frozenset(name for name in self._accounts if name in self and name not in later)

    def hash_of(self, name: str) -> str:
        """The hash to verify a password against, whether or not there is such a user."""
        known = self._accounts.get(name)
        return self._decoys.of(name) if known is None or known.hash is None else known.hash


class FileStore:
    """The file of users as one of several ``Store``s."""

    def __init__(self, file: WatchedFile[Users]) -> None:
        self._file = file

    @property
    def version(self) -> object:
        return self._file.content

    def find(self, name: str) -> Account | None:
        return self._file.content.find(name)

    def costs(self) -> Mapping[Cost, int]:
        return self._file.content.costs

    def iterations(self) -> Mapping[int, int]:
        return self._file.content.iterations


def parse_users(text: str, path: str) -> Users:
    """Read a file of users; ``FileError`` names the first line that is wrong."""
    accounts: dict[str, Account] = {}
    for entry in entries(text, path):
        if entry.name in accounts:
            raise FileError(path, entry.number, f"user {entry.name!r} is there a second time")
        accounts[entry.name] = Account(entry.name, entry.hash, not entry.disabled, scram=entry.scram)
    return Users(accounts)


def entries(text: str, path: str) -> Iterator[Entry]:
    """Each user, checked one by one."""
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, encoded = line.partition(":")
        if not colon:
            raise FileError(path, number, "is not of the form name:hash")
        disabled = encoded.startswith(DISABLED)
        encoded, scram, keys = encoded.removeprefix(DISABLED).partition(SCRAM)
        try:
            check_name(name)
            kinds.check(encoded)
            known = scram_keys.parse(keys) if scram else None
        except ValueError as error:
            # The line is not quoted: it may hold a password in the clear.
            raise FileError(path, number, f"user {name!r}: {error}") from None
        yield Entry(number, name, encoded, disabled, known)


def check_new_name(name: str) -> None:
    """Raise ``ValueError`` for a name that nobody is given any more, either."""
    check_name(name)
    if name in (".", ".."):
        raise ValueError("a name is not . or .., which browsers take out of an address")


def check_name(name: str) -> None:
    """Raise ``ValueError`` unless the file can hold this name."""
    if not name or name != name.strip():
        raise ValueError("a name is not empty and has no space around it")
    if name.startswith("#") or ":" in name or not name.isprintable():
        raise ValueError("a name has no ':' in it, no '#' before it and only printable characters")
