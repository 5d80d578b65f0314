"""What codecs may return, and what is garbage; and that it travels to a worker and back unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.plugins.process import wire
from iot_mqtt.sdk import Answer, Close, Event, Heartbeat, Login, Readings, Schema, Send, Tag, WhenSafe
from iot_mqtt.sdk.checking import Checker, Garbage

GOOD: list[Event] = [
    Login("g1"),
    Login("g ü", "user", b"\x00\xff", 30.0),
    Readings("d", {"a": 1, "b": 1.5, "c": True, "d": "x", "e": None}),
    Readings("d", {"a": -(1 << 63), "b": (1 << 64) - 1}, 0, 1, {"a": "bad"}),
    Readings("d", b'{"a":1}', 1_700_000_000_000, 7),
    Heartbeat(),
    Send(b"\x00\xff\n"),
    WhenSafe(5),
    Answer(1, True),
    Answer(1, False, "no", {"a": 1}),
    Close("done"),
    Login("g"),
    Login("Gerät 7", "u", b"s", 30),
    Readings("d", {}),
    Readings("d", {"a": 1, "b": 1.5, "c": "x", "d": None, "e": True}, 1, 0, {"a": "bad"}),
    Readings("d", b'{"a": 1}'),
    Readings("d", {"a": (1 << 64) - 1}),
    WhenSafe(0),
    Send(b""),
    Answer(0xFFFFFFFF, False, "no", {"a": 1}),
    Close("over"),
]


class Other(Event):
    """Not one of the SDK's."""


def _unfinished() -> Readings:
    return Readings.__new__(Readings)


BAD: list[Any] = [
    None,
    "text",
    Other(),
    _unfinished(),
    Login(""),
    Login("a/b"),
    Login("a" * 65),
    Login("a\n"),
    Login(5),  # type: ignore[arg-type]
    Login("g", secret="text"),  # type: ignore[arg-type]
    Login("g", heartbeat=float("nan")),
    Login("g", heartbeat=-1),
    Readings("a+b", {}),
    Readings("d", None),  # type: ignore[arg-type]
    Readings("d", b"[1]"),
    Readings("d", b'{"a":1},"gateway":"other","values":{"a":1}'),
    Readings("d", b'{"a":1}}'),
    Readings("d", b'{"a":NaN}'),
    Readings("d", {"a": float("nan")}),
    Readings("d", {"a": float("inf")}),
    Readings("d", {"a": 1 << 64}),
    Readings("d", {"a": b"x"}),  # type: ignore[dict-item]
    Readings("d", {"a": [1]}),  # type: ignore[dict-item]
    Readings("d", {"a": "\ud800"}),
    Readings("d", {"": 1}),
    Readings("d", {5: 1}),  # type: ignore[dict-item]
    Readings("d", {"a": 1}, time=-1),
    Readings("d", {"a": 1}, time=1.5),  # type: ignore[arg-type]
    Readings("d", {"a": 1}, sequence=1 << 63),
    Readings("d", {"a": 1}, quality={"a": "awful"}),
    Readings("d", {"a": 1}, quality={"a": []}),  # type: ignore[dict-item]
    Readings("d", {str(n): n for n in range(5000)}),
    Send("text"),  # type: ignore[arg-type]
    WhenSafe(-1),
    Answer(-1, True),
    Answer(1, 1),  # type: ignore[arg-type]
    Answer(1, True, values={"a": object()}),  # type: ignore[dict-item]
    Close(None),  # type: ignore[arg-type]
    Login("x" * 65),
    Login("a\0"),
    Readings("+", {}),
    Readings(7, {}),  # type: ignore[arg-type]
    Readings("d", []),  # type: ignore[arg-type]
    Readings("d", {1: 1}),  # type: ignore[dict-item]
    Readings("d", {}, time=-1),
    Readings("d", {}, time=1.5),  # type: ignore[arg-type]
    Readings("d", {}, sequence=1 << 63),
    Readings("d", {}, quality={"a": "odd"}),
    Answer(1 << 32, True),
    Answer(1, True, values={"a": float("nan")}),
]


def test_what_the_sdk_allows_is_good_and_travels_unchanged() -> None:
    """To JSON, and back to equal events."""
    Checker().check(GOOD)
    body = wire.write_answer(3, [[1, "events", wire.pack_events(GOOD)]])
    done, [[number, kind, packed]] = wire.read_answer(body[4:])
    assert (done, number, kind) == (3, 1, "events")
    assert wire.unpack_events(packed) == GOOD


