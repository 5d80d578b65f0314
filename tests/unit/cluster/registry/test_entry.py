"""Entries as bytes: what is written is read back, and nothing else gets in or breaks the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.cluster.registry.entry import MAXIMUM, BadEntry, dump, load, segment
from iot_mqtt.ports.registry import Member

FULL = Member(
    node_id="edge-1.berlin",
    number=255,
    boot=2**40,
    version="1.2.3",
    protocols=(1, 2),
    addresses={"tcp": "10.0.0.1:1883", "ws": "[::1]:8083"},
    load=0.25,
    clients=100_000,
    draining=True,
)
LEAST = {"node_id": "a", "number": 1, "boot": 0, "version": "1"}

members = st.builds(
    Member,
    node_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    number=st.integers(1, 255),
    boot=st.integers(0, 2**63 - 1),
    version=st.text(min_size=1, max_size=20),
    protocols=st.lists(st.integers(0, 255), max_size=5).map(tuple),
    addresses=st.none() | st.dictionaries(st.text(max_size=9), st.text(max_size=9), min_size=1, max_size=4),
    load=st.integers(0, 100).map(lambda percent: percent / 100),
    clients=st.integers(0, 2**40),
    draining=st.booleans(),
)


def test_a_member_comes_back_as_it_was() -> None:
    """With all of its fields."""
    assert load("edge-1.berlin", dump(FULL)) == FULL


@given(members)
def test_any_member_comes_back_as_it_was(member: Member) -> None:
    """Whatever its names are made of."""
    assert load(segment(member.node_id), dump(member)) == member


def test_what_a_later_version_adds_is_ignored() -> None:
    """And what an earlier one did not know has its default."""
    entry = load("a", json.dumps({**LEAST, "zone": {"rack": [1, 2]}}).encode())
    assert entry == Member("a", 1, 0, "1")


@pytest.mark.parametrize(
    "change",
    [
        {"node_id": "b"},
        {"node_id": ""},
        {"node_id": 7},
        {"node_id": "\ud800"},
        {"number": 0},
        {"number": 256},
        {"number": True},
        {"number": 1.0},
        {"number": "1"},
        {"boot": -1},
        {"boot": None},
        {"boot": 2**63},
        {"version": ""},
        {"version": None},
        {"protocols": 1},
        {"protocols": ["1"]},
        {"protocols": [True]},
        {"addresses": ["tcp"]},
        {"addresses": {"tcp": 1883}},
        {"load": 1.5},
        {"load": -0.1},
        {"load": float("nan")},
        {"load": "0"},
        {"clients": -1},
        {"clients": None},
        {"draining": 1},
    ],
    ids=str,
)
def test_a_field_that_makes_no_sense_makes_the_entry_bad(change: dict[str, Any]) -> None:
    """Rather than a member with a part missing."""
    with pytest.raises(BadEntry):
        load("a", json.dumps({**LEAST, **change}).encode())


@pytest.mark.parametrize("field", LEAST)
def test_what_a_member_cannot_do_without(field: str) -> None:
    """Who it is, its number, its life and its version."""
    with pytest.raises(BadEntry):
        load("a", json.dumps({name: value for name, value in LEAST.items() if name != field}).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"7", b"{", b"\xff\xfe", b"[" * 9_000, b"1" * 9_000, b" " * (MAXIMUM + 1)],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_no_object_is_bad(data: bytes) -> None:
    """However deep or long it is."""
    with pytest.raises(BadEntry):
        load("a", data)


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr).map(str.encode)
)
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """They are bad, and that is all."""
    with pytest.raises(BadEntry):
        load("a", data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-1", "node-1"),
        ("edge-1.berlin", "edge-1.berlin"),
        ("adopt/7", "adopt%2F7"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("Ärger", "%C3%84rger"),
        ("a\x00b", "a%00b"),
    ],
)
def test_a_name_becomes_one_element_of_a_path(text: str, expected: str) -> None:
    """Readable where it can be, and never the path above."""
    assert segment(text) == expected


def test_an_empty_name_is_none() -> None:
    """It would be the path itself."""
    with pytest.raises(ValueError, match="empty"):
        segment("")
