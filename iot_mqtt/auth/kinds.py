"""The kinds of hashes that a password can be verified against, by what they begin with.

New ones are argon2id; the others are read, so that users of another broker need no new passwords.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from iot_mqtt.auth import argon, bcrypt_hashes, salted_hashes


class Kind(NamedTuple):
    """How one kind is checked, weighed, verified, and imitated for names that are not there."""

    name: str
    check: Callable[[str], None]
    cost: Callable[[str], str]
    verify: Callable[[str, bytes], bool]
    decoy: Callable[[str], str]


_ARGON = Kind("argon2id", argon.check, argon.cost, argon.verify_password, argon.decoy)
_BCRYPT = Kind("bcrypt", *(getattr(bcrypt_hashes, name) for name in ("check", "cost", "verify", "decoy")))
_SALTED = Kind("salted", *(getattr(salted_hashes, name) for name in ("check", "cost", "verify", "decoy")))
_KINDS: Final = {"$argon2id$": _ARGON, "$2": _BCRYPT, "$7$": _SALTED, "$6$": _SALTED, "$emqx$": _SALTED}

#: Kind and cost of a hash: two of the same take as long.
Cost = tuple[str, str]


def kind_of(encoded: str) -> Kind:
    """By its beginning; what nobody knows is left to argon2id to refuse."""
    return next((kind for start, kind in _KINDS.items() if encoded.startswith(start)), _ARGON)


def check(encoded: str) -> None:
    """Raise ``ValueError`` unless a password can be verified against this."""
    kind_of(encoded).check(encoded)


def verify(encoded: str, password: bytes) -> bool:
    """True if this is the password behind a hash that ``check`` let through. It may take a second: for a thread."""
    return kind_of(encoded).verify(encoded, password)


def cost(encoded: str) -> Cost:
    """What verifying a hash costs."""
    kind = kind_of(encoded)
    return kind.name, kind.cost(encoded)


def decoy(cost: Cost | None = None) -> str:
    """A hash that no password fits, as dear to verify as others of that cost; without one, as new ones."""
    if cost is None:
        return argon.decoy()
    return next(kind for kind in _KINDS.values() if kind.name == cost[0]).decoy(cost[1])
