"""User properties in a row: both twins take of any bytes what the reader of fields takes."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iot_mqtt import native
from iot_mqtt.codec.pairs import Pairs, joined
from iot_mqtt.codec.wire import Reader, binary, text
from iot_mqtt.errors import Malformed
from iot_mqtt.native import _pure_pairs

TWINS = [(_pure_pairs.pairs, _pure_pairs.values)]
if native.HAVE_NATIVE:
    from iot_mqtt.native import _scan

    TWINS.append((_scan.pairs, _scan.values))

#: Bytes at which UTF-8 changes its rules, in strings that are right, nearly right, and wrong.
EDGES = bytes.fromhex("00 01 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")
STRINGS = st.one_of(
    st.text(max_size=4).map(str.encode), st.lists(st.sampled_from(EDGES), max_size=5).map(bytes), st.binary(max_size=3)
)
PROPERTIES = st.builds(lambda name, value: b"\x26" + binary(name) + binary(value), STRINGS, STRINGS)
BLOCKS = st.lists(st.one_of(PROPERTIES, PROPERTIES, st.binary(max_size=3)), max_size=6).map(b"".join)


def by_fields(raw: bytes, at: int = 0) -> tuple[int, list[tuple[str, str]]]:
    """Where the last one ends that is right, and all of them."""
    reader = Reader(raw, at)
    found = []
    try:
        while reader.left and reader.byte() == 0x26:
            found.append((reader.text(), reader.text()))
            at = reader.pos
    except Malformed:
        pass
    return at, found


@given(BLOCKS, st.integers(0, 4))
@example(b"\x26\0\0\0", 0)
@example(b"\x26\0\x01a\0", 0)
@example(b"\x26\xff\xffa\0\0", 0)
def test_what_is_taken_is_what_the_reader_of_fields_takes(raw: bytes, cut: int) -> None:
    """Also of a block that is cut off."""
    raw = raw[: len(raw) - cut]
    stop, found = by_fields(raw)
    for pairs, values in TWINS:
        assert pairs(raw, 0) == (stop, len(found))
        for name in {name for name, _ in found} | {"absent"}:
            assert values(raw[:stop], name.encode()) == [value for key, value in found if key == name]
    assert tuple(Pairs(raw[:stop], len(found))) == tuple(found)


def test_a_run_begins_where_it_is_said_to() -> None:
    """Whatever stands before it, and behind it."""
    raw = b"\x02\0\0\0\1" + b"\x26\0\1a\0\1b" * 3 + b"\x01\1"
    for pairs, _ in TWINS:
        assert pairs(raw, 5) == (len(raw) - 2, 3)
        assert pairs(raw, 0) == (0, 0) and pairs(raw, len(raw)) == (len(raw), 0)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_utf8_is_what_the_codec_says_it_is(size: int) -> None:
    """Every string of bytes at which the rules change: overlong forms, surrogates, what is beyond U+10FFFF, U+0000."""
    wrong = []
    for string in map(bytes, product(EDGES, repeat=size)):
        for one in (string, string + b"\x80", string + b"\xbf\xbf"):
            try:
                text(one)
                right = 1
            except Malformed:
                right = 0
            for pairs, _ in TWINS:
                for raw in (b"\x26" + binary(one) + b"\0\0", b"\x26\0\0" + binary(one)):
                    if pairs(raw, 0) != (right * len(raw), right):
                        wrong.append((pairs.__module__, one))
    assert not wrong


def test_pairs_are_as_good_as_a_tuple_of_them() -> None:
    """What compares, hashes, counts and looks into them need not know which they are."""
    raw = b"\x26\0\1a\0\1b" + b"\x26\0\2\xc3\xa9\0\0"
    pairs, plain = Pairs(raw, 2), (("a", "b"), ("é", ""))
    assert pairs == plain and plain == pairs and pairs == Pairs(raw, 2) and pairs != Pairs(raw[:7], 1)
    assert hash(pairs) == hash(plain) and len(pairs) == 2 and pairs[1] == plain[1] and pairs[:1] == plain[:1]
    assert joined([pairs]) is pairs and joined([pairs, pairs]) == plain * 2
    assert "é" not in repr(pairs)
