"""JSON web tokens: a signature by a key that fits, and claims that hold now.

::

    header.payload.signature     alg: one that is allowed, and that the key is for    kid: which of the keys
                                 exp, nbf: by our clock    iss, aud: ours    then: user, groups, rules
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import jwt

from iot_mqtt.auth.settings import JwtSettings
from iot_mqtt.auth.token_keys import HMAC, RSA, TokenKey

#: Bytes of a token.
LONGEST: Final = 16 * 1024
#: Keys that are tried for a token that names none.
MOST_TRIED: Final = 4
MOST_NAMES: Final = 100
LONGEST_NAME: Final = 256
MOST_RULES: Final = 1000
_SHAPE = re.compile(rb"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_ALGORITHMS: Final = HMAC | RSA | {"ES256", "ES384", "ES512"}
_VERIFIER = jwt.PyJWS()
#: What libraries raise about a token that somebody has made up.
_UNREADABLE: Final = (jwt.PyJWTError, ValueError, TypeError, RecursionError)


class Claims(NamedTuple):
    """What a good token says."""

    user: str
    groups: frozenset[str]
    rules: tuple[str, ...]
    #: Seconds since 1970 at which it is accepted no more, ``leeway`` included; None: it does not end.
    expires_at: float | None


class BadToken(Exception):
    """A token that proves nothing, and why. The words hold nothing of it."""


class UnknownKey(BadToken):
    """No key that there is has the name that the token asks for."""


def looks_like(password: bytes | None) -> bool:
    """Whether a password is meant to be a token."""
    return password is not None and _SHAPE.fullmatch(password) is not None


def read(token: bytes, keys: Iterable[TokenKey], settings: JwtSettings, now: float) -> Claims:
    """The claims of a good token; ``BadToken`` for every other."""
    if len(token) > LONGEST:
        raise BadToken("the token is too long")
    try:
        header = jwt.get_unverified_header(token)
    except _UNREADABLE as error:
        raise BadToken("the token has no header that can be read") from error
    payload = _verified(token, header, keys, frozenset(settings.algorithms) or _ALGORITHMS)
    return _claims(payload, settings, now)


def _verified(token: bytes, header: Mapping[str, Any], keys: Iterable[TokenKey], allowed: frozenset[str]) -> bytes:
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in allowed:
        raise BadToken("the token's algorithm is not allowed")
    if "crit" in header or header.get("b64", True) is not True:
        raise BadToken("the token's header asks for something that is not understood")
    named = [key for key in keys if kid is None or key.kid is None or key.kid == kid]
    if not named:
        raise UnknownKey("the token's key is not known")
    for key in [key for key in named if algorithm in key.algorithms][:MOST_TRIED]:
        try:
            return bytes(_VERIFIER.decode_complete(token, key.key, [algorithm])["payload"])
        except _UNREADABLE:
            continue
    raise BadToken("the token's signature is by no key that is known for its algorithm")


def _claims(payload: bytes, settings: JwtSettings, now: float) -> Claims:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BadToken("the token holds no claims") from error
    if not isinstance(claims, dict):
        raise BadToken("the token holds no claims")
    expires_at, starts_at = _time(claims, "exp"), _time(claims, "nbf")
    if expires_at is None and settings.require_expiry:
        raise BadToken("the token does not say when it ends (exp)")
    if expires_at is not None and expires_at + settings.leeway <= now:
        raise BadToken("the token has expired")
    if starts_at is not None and starts_at - settings.leeway > now:
        raise BadToken("the token is not valid yet")
    if settings.issuer and claims.get("iss") != settings.issuer:
        raise BadToken("the token is of another issuer")
    audience = claims.get("aud")
    if settings.audience and settings.audience not in (audience if isinstance(audience, list) else [audience]):
        raise BadToken("the token is for another audience")
    return Claims(
        _user(claims.get(settings.user_claim)),
        frozenset(_texts(claims.get(settings.groups_claim), "groups", MOST_NAMES))
        if settings.groups_claim
        else frozenset(),
        tuple(_texts(claims.get(settings.rules_claim), "rules", MOST_RULES)) if settings.rules_claim else (),
        None if expires_at is None else expires_at + settings.leeway,
    )


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # Integers may be larger than any float, and are compared all the same; NaN is not smaller than anything.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise BadToken(f"the token's {name} is no time")
    return float(value)


def _user(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME or not value.isprintable():
        raise BadToken("the token names no user")
    return value


def _texts(value: object, what: str, most: int) -> list[str]:
    """A list of texts, or, as scopes are written, one text with spaces."""
    if value is None:
        return []
    listed = value.split() if isinstance(value, str) and what == "groups" else value
    if not isinstance(listed, list) or len(listed) > most or not all(isinstance(one, str) for one in listed):
        raise BadToken(f"the token's {what} are no list of texts")
    if any(not 1 <= len(one) <= 4 * LONGEST_NAME or not one.isprintable() for one in listed):
        raise BadToken(f"the token's {what} hold something that is no name")
    return listed
