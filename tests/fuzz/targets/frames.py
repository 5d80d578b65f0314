"""Framers, and the protocols of gateways that are cut by them: what machines on a factory's floor send."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from iot_mqtt.custom_protocols.gateway import golden
from iot_mqtt.custom_protocols.modbus import golden as modbus_golden
from iot_mqtt.custom_protocols.modbus.codec import ModbusRtu, ModbusTcp
from iot_mqtt.custom_protocols.modbus.settings import Config
from iot_mqtt.framing import (
    BadFraming,
    Checksum,
    Delimiter,
    Fixed,
    FrameError,
    Framing,
    LengthField,
    Line,
    check,
    framer_of,
    framing_from,
    framing_to,
)
from iot_mqtt.sdk import Answer, BadBatch, BadFrame, Codec, Event, Host, Login, Send, WhenSafe
from iot_mqtt.sdk.checking import Checker
from iot_mqtt.sdk.config import config_from
from tests.cases import gateway as gateway_cases
from tests.cases.framing import Outcome, fed
from tests.fuzz.target import Target, head, ways

_CRC = Checksum("crc16-modbus", "little")
FRAMINGS: tuple[Framing, ...] = (
    LengthField(offset=0, width=2, max_frame=64),
    LengthField(offset=1, width=1, magic=b"\x68", max_frame=64, resync="skip"),
    LengthField(offset=2, width=4, adjustment=-6, strip=2, order="little", max_frame=100, fail_fast=False),
    LengthField(
        offset=1, width=3, magic=b"\x68", adjustment=2, checksum=_CRC, max_frame=80, resync="skip", max_skipped=40
    ),
    LengthField(offset=0, width=8, max_frame=64, fail_fast=False),
    Delimiter(delimiters=(b"\r\n", b"\0"), max_frame=32),
    Delimiter(delimiters=(b"\n", b"\r\n"), max_frame=3, resync="skip", strip=False),
    Delimiter(delimiters=(b"ab",), magic=b"x", max_frame=24, checksum=Checksum("xor8"), resync="skip"),
    Line(max_frame=40),
    Line(max_frame=20, resync="skip", checksum=Checksum("sum8", start=1)),
    Fixed(size=5, max_frame=8),
    Fixed(size=7, magic=b"\x02", checksum=Checksum("crc8", trailer=1), max_frame=8, resync="skip", max_skipped=30),
)


def run_framing(data: bytes) -> None:
    """Any way of arriving has the same outcome; ``fed`` looks at memory and at the order of things."""
    choice, stream = head(data, 2)
    framing = FRAMINGS[choice[0] % len(FRAMINGS)]
    first: Outcome | None = None
    for pieces in ways(stream, choice[1]):
        outcome = fed(framing, pieces)
        assert sum(map(len, outcome.frames)) <= len(stream)
        assert first in (None, outcome), "it matters how the bytes arrive"
        first = outcome


def run_declaration(data: bytes) -> None:
    """Any data is a declaration that makes sense, or refused with ``BadFraming``."""
    try:
        declared = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        framing = framing_from(declared)
    except BadFraming:
        return
    assert check(framing) == []
    assert framing_from(framing_to(framing)) == framing
    framer_of(framing).feed(b"\x68\x00\x04abcd\r\n")


def _events(codec: Codec, frames: list[bytes], *, at_once: bool) -> tuple[list[Event], str]:
    """What a codec says, all frames at once or one by one, and why it ended."""
    try:
        if at_once:
            return list(codec.decode_many(frames)), ""
        events: list[Event] = []
        for frame in frames:
            try:
                events += codec.decode(frame)
            except BadFrame as error:
                return events, error.reason
        return events, ""
    except BadBatch as batch:
        assert isinstance(batch.error, BadFrame), f"the codec failed: {batch.error!r}"
        return list(batch.events), batch.error.reason


def _frames(framing: Framing, stream: bytes, how: int) -> list[bytes]:
    pieces = [*ways(stream, how)][-1]
    framer = framer_of(framing)
    return [item for piece in pieces for item in framer.feed(piece) if not isinstance(item, FrameError)]


def _checked(events: list[Event]) -> list[str]:
    """Nothing that a bundled codec says is garbage."""
    Checker().check(events)
    return [repr(event) for event in events]


def _gateway(logged_in: bool) -> Codec:
    return gateway_cases.logged_in() if logged_in else gateway_cases.codec()


def run_gateway(data: bytes) -> None:
    """Events that the broker takes, or ``BadFrame``; the short way says what the long one says."""
    choice, stream = head(data, 2)
    logged_in = bool(choice[0] & 1)
    first = _gateway(logged_in)
    frames = _frames(first.framing, stream, choice[1])
    # Every frame twice: the second time its layout is known.
    several = [frame for frame in frames for _ in range(2)] if choice[0] & 2 else frames
    events, reason = _events(first, several, at_once=True)
    again, reason_again = _events(_gateway(logged_in), several, at_once=False)
    assert reason == reason_again
    assert _checked(events) == _checked(again)
    for event in events:
        if isinstance(event, Login):
            assert first.welcome()[0] == first.refuse("no")[0]
        elif isinstance(event, WhenSafe):
            first.safe(event.token)
        elif isinstance(event, Send):
            assert event.data[0] == 0x68
        elif isinstance(event, Answer):
            assert 0 < event.number < 1 << 32


_CONFIG = config_from(Config, modbus_golden.CONFIG)


def _modbus(made: type[Codec]) -> Codec:
    return made(
        Host(_CONFIG, peer="127.0.0.1:5", log=logging.getLogger("fuzz"), count=lambda name, by: None, now=lambda: 0)
    )


def _run_modbus(made: type[Codec], data: bytes) -> None:
    choice, stream = head(data, 1)
    said = []
    for at_once in (True, False):
        codec = _modbus(made)
        events, reason = _events(codec, _frames(codec.framing, stream, choice[0] if at_once else 0), at_once=at_once)
        said.append((_checked(events), reason))
    assert said[0] == said[1]


def run_modbus_tcp(data: bytes) -> None:
    """Events that the broker takes, or ``BadFrame``."""
    _run_modbus(ModbusTcp, data)


def run_modbus_rtu(data: bytes) -> None:
    """The same of a bare line, where every byte is a frame."""
    _run_modbus(ModbusRtu, data)


def _framing_seeds() -> Iterator[bytes]:
    for number in range(len(FRAMINGS)):
        for stream in (
            b"\0\4abcd\0\0",
            b"\x68\3abc\x68\x01z",
            b"line one\r\nline two\n\0",
            b"xabab\x1bab",
            b"\x02123456\x02xx",
        ):
            yield bytes((number, 3)) + stream


def _declaration_seeds() -> Iterator[bytes]:
    for framing in FRAMINGS:
        yield json.dumps(framing_to(framing)).encode()
    yield b'{"kind": "length_field", "offset": 1, "width": 5, "magic": "0x6", "checksum": {"kind": "crc8"}}'


def _vectors(vectors: list[dict[str, Any]]) -> Iterator[bytes]:
    for vector in vectors:
        for frame in vector.get("frames", ()):
            yield bytes.fromhex(frame.replace(" ", ""))


def _gateway_seeds() -> Iterator[bytes]:
    frames = [*_vectors(golden.VECTORS)]
    for frame in frames:
        yield b"\x03\x05" + frame
    yield b"\x00\x05" + frames[0]
    yield b"\x02\x09" + b"".join(frames[:6])
    yield b"\x03\x09" + b"".join(frames[1:12])


def _modbus_seeds(told: dict[str, Any]) -> Iterator[bytes]:
    frames = [*_vectors(told["vectors"])]
    yield b"\x05" + b"".join(frames)
    # Of a bare line each byte is a frame of the table: the whole ones are what stands between.
    if len(frames) < 50:
        for frame in frames:
            yield b"\x05" + frame
    for at in range(0, len(b"".join(frames)), 16):
        yield b"\x05" + b"".join(frames)[at : at + 40]


_SMALL_WORDS = (b"\x68", b"\xff\xff", b"\0\0", b"\r\n")
TARGETS = (
    Target("framing", run_framing, _framing_seeds, _SMALL_WORDS, 300, 4000),
    Target(
        "framing-declaration",
        run_declaration,
        _declaration_seeds,
        (b'"max_frame"', b'"resync": "skip"', b"null", b"-1", b'"0x68"', b'"checksum": {', b'"kind": "line"', b"1e400"),
        600,
        60000,
    ),
    Target(
        "gateway", run_gateway, _gateway_seeds, (b"\x68", b"\x0a", b"\x7f\xc0\0\0", b"\x01\x27", b"\xff"), 1000, 4000
    ),
    Target(
        "modbus-tcp",
        run_modbus_tcp,
        lambda: _modbus_seeds(modbus_golden.TCP),
        (b"\0\0", b"\x83\x02", b"\x03\x0a"),
        400,
        4000,
    ),
    Target(
        "modbus-rtu",
        run_modbus_rtu,
        lambda: _modbus_seeds(modbus_golden.RTU),
        (b"\x01\x03\x0a", b"\x83\x02"),
        400,
        3000,
    ),
)
__all__ = ["TARGETS"]
