"""Salted hashes that other brokers keep, in one text: how, salt and hash; salt and hash are base64.

::

    $emqx$sha256,prefix$salt$hash          SHA-256 (SHA-512) of salt and password; suffix: of password and salt
    $emqx$pbkdf2-sha256,4096$salt$hash     PBKDF2 with so many iterations, and HMAC of SHA-1, -256, -384 or -512
    $7$iterations$salt$hash                mosquitto_passwd: PBKDF2 with SHA-512
    $6$salt$hash                           mosquitto_passwd before 2.0: SHA-512 of password and salt

Made elsewhere, verified here, so that nobody needs a new password, and a file of mosquitto's works as it is;
``iot-mqtt import emqx`` writes those of EMQX.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

_REST = r"\$(?P<salt>[A-Za-z0-9+/=]+)\$(?P<digest>[A-Za-z0-9+/=]+)"
_MOSQUITTO = re.compile(r"\$(?:7\$(?P<iterations>[1-9]\d{0,8})|6)" + _REST)
_EMQX = re.compile(
    r"\$emqx\$(?P<how>(?:sha256|sha512),(?:prefix|suffix)|pbkdf2-(?:sha1|sha256|sha384|sha512),[1-9]\d{0,8})" + _REST
)
#: Of a derived key that EMQX made; fewer bytes would let guesses in. Those of mosquitto_passwd are whole.
_SIZES: Final = range(16, 65)
_LONGEST_SALT: Final = 128
#: A second and a half.
_DEAREST: Final = 2_000_000


def encode(cost: str, salt: bytes, digest: bytes) -> str:
    """The text of a hash; ``ValueError`` if a password cannot be verified against it."""
    made = f"$emqx${cost}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
    check(made)
    return made


def verify(encoded: str, password: bytes) -> bool:
    """True if this is the password behind a hash that ``check`` let through."""
    (name, how), salt, digest = _read(encoded)
    if b"\0" in password:
        return False  # no hash is of such a one, and HMAC does not tell zeros at the end
    if name.startswith("pbkdf2-"):
        made = hashlib.pbkdf2_hmac(name.removeprefix("pbkdf2-"), password, salt, int(how), len(digest))
    else:
        made = hashlib.new(name, salt + password if how == "prefix" else password + salt).digest()
    return hmac.compare_digest(made, digest)


def check(encoded: str) -> None:
    """Raise ``ValueError`` unless this is a usable hash."""
    (name, how), salt, digest = _read(encoded)
    of_emqx = encoded.startswith("$emqx$")
    sizes = _SIZES if of_emqx and how.isdigit() else (_digest_size(name),)
    if len(digest) not in sizes or not 1 <= len(salt) <= _LONGEST_SALT:
        if of_emqx:
            raise ValueError(f"is no hash of EMQX: {name} has another size")
        raise ValueError("is no hash of mosquitto_passwd ($7$iterations$salt$hash, 64 bytes of hash)")
    if how.isdigit() and int(how) > _DEAREST:
        raise ValueError(f"asks for {how} iterations; a login may cost {_DEAREST}")


def cost(encoded: str) -> str:
    """What verifying a hash costs: how it is made."""
    return ",".join(_read(encoded)[0])


def decoy(cost: str) -> str:
    """A hash that no password fits, as dear to verify as others of that cost."""
    return encode(cost, secrets.token_bytes(16), secrets.token_bytes(_digest_size(cost.partition(",")[0])))


def _digest_size(name: str) -> int:
    return hashlib.new(name.removeprefix("pbkdf2-")).digest_size


def _read(encoded: str) -> tuple[tuple[str, str], bytes, bytes]:
    """How it is made, as EMQX would say it, salt and digest."""
    of_emqx = encoded.startswith("$emqx$")
    match = (_EMQX if of_emqx else _MOSQUITTO).fullmatch(encoded)
    if match is None:
        forms = (
            "EMQX ($emqx$how$salt$hash)" if of_emqx else "mosquitto_passwd ($7$iterations$salt$hash or $6$salt$hash)"
        )
        raise ValueError(f"is no hash of {forms}")
    if of_emqx:
        name, _, how = match["how"].partition(",")
    else:
        name, how = ("pbkdf2-sha512", match["iterations"]) if match["iterations"] else ("sha512", "suffix")
    try:
        salt, digest = (base64.b64decode(match[part], validate=True) for part in ("salt", "digest"))
    except binascii.Error:
        raise ValueError("has a salt or a hash that is no base64") from None
    return (name, how), salt, digest
