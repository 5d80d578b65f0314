"""bcrypt, as Apache's htpasswd and many user databases write it; the only module that knows the library.

Made elsewhere, verified here: ``iot-mqtt passwd`` makes argon2id. Verifying costs time by intent: see ``hashing``.
"""

from __future__ import annotations

import re
import secrets

import bcrypt

_ENCODED = re.compile(r"\$2[aby]\$(?P<rounds>\d\d)\$[./A-Za-z0-9]{53}")
_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: 2 to the power of so many rounds; 14 takes a second.
_CHEAPEST, _DEAREST = 4, 16
#: bcrypt looks at no more of a password.
_LONGEST = 72


def verify(encoded: str, password: bytes) -> bool:
    """True if this is the password behind a hash that ``check`` let through."""
    if b"\0" in password:
        return False  # other makers cut there, and would let in who knows the part before
    return bcrypt.checkpw(password[:_LONGEST], encoded.encode())


def check(encoded: str) -> None:
    """Raise ``ValueError`` unless this is a usable bcrypt hash."""
    match = _ENCODED.fullmatch(encoded)
    if match is None:
        raise ValueError("is no bcrypt hash ($2b$12$ and 53 characters)")
    if not _CHEAPEST <= int(match["rounds"]) <= _DEAREST:
        raise ValueError(f"asks for 2^{match['rounds']} rounds; a login may cost 2^{_CHEAPEST} to 2^{_DEAREST}")


def cost(encoded: str) -> str:
    """What verifying a hash costs, in the hash's own words."""
    return encoded[4:6]


def decoy(cost: str) -> str:
    """A hash that no password fits, as dear to verify as others of that cost."""
    # The last characters of salt and digest hold fewer bits than six.
    salt = "".join(secrets.choice(_ALPHABET) for _ in range(21)) + secrets.choice(".Oeu")
    digest = "".join(secrets.choice(_ALPHABET) for _ in range(30)) + secrets.choice("./ABCDEF")
    return f"$2b${cost}${salt}{digest}"
