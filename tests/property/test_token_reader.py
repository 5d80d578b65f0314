"""No token is an error of ours: whatever it holds, and whoever has signed it, it is a good one or a wrong one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.auth import token_keys, tokens
from iot_mqtt.auth.settings import JwtSettings
from iot_mqtt.auth.tokens import BadToken, Claims

NOW = 1_800_000_000.0
SECRET = "s" * 32
KEYS = token_keys.secret_key(SECRET, "secret")
SETTINGS = (
    JwtSettings(),
    JwtSettings(algorithms=("HS256",), issuer="i", audience="a", rules_claim="acl"),
    JwtSettings(require_expiry=False, groups_claim="", user_claim="name"),
)

#: Halves of characters, controls, and names that mean something.
TEXTS = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["HS256", "RS256", "none", "i", "a", "ann", "\ud800", "\0"]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), 2**63, NOW + 60, NOW - 60])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def objects(*names: str) -> st.SearchStrategy[bytes]:
    """JSON objects that have some of these names, and perhaps twice."""
    pairs = st.lists(st.tuples(st.sampled_from(names) | TEXTS, VALUES), max_size=6)
    return pairs.map(
        lambda those: ("{" + ",".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in those) + "}").encode()
    )


HEADERS = st.one_of(
    objects("alg", "kid", "typ", "crit", "b64", "zip", "jwk"),
    st.just(b'{"alg":"HS256"}'),
    st.binary(max_size=40).map(lambda rest: b'{"' + rest),
    st.integers(1, 6000).map(lambda depth: b'{"alg":"HS256","x":' + b"[" * depth + b"]" * depth + b"}"),
)
PAYLOADS = st.one_of(
    objects("exp", "nbf", "iss", "aud", "sub", "name", "groups", "acl"),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40),
    st.integers(1, 6000).map(lambda depth: b"[" * depth),
)


def token_of(header: bytes, payload: bytes, secret: bytes) -> bytes:
    message = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    signature = hmac.digest(secret, message, hashlib.sha256)
    return message + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")


def read(token: bytes, settings: JwtSettings) -> Claims | None:
    try:
        return tokens.read(token, KEYS, settings, NOW)
    except BadToken:
        return None


@given(HEADERS, PAYLOADS, st.sampled_from(SETTINGS))
def test_a_token_is_good_or_wrong(header: bytes, payload: bytes, settings: JwtSettings) -> None:
    """And what a good one says is fit for rules, topics and the log."""
    claims = read(token_of(header, payload, SECRET.encode()), settings)
    if claims is not None:
        for text in (claims.user, *claims.groups, *claims.rules):
            assert text.isprintable()
            assert text.encode()
        assert claims.expires_at is None or claims.expires_at > NOW


@given(HEADERS, PAYLOADS, st.sampled_from(SETTINGS))
def test_a_token_that_others_have_signed_is_wrong(header: bytes, payload: bytes, settings: JwtSettings) -> None:
    """Whatever it says of itself."""
    assert read(token_of(header, payload, b"t" * 32), settings) is None


@given(st.binary(max_size=60) | st.integers(1, 80_000).map(lambda size: b"eyJ" + b"A" * size + b".e30."))
def test_bytes_that_are_no_token_are_wrong(data: bytes) -> None:
    """However many there are."""
    assert read(data, SETTINGS[0]) is None


@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_the_claims_of_a_good_token_are_what_it_says(more: dict[str, Any]) -> None:
    """Beside whatever else stands in it."""
    payload = json.dumps({**more, "sub": "ann", "exp": NOW + 60, "nbf": NOW, "groups": ["g"]}).encode()
    assert read(token_of(b'{"alg":"HS256"}', payload, SECRET.encode()), SETTINGS[0]) == Claims(
        "ann", frozenset({"g"}), (), NOW + 60 + SETTINGS[0].leeway
    )
