"""argon2id, the one way passwords are kept here; the only module that knows the library.

Every call but ``decoy`` and ``check`` costs tens of milliseconds and some megabytes *by intent*: inside
``serve`` it is made by ``hashing`` on a thread.
"""

from __future__ import annotations

import base64
import re
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError, VerifyMismatchError

from iot_mqtt.errors import Unavailable

#: OWASP's first choice for argon2id: 19 MiB, two passes, one lane; about 20 ms on a core.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16)
_DEFAULT_COST = "m=19456,t=2,p=1"
_ENCODED = re.compile(
    r"\$argon2id\$v=19\$(?P<cost>m=(?P<memory>\d{1,9}),t=(?P<time>\d{1,9}),p=(?P<lanes>\d{1,9}))"
    r"\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{16,}"
)
#: A login that costs more than this is a mistake in the file, and would be a weapon: 1 GiB, 64 passes, 16 lanes.
_DEAREST = {"memory": 1024 * 1024, "time": 64, "lanes": 16}


def hash_password(password: bytes) -> str:
    """The encoded hash of a password, with a new salt."""
    return _HASHER.hash(password)


def verify_password(encoded: str, password: bytes) -> bool:
    """True if this is the password behind a hash that ``check`` let through."""
    try:
        return _HASHER.verify(encoded, password)
    except VerifyMismatchError:
        return False
    except VerificationError as error:  # no memory for it: our trouble, not a wrong password
        raise Unavailable("a password cannot be verified now") from error


def check(encoded: str) -> None:
    """Raise ``ValueError`` unless this is a usable argon2id hash."""
    match = _ENCODED.fullmatch(encoded)
    if match is None:
        raise ValueError("is no argon2id hash ($argon2id$v=19$m=...,t=...,p=...$salt$hash)")
    for what, most in _DEAREST.items():
        if int(match[what]) > most:
            raise ValueError(f"asks for more {what} than a login may cost ({match[what]}, at most {most})")


def cost(encoded: str) -> str:
    """What verifying a hash costs, in the hash's own words."""
    match = _ENCODED.fullmatch(encoded)
    assert match is not None
    return match["cost"]


def decoy(cost: str = _DEFAULT_COST) -> str:
    """A hash that no password fits, as dear to verify as others of that cost."""
    salt, digest = (base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    return f"$argon2id$v=19${cost}${salt}${digest}"
