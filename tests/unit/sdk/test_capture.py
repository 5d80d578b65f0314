"""Captures: what is written is read again, whole, and never more than the limit."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.sdk import Login, Readings
from iot_mqtt.sdk.capture import BadCapture, CaptureWriter, Header, Record, read_header, read_records


class Clock:
    """Monotonic seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def written(limit: int = 1 << 20) -> tuple[CaptureWriter, list[bytes], Clock]:
    """A capture in memory."""
    lines: list[bytes] = []
    clock = Clock()
    return CaptureWriter(lines.append, clock, Header(1_700_000_000_000, "acme", "1.2"), limit), lines, clock


def test_what_was_written_is_read() -> None:
    """Bytes, times, events and words."""
    capture, lines, clock = written()
    capture.opened(1, "192.0.2.1:7")
    clock.now += 0.25
    capture.up(1, b"\x00\xff")
    capture.events(1, [Login("g", secret=b"s"), Readings("d", b'{"t": 1.5}')])
    capture.down(1, b"\x06")
    clock.now += 1.0
    capture.closed(1, "idle")
    assert read_header(lines[0]) == Header(1_700_000_000_000, "acme", "1.2")
    assert list(read_records(lines[1:])) == [
        Record(0, 1, "opened", text="192.0.2.1:7"),
        Record(250, 1, "up", b"\x00\xff"),
        Record(250, 1, "event", event={"event": "login", "gateway": "g", "secret": "(hidden)"}),
        Record(250, 1, "event", event={"event": "readings", "device": "d", "values": {"t": 1.5}}),
        Record(250, 1, "down", b"\x06"),
        Record(1250, 1, "closed", text="idle"),
    ]


def test_a_capture_never_grows_over_its_limit() -> None:
    """It says that it is full, and nothing after that."""
    capture, lines, _ = written(limit=2_000)
    results = [capture.up(1, bytes(40)) for _ in range(100)]
    assert True in results and results[-1] is False
    assert capture.is_full
    assert sum(map(len, lines)) <= 2_000
    records = list(read_records(lines[1:]))
    assert [record.kind for record in records[-2:]] == ["up", "full"]


def test_a_last_line_that_was_cut_off_is_left_out() -> None:
    """As a crash or a full disk leaves it."""
    capture, lines, _ = written()
    capture.up(1, b"one")
    capture.up(1, b"two")
    assert [record.data for record in read_records([lines[1], lines[2][:-5]])] == [b"one"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"GET / HTTP/1.1\r\n", "no capture"),
        (json.dumps({"iot-mqtt-capture": 2}).encode() + b"\n", "format 2"),
        (b'{"iot-mqtt-capture": 1\n', "no JSON"),
    ],
)
def test_other_files_are_refused(line: bytes, words: str) -> None:
    """With the reason."""
    with pytest.raises(BadCapture, match=words):
        read_header(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[]\n", "line 2 is no JSON object"),
        (b'{"ms": 1, "connection": 1, "kind": "sideways"}\n', "'sideways' is unknown"),
        (b'{"ms": 1, "connection": 1, "kind": "up", "hex": "0"}\n', "line 2"),
        (b'{"connection": 1, "kind": "up"}\n', "'ms'"),
    ],
)
def test_lines_that_make_no_sense_are_named(line: bytes, words: str) -> None:
    """By their number."""
    with pytest.raises(BadCapture, match=words):
        list(read_records([line]))
