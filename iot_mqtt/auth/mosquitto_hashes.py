"""What mosquitto_passwd writes: ``$7$iterations$salt$hash`` (PBKDF2 with SHA-512) and, before 2.0, ``$6$salt$hash``.

Salt and hash are base64. Made elsewhere, verified here, so that a file of mosquitto's works as it is.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

from iot_mqtt.auth.hash_parts import LONGEST_SALT, check_iterations, salt_and_digest

_PBKDF2 = re.compile(r"\$7\$(?P<iterations>[1-9]\d{0,8})\$(?P<salt>[A-Za-z0-9+/=]+)\$(?P<digest>[A-Za-z0-9+/=]+)")
_SHA512 = re.compile(r"\$6\$(?P<salt>[A-Za-z0-9+/=]+)\$(?P<digest>[A-Za-z0-9+/=]+)")
_DIGEST_SIZE = 64
#: The cost of a hash without iterations.
_PLAIN = "0"


def verify(encoded: str, password: bytes) -> bool:
    """True if this is the password behind a hash that ``check`` let through."""
    match = _match(encoded)
    if b"\0" in password:
        return False  # no hash is of such a one, and HMAC does not tell zeros at the end
    salt, digest = salt_and_digest(match)
    if match.re is _PBKDF2:
        made = hashlib.pbkdf2_hmac("sha512", password, salt, int(match["iterations"]))
    else:
        made = hashlib.sha512(password + salt).digest()
    return hmac.compare_digest(made, digest)


def check(encoded: str) -> None:
    """Raise ``ValueError`` unless this is a usable hash."""
    match = _match(encoded)
    salt, digest = salt_and_digest(match)
    if len(digest) != _DIGEST_SIZE or not 1 <= len(salt) <= LONGEST_SALT:
        raise ValueError("is no hash of mosquitto_passwd ($7$iterations$salt$hash, 64 bytes of hash)")
    if match.re is _PBKDF2:
        check_iterations(int(match["iterations"]))


def cost(encoded: str) -> str:
    """What verifying a hash costs: its iterations."""
    match = _match(encoded)
    return match["iterations"] if match.re is _PBKDF2 else _PLAIN


def decoy(cost: str) -> str:
    """A hash that no password fits, as dear to verify as others of that cost."""
    salt, digest = (base64.b64encode(secrets.token_bytes(size)).decode() for size in (12, _DIGEST_SIZE))
    return f"$6${salt}${digest}" if cost == _PLAIN else f"$7${cost}${salt}${digest}"


def _match(encoded: str) -> re.Match[str]:
    match = (_PBKDF2 if encoded.startswith("$7$") else _SHA512).fullmatch(encoded)
    if match is None:
        raise ValueError("is no hash of mosquitto_passwd ($7$iterations$salt$hash or $6$salt$hash)")
    return match
