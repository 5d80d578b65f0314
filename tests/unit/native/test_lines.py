"""Payloads as lines of JSON: both twins say the same of any bytes, and what they say is what Python's decoder says."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iot_mqtt import native
from iot_mqtt.codec.runs import run_of
from iot_mqtt.native import _pure_lines
from iot_mqtt.native._pure_lines import MAX_DEPTH, MAX_DIGITS

Lines = Callable[[bytes, int, int, int, bytes, bytes], list[bytes]]
ObjectLine = Callable[[bytes], bytes | None]

TWINS: list[Lines] = [_pure_lines.lines]
OBJECTS: list[ObjectLine] = [_pure_lines.object_line]
if native.HAVE_NATIVE:
    from iot_mqtt.native import _lines

    TWINS.append(_lines.lines)
    OBJECTS.append(_lines.object_line)

HEAD, MIDDLE = b'{"id":"s-', b'",'


def made(lines: Lines, payloads: list[bytes], first: int = 0) -> list[bytes]:
    run = run_of(b"up/x", payloads, [])
    return lines(run.wire, run.count, run.prefix, first, HEAD, MIDDLE)


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
    assert made(lines, [payload]) == [b'{"id":"s-0","payload":%s}' % payload]


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
    (line,) = made(lines, [payload])
    assert b64decode(json.loads(line)["payload_b64"]) == payload


@pytest.mark.parametrize("lines", TWINS)
def test_positions_count_on(lines: Lines) -> None:
    """From the first one, however large it is."""
    values = made(lines, [b"1", b"\xff", b"3"], first=(1 << 62) - 1)
    assert [json.loads(value)["id"] for value in values] == [f"s-{(1 << 62) + offset}" for offset in (-1, 0, 1)]


READING = '{"id":"1","node":"n","gateway":"gw","device":"dé","ts":5,"codec":"acme","schema":3,"values":{"gateway":"x"}}'


@pytest.mark.parametrize("lines", TWINS)
def test_nothing_is_a_reading_by_its_looks(lines: Lines) -> None:
    """An object that looks just like one is wrapped like any other."""
    assert made(lines, [READING.encode()]) == [b'{"id":"s-0","payload":%s}' % READING.encode()]


@pytest.mark.parametrize("lines", TWINS)
def test_line_breaks_are_left_out(lines: Lines) -> None:
    """Wherever tokens end; in strings there are none."""
    payload = READING.replace(",", ",\r\n").replace(":", "\n:\n").encode() + b"\n"
    assert made(lines, [payload]) == [b'{"id":"s-0","payload":%s}' % READING.encode()]


@pytest.mark.parametrize("object_line", OBJECTS)
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"{}", b"{}"),
        (b'{"t":1.50,"s":"\xc3\xa9"}', b'{"t":1.50,"s":"\xc3\xa9"}'),
        (b'{\n "t":\r\n 1}\n', b'{ "t": 1}'),
        (b'\n\t {"t":1}', b'\t {"t":1}'),
        (b'{"a":' * (MAX_DEPTH - 1) + b"1" + b"}" * (MAX_DEPTH - 1),) * 2,
        (b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH, None),
        (b'{"t":1},"gateway":"other","values":{"t":1}', None),
        (b'{"t":1}{"t":1}', None),
        (b'{"t":NaN}', None),
        (b'{"t":"\xff"}', None),
        (b'{"t":"\n"}', None),
        (b"[1]", None),
        (b"1", None),
        (b" ", None),
        (b"", None),
    ],
)
def test_what_a_codec_wrote_is_one_object_on_one_line(object_line: ObjectLine, text: bytes, line: bytes | None) -> None:
    """Or nothing: not two, and not the rest of another one."""
    assert object_line(text) == line


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
    for payload, value in zip(payloads, first, strict=True):
        assert (b'"payload_b64":' in value) is not is_json(payload)
        objects = [object_line(payload) for object_line in OBJECTS]
        assert all(other == objects[0] for other in objects)
        assert objects[0] is None or isinstance(json.loads(objects[0]), dict)
