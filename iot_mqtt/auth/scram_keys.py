"""What is kept of a password for SCRAM-SHA-256 (RFC 5802, 7677): keys from which it cannot be read.

    salted = PBKDF2(password, salt, iterations)       client key = HMAC(salted, "Client Key")
    stored key = SHA-256(client key)                  server key = HMAC(salted, "Server Key")

In text: ``iterations$salt$stored key$server key``, in base64. These keys cost a guesser who has them less than an
argon2id hash does, so they are made only where somebody asks for them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from typing import Final, NamedTuple

#: Each costs the client a hash at every login; RFC 7677 asks for 4096 at least.
ITERATIONS: Final = 10_000
LEAST, MOST = 4096, 1_000_000
SALT_SIZE: Final = 16
_KEY_SIZE = 32


class ScramKeys(NamedTuple):
    """Of one user."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        parts = (base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key))
        return "$".join((str(self.iterations), *parts))

    def __repr__(self) -> str:
        return f"<ScramKeys, {self.iterations} iterations>"


def derive(password: bytes, salt: bytes | None = None, iterations: int = ITERATIONS) -> ScramKeys:
    """The keys of a password. It takes some milliseconds: for a thread. ``ValueError`` if it is no text."""
    salt = secrets.token_bytes(SALT_SIZE) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password.decode()).encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return ScramKeys(
        iterations, salt, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256")
    )


def parse(text: str) -> ScramKeys:
    """Read what ``str`` wrote; ``ValueError`` if it is something else."""
    iterations, *parts = text.split("$")
    if len(parts) != 3 or not iterations.isascii() or not iterations.isdigit() or len(iterations) > 9:
        raise ValueError("are no keys for SCRAM (iterations$salt$stored key$server key)")
    if not LEAST <= int(iterations) <= MOST:
        raise ValueError(f"have {iterations} iterations; there are {LEAST} to {MOST}")
    try:
        salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in parts)
    except binascii.Error:
        raise ValueError("hold something that is no base64") from None
    if not 8 <= len(salt) <= 64 or len(stored_key) != _KEY_SIZE or len(server_key) != _KEY_SIZE:
        raise ValueError("have a salt or a key of the wrong length")
    return ScramKeys(int(iterations), salt, stored_key, server_key)


def prepared(text: str) -> str:
    """SASLprep (RFC 4013) of a stored string: the same password, however it was typed."""
    mapped = "".join(
        " " if stringprep.in_table_c12(sign) else sign for sign in text if not stringprep.in_table_b1(sign)
    )
    made = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(forbidden(sign) for sign in made for forbidden in _FORBIDDEN):
        raise ValueError("has a character that a password must not have")
    right_to_left = [stringprep.in_table_d1(sign) for sign in made]
    if any(right_to_left) and (
        any(stringprep.in_table_d2(sign) for sign in made) or not (right_to_left[0] and right_to_left[-1])
    ):
        raise ValueError("mixes directions of writing")
    return made


_FORBIDDEN: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)
