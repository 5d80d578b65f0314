"""argon2id hashes: ours, others', and what is refused as one."""

from __future__ import annotations

import pytest

from iot_mqtt.auth import argon
from tests.unit.auth.authkit import cheap_hash


def test_a_hash_fits_its_password_only() -> None:
    """Right is right, wrong is wrong, and two hashes of a password differ by their salt."""
    encoded = argon.hash_password(b"correct horse")
    argon.check(encoded)
    assert argon.verify_password(encoded, b"correct horse")
    assert not argon.verify_password(encoded, b"correct horse ")
    assert argon.hash_password(b"correct horse") != encoded


def test_passwords_are_bytes() -> None:
    """MQTT passwords are binary: no text decoding comes between [MQTT5 3.1.3.6]."""
    assert argon.verify_password(argon.hash_password(b"\x00\xff\xfe"), b"\x00\xff\xfe")


def test_a_decoy_is_a_hash_of_the_same_cost_that_nothing_fits() -> None:
    """It goes all the way through argon2, and the answer is no."""
    decoy = argon.decoy(argon.cost(cheap_hash("x")))
    argon.check(decoy)
    assert argon.cost(decoy) == "m=8,t=1,p=1"
    assert not argon.verify_password(decoy, b"x")


def test_new_hashes_and_the_decoy_cost_the_same() -> None:
    """Or the time of an answer would tell who exists."""
    assert argon.cost(argon.hash_password(b"x")) == argon.cost(argon.decoy())


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "secret",
        "$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$" + "A" * 43,
        "$argon2id$v=16$m=8,t=1,p=1$c29tZXNhbHQ$" + "A" * 43,
        "$argon2id$v=19$m=8,t=1$c29tZXNhbHQ$" + "A" * 43,
        "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$",
        "$argon2id$v=19$m=99999999,t=1,p=1$c29tZXNhbHQ$" + "A" * 43,
        "$argon2id$v=19$m=8,t=65,p=1$c29tZXNhbHQ$" + "A" * 43,
        "$argon2id$v=19$m=8,t=1,p=17$c29tZXNhbHQ$" + "A" * 43,
    ],
)
def test_what_is_no_hash_is_refused(encoded: str) -> None:
    """Clear text, weaker kinds, cut ones, and ones that cost more than a login may."""
    with pytest.raises(ValueError):
        argon.check(encoded)
