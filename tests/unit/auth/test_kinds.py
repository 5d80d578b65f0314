"""Hashes that other brokers made, byte for byte as they made them."""

from __future__ import annotations

import base64

import pytest

from iot_mqtt.auth import kinds
from iot_mqtt.auth.users import parse_users
from tests.unit.auth.authkit import cheap_hash

#: Of the password "geheim".
BCRYPT = "$2b$04$nRc/Exh45MHMRta1QuvetOHG1ttA9Z/lweJdfVaZid7qSSpT/Bjkq"
PBKDF2 = (
    "$7$101$5E4VlE2dCzcmPd34$Cmhn3tdoUYcjHEmFoK03AE+RruVhLmAvMKSeg0OR5F+vmVvWTxrmMDGqQiA76dLpWPjlEdP4MSUSxmK93JOkbw=="
)
SHA512 = "$6$qjCivyRlM5+vUawf$R9pQoEdfpBqq41FBEOxvT31s2SsyzuLXG04jnvwXGStcsb5FZxPZi7jF6yc9Vw6b/DtHQFOB5abUtUR4jg4G6Q=="
#: As EMQX makes them, whose salt is a text of 32 hexadecimal digits.
EMQX_PREFIX = (
    "$emqx$sha256,prefix$MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmY=$JXEKnnZY95wwj2tnvA9HLX2Do6dNowxZBICZK6Hdgfo="
)
EMQX_SUFFIX = (
    "$emqx$sha512,suffix$MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmY=$"
    "QO0lkwngB5h4xNGRvbB7W6ZIXD4hscodsmIfGaIVIeBzNuO3nrmywW3b4kWl1CPZe/rj+4wsZhemKQvEWmCjzg=="
)
EMQX_PBKDF2 = (
    "$emqx$pbkdf2-sha256,101$MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmY=$ogW9gkejCVjSezmH6Oqg66ZplZim+csMFjNAD+V7ZZs="
)
ARGON = cheap_hash("geheim")
KINDS = {
    "argon2id": ARGON,
    "bcrypt": BCRYPT,
    "pbkdf2": PBKDF2,
    "sha512": SHA512,
    "emqx-prefix": EMQX_PREFIX,
    "emqx-suffix": EMQX_SUFFIX,
    "emqx-pbkdf2": EMQX_PBKDF2,
}
EACH = pytest.mark.parametrize("encoded", KINDS.values(), ids=KINDS)


@EACH
def test_the_right_password_fits_and_no_other(encoded: str) -> None:
    """And the line of the file is read as it is."""
    kinds.check(encoded)
    assert kinds.verify(encoded, b"geheim")
    for wrong in (b"", b"Geheim", b"geheim ", b"geheim\0", b"x" * 1000):
        assert not kinds.verify(encoded, wrong)
    assert "ann" in parse_users(f"ann:{encoded}\n", "users")


@EACH
def test_a_decoy_has_the_cost_and_fits_nothing(encoded: str) -> None:
    """Of each kind."""
    cost = kinds.cost(encoded)
    decoy = kinds.decoy(cost)
    kinds.check(decoy)
    assert kinds.cost(decoy) == cost
    assert decoy != kinds.decoy(cost)
    assert not kinds.verify(decoy, b"geheim")


def test_a_nul_byte_opens_no_shorter_password() -> None:
    """Makers of bcrypt hashes that cut there would let in who knows the beginning."""
    assert not kinds.verify(BCRYPT, b"geheim\0more")


def test_bcrypt_looks_at_72_bytes() -> None:
    """As everywhere: what is longer is cut, not refused."""
    import bcrypt

    encoded = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert kinds.verify(encoded, b"x" * 100)


SALT, DIGEST = base64.b64encode(b"s" * 12).decode(), base64.b64encode(b"d" * 64).decode()


@pytest.mark.parametrize(
    ("encoded", "words"),
    [
        ("$2b$03$" + "a" * 53, "2^4"),
        ("$2b$31$" + "a" * 53, "2^16"),
        ("$2b$12$short", "bcrypt"),
        (f"$7$99999999${SALT}${DIGEST}", "iterations"),
        (f"$7$0${SALT}${DIGEST}", "mosquitto"),
        (f"$7$101${SALT}$AAAA", "64 bytes"),
        (f"$7$101${'A' * 400}${DIGEST}", "mosquitto"),
        (f"$6${SALT}$A", "base64"),
        ("$5$nothing", "argon2id"),
        (f"$emqx$md5,prefix${SALT}${DIGEST}", "EMQX"),
        (f"$emqx$sha256,prefix${SALT}${DIGEST}", "another size"),
        (f"$emqx$sha256,prefix${SALT}$A", "base64"),
        (f"$emqx$pbkdf2-sha256,1${SALT}$AAAA", "another size"),
        (f"$emqx$pbkdf2-sha256,99999999${SALT}${DIGEST}", "iterations"),
        ("secret", "argon2id"),
    ],
)
def test_what_is_no_hash_or_too_dear_is_refused(encoded: str, words: str) -> None:
    """With the kind that it seems to be, and never with what it holds."""
    with pytest.raises(ValueError) as caught:
        kinds.check(encoded)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
