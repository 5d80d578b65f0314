"""Identities: a name and its generation in one text, whatever stands in the name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.ports.access import Principal, generation_of, is_user_name, user_of

_NAMES = st.text(st.sampled_from("an\x000127"), min_size=1, max_size=8)
_GENERATIONS = st.integers(min_value=0, max_value=12)


def _identity(name: str, generation: int = 0) -> str:
    return Principal("c", name, generation=generation).identity


def test_identities_that_are_kept_stay_what_they_are() -> None:
    """Sessions were written down with them."""
    assert [_identity("ann"), _identity("ann", 1), _identity("ann", 12)] == ["ann", "ann\x001", "ann\x0012"]
    assert Principal("c", "ann", anonymous=True, generation=3).identity == ""


@pytest.mark.parametrize("name", ["ann\x001", "ann\x000", "ann\0", "\0", "ann\0evil", "ann\x001\x002"])
def test_a_name_with_a_nul_is_nobody_else(name: str) -> None:
    """Not the second ann, not an operator (``ports.devices.OPERATOR``), and not the next of its own name."""
    assert user_of(_identity(name)) == name
    assert _identity(name) not in ("ann", _identity("ann", 1), "\0")
    assert [generation_of(_identity(name, number)) for number in (0, 1)] == [0, 1]


@given(_NAMES, _GENERATIONS, _NAMES, _GENERATIONS)
def test_two_users_are_never_one(one: str, first: int, other: str, second: int) -> None:
    """Name and generation come back from an identity, so no two have the same."""
    identity = _identity(one, first)
    assert (user_of(identity), generation_of(identity)) == (one, first)
    assert (identity == _identity(other, second)) == ((one, first) == (other, second))


@pytest.mark.parametrize("kept", ["ann\0evil", "ann\0", "ann\0\u0661", "ann\x00-1", "ann\x001_0", "ann\0" + "9" * 5000])
def test_an_identity_that_was_kept_of_such_a_name_can_be_read(kept: str) -> None:
    """An earlier version wrote the name as it was: its session is nobody's any more, and the node starts."""
    assert (user_of(kept), generation_of(kept)) == (kept, 0)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("ann", True),
        ("Ann Smith, 7 / + #:@", True),
        ("J\u00fcrgen \u5f20\u4f1f", True),
        ("", False),
        ("ann\0", False),
        ("ann\n", False),
        ("ann\x7f", False),
        ("ann\x9b31m", False),
        ("ann\u2028", False),
        ("ann\u202e", False),
        ("ann\udcff", False),
        ("x" * 65_535, True),
        ("\u00e4" * 32_768, False),
    ],
)
def test_what_a_user_may_be_called(name: str, good: bool) -> None:
    """What MQTT has room for, and what can be printed."""
    assert is_user_name(name) is good
