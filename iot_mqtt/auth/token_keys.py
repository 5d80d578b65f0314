"""Keys that tokens are verified with: each for its own algorithms, so that no token chooses how it is verified.

A shared secret verifies HS*, an RSA key RS*, a key on a curve the one ES of that curve; a JWK that names its algorithm,
only that one. This module and ``tokens`` are the only ones that know the libraries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from iot_mqtt.auth.files import FileError

HMAC: Final = frozenset({"HS256", "HS384", "HS512"})
RSA: Final = frozenset({"RS256", "RS384", "RS512"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
#: A shorter secret can be guessed from one token.
SHORTEST_SECRET: Final = 32
SHORTEST_RSA: Final = 2048
MOST_KEYS: Final = 100


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One key, with the algorithms that it is for."""

    algorithms: frozenset[str]
    key: Any = field(repr=False)
    #: Its name in a JWKS; None: it has none and fits tokens that name any.
    kid: str | None = None


def secret_key(text: str, path: str) -> tuple[TokenKey, ...]:
    """A file that holds a shared secret, and perhaps the end of a line."""
    secret = text.rstrip("\r\n").encode()
    if len(secret) < SHORTEST_SECRET:
        raise FileError(path, None, f"a secret has at least {SHORTEST_SECRET} bytes; this one has {len(secret)}")
    if b"-----BEGIN" in secret:
        raise FileError(path, None, "holds a key in PEM; auth.jwt.public_key_file takes those")
    return (TokenKey(HMAC, secret),)


def public_key(text: str, path: str) -> tuple[TokenKey, ...]:
    """A file that holds a public key or a certificate, in PEM."""
    try:
        if "-----BEGIN CERTIFICATE-----" in text:
            key: Any = load_pem_x509_certificate(text.encode()).public_key()
        else:
            key = load_pem_public_key(text.encode())
        return (TokenKey(_algorithms(key), key),)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FileError(path, None, f"is no public key that can be used: {error}") from error


def key_set(text: str, path: str) -> tuple[TokenKey, ...]:
    """A file that holds a JWKS."""
    try:
        return tuple(keys_of(text))
    except ValueError as error:
        raise FileError(path, None, str(error)) from error


def keys_of(text: str | bytes, *, secrets: bool = True) -> Iterator[TokenKey]:
    """The keys of a JWKS that are for verifying; kinds that nobody knows are passed over. ``ValueError``: it is none.

    ``secrets``: take shared ones, too. What anybody can fetch has none.
    """
    try:
        entries = json.loads(text)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("is no JWKS: a JSON object with the list keys") from error
    if not isinstance(entries, list) or len(entries) > MOST_KEYS:
        raise ValueError(f"is no JWKS: keys must be a list of at most {MOST_KEYS}")
    for entry in entries:
        if isinstance(entry, dict) and _is_for_verifying(entry) and (secrets or entry.get("kty") != "oct"):
            found = _jwk(entry)
            if found is not None:
                yield found


def _is_for_verifying(entry: dict[str, Any]) -> bool:
    operations = entry.get("key_ops")
    return entry.get("use", "sig") == "sig" and (not isinstance(operations, list) or "verify" in operations)


def _jwk(entry: dict[str, Any]) -> TokenKey | None:
    kid, named = entry.get("kid"), entry.get("alg")
    if entry.get("kty") not in ("oct", "RSA", "EC"):
        return None
    try:
        if entry["kty"] == "oct":
            key: Any = jwt.algorithms.HMACAlgorithm.from_jwk(entry)
            if len(key) < SHORTEST_SECRET:
                raise ValueError(f"a secret has at least {SHORTEST_SECRET} bytes")
            algorithms = HMAC
        else:
            maker = jwt.algorithms.RSAAlgorithm if entry["kty"] == "RSA" else jwt.algorithms.ECAlgorithm
            key = maker.from_jwk({name: value for name, value in entry.items() if name not in ("d", "p", "q")})
            algorithms = _algorithms(key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"holds a key that cannot be used ({kid!r}): {error}") from error
    if named is not None:
        algorithms &= {named} if isinstance(named, str) else set()
    return TokenKey(algorithms, key, kid if isinstance(kid, str) else None) if algorithms else None


def _algorithms(key: object) -> frozenset[str]:
    if isinstance(key, RSAPublicKey):
        if key.key_size < SHORTEST_RSA:
            raise ValueError(f"an RSA key has at least {SHORTEST_RSA} bits; this one has {key.key_size}")
        return RSA
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return frozenset({_CURVES[key.curve.name]})
    raise ValueError("it is neither RSA nor on the curve P-256, P-384 or P-521")