def test_values_given_as_json_become_one_line() -> None:
    """However the codec laid them out: nobody looks at them again."""
    event = Readings("d", b'{\n  "a": 1\r\n}\n')
    Checker().check([event])
    assert event.values == b'{  "a": 1}'


@pytest.mark.parametrize("event", BAD, ids=range(len(BAD)))
def test_everything_else_is_garbage(event: Any) -> None:
    """Whatever it is, it is no other exception."""
    with pytest.raises(Garbage):
        Checker().check([event])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(_JSON | st.lists(st.lists(st.sampled_from("rjlwhsac") | _JSON, max_size=7), max_size=3))
def test_no_json_of_a_worker_is_more_than_garbage(value: Any) -> None:
    """Garbled, garbage, or events: no other exception reaches the reactor."""
    try:
        _, results = wire.read_answer(json.dumps([1, [[1, "events", value]]]).encode())
        Checker().check(wire.unpack_events(results[0][2]))
    except (wire.Garbled, Garbage):
        return


@given(st.binary(max_size=64))
def test_no_bytes_of_a_worker_are_more_than_garbage(body: bytes) -> None:
    """Nor any bytes."""
    try:
        wire.read_answer(body)
    except wire.Garbled:
        return


def test_deep_json_is_garbage() -> None:
    """The parser gives up, and that is no traceback."""
    with pytest.raises(wire.Garbled):
        wire.read_answer(b"[" * 200_000)


@given(st.lists(st.binary(max_size=200_000), max_size=5) | st.lists(st.binary(max_size=3), max_size=300))
def test_frames_travel_in_operations_of_bounded_size(frames: list[bytes]) -> None:
    """All of them, in order; a frame that is large goes alone."""
    back: list[bytes] = []
    total = 0
    for data, size in wire.decodes(9, frames):
        length, kind, connection = wire.HEAD.unpack_from(data)
        assert (kind, connection, length) == (wire.DECODE, 9, len(data) - 4)
        part = wire.read_frames(data[wire.HEAD.size :])
        assert len(part) == 1 or (len(part) <= wire.MAX_FRAMES and size <= wire.MAX_DECODE)
        back += part
        total += size
    assert back == frames
    assert total == sum(map(len, frames))


SCHEMA = Schema(2, {"b": Tag("bool"), "i": Tag("int"), "f": Tag("float", "V"), "s": Tag("string")}, open=False)


@pytest.mark.parametrize("values", [{"b": True, "i": 1, "f": 1.5, "s": "x"}, {"f": 1}, dict.fromkeys("bifs")])
def test_values_of_a_schema_are_of_its_types(values: dict[str, Any]) -> None:
    """A whole number is a float, and None is what is not known; twice, as the second time is from memory."""
    checker = Checker(SCHEMA)
    for _ in range(2):
        checker.check([Readings("d", values)])


@pytest.mark.parametrize("values", [{"b": 1}, {"i": True}, {"i": 1.5}, {"f": "1"}, {"s": 1}, {"other": 1}])
def test_other_values_are_garbage(values: dict[str, Any]) -> None:
    """And a tag that a closed schema has not; an open one may have any."""
    checker = Checker(SCHEMA)
    for _ in range(2):
        with pytest.raises(Garbage, match="schema"):
            checker.check([Readings("d", values)])
    Checker(Schema(open=True)).check([Readings("d", values)])


def test_a_schema_travels_without_its_descriptions() -> None:
    """As JSON; anything else is garbled."""
    assert wire.unpack_schema(json.loads(json.dumps(wire.pack_schema(SCHEMA)))) == SCHEMA
    for wrong in (None, [1], ["1", True, {}], [1, True, {"a": "int"}], [1, True, {"a": [1]}]):
        with pytest.raises(wire.Garbled):
            wire.unpack_schema(wrong)


@pytest.mark.parametrize(
    ("line", "expected"),
    [("<30>look", (30, "look")), ("<99>x", (50, "x")), ("print", (20, "print")), ("<a>x", (20, "<a>x"))],
)
def test_a_line_has_its_level(line: str, expected: tuple[int, str]) -> None:
    """What was printed is information."""
    assert wire.level_of(line) == expected
