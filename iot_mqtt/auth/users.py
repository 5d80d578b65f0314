"""The file of users: ``name:$argon2id$...`` per line, blank lines and lines that begin with ``#`` left out.

A ``!`` before the hash disables the user: nobody is let in by that name, and whoever is in is disconnected.
"""

from __future__ import annotations

import hashlib
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from iot_mqtt.auth import argon
from iot_mqtt.auth.files import FileError

#: For as long as the process lives, so that a name's decoy stays what it was when the file is read again.
_KEY = secrets.token_bytes(16)

#: Stands before the hash of a user who is disabled.
DISABLED = "!"


class Entry(NamedTuple):
    """One user's line."""

    number: int
    name: str
    hash: str
    disabled: bool


class Users:
    """Names and their hashes, as read. A decoy stands for the hash of every name that is not there.

    Hashes of one file may differ in cost, by when they were made. Names that are not there have the costs of those that
    are, in the same proportions, and each of them always the same: the time of an answer does not tell who exists.
    """

    __slots__ = ("_decoys", "_disabled", "_hashes", "_shares")

    def __init__(self, hashes: dict[str, str], disabled: frozenset[str] = frozenset()) -> None:
        self._hashes = hashes
        self._disabled = disabled
        costs = sorted(Counter(map(argon.cost, hashes.values())).items())
        self._decoys = [argon.decoy(cost) for cost, _ in costs] or [argon.decoy()]
        #: Where in 0…1 each decoy's part ends.
        self._shares = [ends / len(hashes) for ends in accumulate(count for _, count in costs)] or [1.0]

    def __contains__(self, name: str) -> bool:
        """Whether there is such a user who may come in."""
        return name in self._hashes and name not in self._disabled

    def is_disabled(self, name: str) -> bool:
        """Whether nobody is let in by this name, whoever vouches."""
        return name in self._disabled

    def gone_in(self, later: Users) -> frozenset[str]:
        """Users who may come in by this file and may not by a later one."""
        return frozenset(name for name in self._hashes if name in self and name not in later)

    def __len__(self) -> int:
        return len(self._hashes)

    def hash_of(self, name: str) -> str:
        """The hash to verify a password against, whether or not there is such a user."""
        known = self._hashes.get(name)
        return self._decoy(name) if known is None else known

    def _decoy(self, name: str) -> str:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=6).digest()
        return self._decoys[min(bisect_right(self._shares, int.from_bytes(digest) / 2**48), len(self._decoys) - 1)]


def parse_users(text: str, path: str) -> Users:
    """Read a file of users; ``FileError`` names the first line that is wrong."""
    hashes: dict[str, str] = {}
    disabled: set[str] = set()
    for entry in entries(text, path):
        if entry.name in hashes:
            raise FileError(path, entry.number, f"user {entry.name!r} is there a second time")
        hashes[entry.name] = entry.hash
        if entry.disabled:
            disabled.add(entry.name)
    return Users(hashes, frozenset(disabled))


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
        encoded = encoded.removeprefix(DISABLED)
        try:
            check_name(name)
            argon.check(encoded)
        except ValueError as error:
            # The line is not quoted: it may hold a password in the clear.
            raise FileError(path, number, f"user {name!r}: {error}") from None
        yield Entry(number, name, encoded, disabled)


def check_name(name: str) -> None:
    """Raise ``ValueError`` unless the file can hold this name."""
    if not name or name != name.strip():
        raise ValueError("a name is not empty and has no space around it")
    if name.startswith("#") or ":" in name or not name.isprintable():
        raise ValueError("a name has no ':' in it, no '#' before it and only printable characters")
