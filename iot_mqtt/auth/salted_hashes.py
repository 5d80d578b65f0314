"""What EMQX's built-in database keeps, in one text: how, salt and hash; salt and hash are base64.

::

    $emqx$sha256,prefix$salt$hash          SHA-256 (SHA-512) of salt and password; suffix: of password and salt
    $emqx$pbkdf2-sha256,4096$salt$hash     PBKDF2 with so many iterations, and HMAC of SHA-1, -256, -384 or -512

Made elsewhere, verified here, so that nobody needs a new password; ``iot-mqtt import emqx`` writes them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

from iot_mqtt.auth.hash_parts import LONGEST_SALT, check_iterations, salt_and_digest

_TEXT = re.compile(
    r"\$emqx\$(?P<cost>(?:sha256|sha512),(?:prefix|suffix)|pbkdf2-(?:sha1|sha256|sha384|sha512),[1-9]\d{0,8})"
    r"\$(?P<salt>[A-Za-z0-9+/=]+)\$(?P<digest>[A-Za-z0-9+/=]+)"
)
#: Of a derived key; fewer bytes would let guesses in.
_SIZES = range(16, 65)


def encode(cost: str, salt: bytes, digest: bytes) -> str:
    """The text of a hash; ``ValueError`` if a password cannot be verified against it."""
    made = f"$emqx${cost}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
    check(made)
    return made


def verify(encoded: str, password: bytes) -> bool:
    """True if this is the password behind a hash that ``check`` let through."""
    match = _match(encoded)
    if b"\0" in password:
        return False  # HMAC does not tell zeros at the end
    salt, digest = salt_and_digest(match)
    name, _, how = match["cost"].partition(",")
    if name.startswith("pbkdf2-"):
        made = hashlib.pbkdf2_hmac(name.removeprefix("pbkdf2-"), password, salt, int(how), len(digest))
    else:
        made = hashlib.new(name, salt + password if how == "prefix" else password + salt).digest()
    return hmac.compare_digest(made, digest)


def check(encoded: str) -> None:
    """Raise ``ValueError`` unless this is a usable hash."""
    match = _match(encoded)
    salt, digest = salt_and_digest(match)
    name, _, how = match["cost"].partition(",")
    sizes = _SIZES if how.isdigit() else (hashlib.new(name).digest_size,)
    if len(digest) not in sizes or not 1 <= len(salt) <= LONGEST_SALT:
        raise ValueError(f"is no hash of EMQX: {name} has another size")
    if how.isdigit():
        check_iterations(int(how))


def cost(encoded: str) -> str:
    """What verifying a hash costs: how it is made."""
    return _match(encoded)["cost"]


def decoy(cost: str) -> str:
    """A hash that no password fits, as dear to verify as others of that cost."""
    name = cost.partition(",")[0].removeprefix("pbkdf2-")
    return encode(cost, secrets.token_bytes(16), secrets.token_bytes(hashlib.new(name).digest_size))


def _match(encoded: str) -> re.Match[str]:
    match = _TEXT.fullmatch(encoded)
    if match is None:
        raise ValueError("is no hash of EMQX ($emqx$how$salt$hash)")
    return match
