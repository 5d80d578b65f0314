"""Payloads as lines of JSON: both twins say the same of any bytes, and what they say is what Python's decoder says."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iot_mqtt import native
from iot_mqtt.codec.runs import run_of
from iot_mqtt.native import _pure_lines
from iot_mqtt.native._pure_lines import MAX_DEPTH, MAX_DIGITS

Lines = Callable[[bytes, int, int, int, bytes, bytes, str, str], tuple[list[bytes], list[tuple[int, str, str]]]]

TWINS: list[Lines] = [_pure_lines.lines]
if native.HAVE_NATIVE:
    from iot_mqtt.native import _lines

    TWINS.append(_lines.lines)

HEAD, MIDDLE = b'{"id":"s-', b'",'


def made(lines: Lines, payloads: list[bytes], gateway: str = "gw", first: int = 0, device: str = "d1") -> Any:
    run = run_of(b"up/x", payloads, [])
    return lines(run.wire, run.count, run.prefix, first, HEAD, MIDDLE, gateway, device)


def is_json(payload: bytes) -> bool:
    def refuse(_: str) -> object:
        raise ValueError

    try:
        json.loads(payload.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


@pytest.mark.parametrize("lines", TWINS)
@pytest.mark.parametrize(
    "payload",
    [
        b"0", b"-0", b"10", b"1.5", b"1e5", b"1E+5", b"1.5e-5", b"1e999", b'""', b'"\\u00e9\\n\\ud800"', '"é"'.encode(),
        b"true", b"false", b"null", b"[]", b"{}", b"[1,2]", b'{"a":[{}]}', b" \t[ 1 , 2 ] ", b'{"a" : 1}', b'"\x7f"',
        b"1" * MAX_DIGITS, b"-" + b"1" * MAX_DIGITS, b"1" * 5000 + b".0", b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b"[[],[]" + b",[]" * MAX_DEPTH + b"]",
    ],
)  # fmt: skip
def test_what_is_json_is_copied(lines: Lines, payload: bytes) -> None:
    """Numbers keep their digits, and strings their escapes."""
    assert made(lines, [payload]) == ([b'{"id":"s-0","payload":%s}' % payload], [])


@pytest.mark.parametrize("lines", TWINS)
@pytest.mark.parametrize(
    "payload",
    [
        b"", b" ", b"-", b"01", b"1.", b".5", b"1e", b"1e+", b"+1", b"1 2", b"0x1", b"NaN", b"-Infinity", b"Infinity",
        b"t", b"truex", b"n", b"falsy", b'"', b'"a', b'"\\', b'"\\x"', b'"\\u12', b'"\\u12g4"', b'"\n"', b'"\x00"',
        b"[", b"[1", b"[1,", b"[1,]", b"[,]", b"]", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}',
        b'{"a":1]', b"[1}", b'{"a" 1}', b'{"a":1 "b":2}', b"\xef\xbb\xbf1", b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"',
        '"é"'.encode("latin-1"), b"1" * (MAX_DIGITS + 1), b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), b"'a'",
        b"{1:2}", b"[" * 100_000, b'{"a":' * 300 + b"1" + b"}" * 300,
    ],
)  # fmt: skip
def test_what_is_no_json_is_base64(lines: Lines, payload: bytes) -> None:
    """And comes back as it was."""
    ((line,), readings) = made(lines, [payload])
    assert b64decode(json.loads(line)["payload_b64"]) == payload
    assert readings == []


@pytest.mark.parametrize("lines", TWINS)
def test_positions_count_on(lines: Lines) -> None:
    """From the first one, however large it is."""
    values, _ = made(lines, [b"1", b"\xff", b"3"], first=(1 << 62) - 1)
    assert [json.loads(value)["id"] for value in values] == [f"s-{(1 << 62) + offset}" for offset in (-1, 0, 1)]


READING = '{"id":"1","node":"n","gateway":"gw","device":"d1","ts":5,"codec":"acme","schema":3,"values":{"gateway":"x"}}'


@pytest.mark.parametrize("lines", TWINS)
@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (READING, ("acme", "3")),
        (READING.replace(',"codec":"acme","schema":3', ""), ("", "")),
        (READING.replace('"acme"', '"acm\\u00e9"'), ("acmé", "3")),
        (READING.replace('"schema":3', '"schema":1.50'), ("acme", "1.5")),
        (READING.replace('"schema":3', '"schema":-0'), ("acme", "0")),
        (READING.replace('"schema":3', '"schema":null'), ("acme", "None")),
        (READING.replace('"schema":3', '"schema":[1]'), ("acme", "[1]")),
        (READING.replace('"d1"', '"d\\u0031"'), ("acme", "3")),
        (READING.replace('"gw"', '"g\\u0077"'), ("acme", "3")),
        (READING.replace('"gateway":"gw"', '"g\\u0061teway":"gw"'), ("acme", "3")),
        (READING.replace('"device":"d1"', '"d\\u0065vice":"d1"'), ("acme", "3")),
        (READING.replace('"d1"', '"dé"'), None),
        (READING.replace('"d1"', '"d\\u0032"'), None),
        (READING.replace('"d1"', "17"), None),
        (READING.replace('"d1"', "null"), None),
        # Of two members with one name the last one counts, however it is spelt.
        (READING.replace('"ts"', '"gateway":"other","ts"'), None),
        (READING.replace('"ts"', '"g\\u0061teway":"other","ts"'), None),
        (READING.replace('"ts"', '"device":"d2","ts"'), None),
        (READING.replace('"ts"', '"device":"d2","device":"d1","ts"'), ("acme", "3")),
        (READING.replace('"gw"', '"other"'), None),
        (READING.replace('"gw"', "7"), None),
        (READING.replace('"gw"', "[]"), None),
        (READING.replace('"node"', '"nodes"'), None),
        ("[" + READING + "]", None),
        ('{"a":' + READING + "}", None),
    ],
)
def test_readings_are_told_of(lines: Lines, payload: str, told: tuple[str, str] | None) -> None:
    """Whatever in them is unusual; only of the gateway and the device that they came from."""
    values, readings = made(lines, [b"1", payload.encode()])
    assert readings == ([] if told is None else [(1, *told)])
    assert (values[1] == payload.encode()) is (told is not None)


@pytest.mark.parametrize("lines", TWINS)
def test_nothing_is_a_reading_by_its_looks(lines: Lines) -> None:
    """Where no codec made it, an object that names the publisher, or nobody, is wrapped like any other."""
    payloads = [READING.encode(), READING.replace('"gw"', '""').replace('"d1"', '""').encode()]
    values, readings = made(lines, payloads, gateway="", device="")
    assert readings == []
    assert values == [b'{"id":"s-%d","payload":%s}' % (index, payload) for index, payload in enumerate(payloads)]


@pytest.mark.parametrize("lines", TWINS)
def test_names_are_more_than_ascii(lines: Lines) -> None:
    """A gateway and a device may be called what people call them."""
    payload = READING.replace('"gw"', '"línea"').replace('"d1"', '"prëss"').encode()
    assert made(lines, [payload], gateway="línea", device="prëss") == ([payload], [(0, "acme", "3")])


@pytest.mark.parametrize("lines", TWINS)
def test_line_breaks_are_left_out(lines: Lines) -> None:
    """Wherever tokens end; in strings there are none."""
    payload = READING.replace(",", ",\r\n").replace(":", "\n:\n").encode() + b"\n"
    assert made(lines, [payload])[0] == [READING.encode()]
    assert made(lines, [payload], gateway="no")[0] == [b'{"id":"s-0","payload":%s}' % READING.encode()]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "gateway", "é"]), inner),
    max_leaves=6,
)
_TEXTS = st.builds(
    lambda value, indent, escaped: json.dumps(value, indent=indent, ensure_ascii=escaped).encode(
        "utf-8", "surrogatepass"
    ),
    _JSON,
    st.sampled_from([None, 1]),
    st.booleans(),
)
_PIECES = st.sampled_from([*(bytes([byte]) for byte in b'{}[]",:\\0129.-+eEutrn\n \x00\xc3\xa9'), b"null", b'"a":'])


@st.composite
def _broken(draw: st.DrawFn) -> bytes:
    """JSON with something put in, taken away or written over."""
    text = draw(_TEXTS)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(_PIECES | st.just(b"")) + text[at + draw(st.integers(0, 2)) :]
    return text


@settings(max_examples=300)
@given(payloads=st.lists(_broken() | st.lists(_PIECES, max_size=8).map(b"".join), min_size=1, max_size=4))
@example([READING.encode(), b"\xff"])
def test_the_twins_agree(payloads: list[bytes]) -> None:
    """With each other, and about what JSON is with Python."""
    first, *others = [made(lines, payloads) for lines in TWINS]
    assert all(other == first for other in others)
    for payload, value in zip(payloads, first[0], strict=True):
        assert (b'"payload_b64":' in value) is not is_json(payload)
