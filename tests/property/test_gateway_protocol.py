"""Truths about the gateway protocol for any readings: what a gateway wrote is what the broker reads."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.custom_protocols.gateway import wire
from iot_mqtt.custom_protocols.gateway.wire import LETTERS, Type
from iot_mqtt.sdk import Answer, BadBatch, BadFrame, Event, Readings, Value, WhenSafe
from tests.cases.gateway import logged_in
from tests.doubles import gateway as client

PRINTABLE = st.characters(exclude_categories=["C", "Z"])
NAME = st.text(PRINTABLE.filter(lambda letter: letter not in "/+#$" and letter.isprintable()), min_size=1, max_size=8)
TAG = st.text(PRINTABLE.filter(str.isprintable), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def whole(kind: Type) -> st.SearchStrategy[int]:
    """All numbers of a type."""
    bits = struct.calcsize(">" + LETTERS[kind]) * 8
    signed = LETTERS[kind].islower()
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.NOTHING: st.none(),
    Type.BOOL: st.booleans(),
    **{kind: whole(kind) for kind in Type if Type.I8 <= kind <= Type.U64},
    Type.F32: st.floats(width=32),
    Type.F64: st.floats(),
    Type.STRING: TEXT,
    Type.BYTES: st.binary(max_size=20),
}


@st.composite
def readings(draw: st.DrawFn) -> list[client.Reading]:
    """Of one device."""
    tags = draw(st.lists(TAG, min_size=1, max_size=5, unique=True))
    kinds = [draw(st.sampled_from(Type)) for _ in tags]
    return [(tag, kind, draw(VALUES[kind])) for tag, kind in zip(tags, kinds, strict=True)]


@st.composite
def devices(draw: st.DrawFn) -> list[client.Device]:
    """Of a frame."""
    names = draw(st.lists(NAME, min_size=1, max_size=4, unique=True))
    return [(name, draw(readings())) for name in names]


def meant(value: bool | int | float | str | bytes | None) -> Value:
    """What a value is to the broker."""
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(values: dict[str, Value]) -> dict[str, tuple[str, Value]]:
    """With types, since 1, 1.0 and True are the same to Python."""
    return {tag: (type(value).__name__, value) for tag, value in values.items()}


@given(devices(), st.integers(0, wire.MAX_SEQUENCE), st.integers(0, wire.MAX_TIME), st.data())
def test_what_was_written_is_read(said: list[client.Device], sequence: int, time: int, data: st.DataObject) -> None:
    """Identical values, types and qualities: at first sight, later, by a declared layout, and among others."""
    wants_ack = bool(sequence) and data.draw(st.booleans())
    words: dict[tuple[str, str], str] | None = None
    if data.draw(st.booleans()):
        words = {(device, tag): data.draw(st.sampled_from(wire.QUALITIES)) for device, row in said for tag, _, _ in row}
    made = logged_in()
    made.decode(client.declare(3, said))
    frames = [
        client.data(said, sequence=sequence, time=time, wants_ack=wants_ack, qualities=words, layout=layout)
        for layout in (None, None, 3, 3)
    ]
    events = made.decode_many(frames)
    count = len(said) + wants_ack
    assert len(events) == 4 * count
    assert all(events[start : start + count] == events[:count] for start in range(0, 4 * count, count))
    for event, (device, row) in zip(events, said, strict=False):
        assert isinstance(event, Readings) and isinstance(event.values, bytes)
        assert (event.device, event.time, event.sequence) == (device, time or None, sequence or None)
        expected = {tag: meant(value) for tag, _, value in row}
        assert shown(json.loads(event.values)) == shown(expected)
        quality = {tag: (words or {}).get((device, tag), "good") for tag in expected}
        quality |= {tag: "bad" for tag, value in expected.items() if value is None and quality[tag] == "good"}
        assert (event.quality or {}) == {tag: word for tag, word in quality.items() if word != "good"}
    assert events[len(said) : count] == [WhenSafe(sequence)] * wants_ack


@given(st.integers(1, 0xFFFF_FFFF), st.booleans(), TEXT, readings())
def test_an_answer_that_was_written_is_read(number: int, ok: bool, detail: str, said: list[client.Reading]) -> None:
    """With its values."""
    (event,) = logged_in().decode(client.answer(number, ok, detail, said))
    assert isinstance(event, Answer) and (event.number, event.ok, event.detail) == (number, ok, detail)
    assert shown(dict(event.values or {})) == shown({tag: meant(value) for tag, _, value in said})


@given(st.lists(st.binary(max_size=80), max_size=5), st.lists(devices(), max_size=3), st.randoms())
def test_a_batch_is_its_frames_one_by_one(junk: list[bytes], said: list[list[client.Device]], rng: Any) -> None:
    """Up to the first bad one, whose reason is the same."""
    frames = [client.data(each) for each in said] + [wire.frame(0, len(piece) % 3, piece) for piece in junk]
    rng.shuffle(frames)
    one, many = logged_in(), logged_in()
    events: list[Event] = []
    reason = None
    for frame in frames:
        try:
            events += one.decode(frame)
        except BadFrame as error:
            reason = error.reason
            break
    found_reason = None
    try:
        found = many.decode_many(frames)
    except BadBatch as batch:
        found, found_reason = batch.events, getattr(batch.error, "reason", repr(batch.error))
    assert (found, found_reason) == (events, reason)
