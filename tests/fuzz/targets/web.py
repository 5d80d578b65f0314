"""WebSocket frames and handshakes, and PROXY headers: what stands in front of MQTT."""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.pipeline.proxy_protocol import HeaderReader, ProxyHeader, ProxyHeaderError
from iot_mqtt.pipeline.settings import WebSocketSettings
from iot_mqtt.pipeline.websocket.frames import FrameReader, Opcode, unmask
from iot_mqtt.pipeline.websocket.handshake import Handshake, HandshakeError, HandshakeReader, refusal
from tests.fuzz.target import Target, head, ways

_LIMIT = 4096
_SETTINGS = WebSocketSettings(max_head=600, local=True)
_KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost:8083\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: " + _KEY + b"\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def run_frames(data: bytes) -> None:
    """However bytes arrive: the same payload, control frames and error; nothing but control frames is held back."""
    choice, stream = head(data, 1)
    said = None
    for pieces in ways(stream, choice[0]):
        reader = FrameReader(_LIMIT)
        payload, controls, errors = b"", [], []
        for piece in pieces:
            received = reader.feed(piece)
            payload += b"".join(received.payload)
            controls += received.controls
            errors += [] if received.error is None else [received.error.code]
            assert len(reader._rest) < 14 + 125, "a frame is held back"
            assert all(len(content) <= 125 for _, content in received.controls)
        assert len(errors) <= 1
        assert len(payload) <= len(stream)
        found = payload, controls, errors
        assert said in (None, found), "it matters how the bytes arrive"
        said = found


def run_handshake(data: bytes) -> None:
    """A handshake, or a refusal that is an HTTP answer; a head has a limit."""
    choice, stream = head(data, 1)
    said: list[Handshake | None] = []
    for pieces in ways(stream, choice[0]):
        reader = HandshakeReader(_SETTINGS)
        found: Handshake | None = None
        taken = 0
        for piece in pieces:
            taken += len(piece)
            try:
                found = reader.feed(piece)
            except HandshakeError as error:
                assert refusal(error).startswith(b"HTTP/1.1 %d " % error.status)
                break
            if found is not None:
                assert reader.rest == stream[taken - len(reader.rest) : taken]
                break
            assert len(reader._buffer) <= _SETTINGS.max_head
        if found is not None:
            assert found.response.count(b"\r\n\r\n") == 1, "something of the request gets into the head of the answer"
            assert found.response.endswith(b"\r\n\r\n")
        said.append(found)
    assert all(each == said[0] for each in said), "it matters how the bytes arrive"


def run_proxy(data: bytes) -> None:
    """A header and what is behind it, or the one error."""
    choice, stream = head(data, 1)
    said: list[tuple[ProxyHeader | None, bytes, bool]] = []
    for pieces in ways(stream, choice[0]):
        reader = HeaderReader()
        found, failed, at = None, False, 0
        for place, piece in enumerate(pieces):
            try:
                found = reader.feed(piece)
            except ProxyHeaderError:
                failed = True
                break
            at = place + 1
            if found is not None:
                break
        behind = reader.rest + b"".join(pieces[at:]) if found is not None else b""
        said.append((found, behind, failed))
    assert all(each == said[0] for each in said), "it matters how the bytes arrive"


def masked(first: int, payload: bytes, key: bytes = b"\x01\x02\x03\x04") -> bytes:
    """A frame of a client."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes((first,)) + length + key + unmask(payload, key, 0)


def _frame_seeds() -> Iterator[bytes]:
    yield b"\x03" + masked(0x82, b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00")
    yield b"\x05" + masked(0x02, b"abc") + masked(0x80, b"def") + masked(0x89, b"ping") + masked(0x88, b"\x03\xe8")
    yield b"\x07" + masked(0x82, bytes(300)) + masked(0x8A, b"") + masked(0x88, b"\x03\xe9bye")
    yield b"\x00" + masked(0x81, b"text")
    yield b"\x00\x82\xff" + bytes(7) + b"\x7f" + b"\0\0\0\0"
    yield b"\x00\x82\x05hello"
    for opcode in Opcode:
        yield b"\x01" + masked(0x80 | opcode, b"\x03\xe8x")


def _handshake_seeds() -> Iterator[bytes]:
    yield b"\x11" + UPGRADE
    yield b"\x21" + UPGRADE + b"\x82\x80\0\0\0\0"
    yield b"\x00" + UPGRADE.replace(b"\r\n\r\n", b"\r\nOrigin: http://localhost:8083\r\n\r\n")
    yield b"\x00" + UPGRADE.replace(b"13", b"12")
    yield b"\x00" + UPGRADE.replace(b"mqtt HTTP", b"other?x HTTP")
    yield b"\x00POST / HTTP/1.1\r\n\r\n"
    yield b"\x00GET / HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


def _proxy_seeds() -> Iterator[bytes]:
    yield b"\x09PROXY TCP4 198.51.100.7 203.0.113.5 51234 1883\r\n\x10\x0c"
    yield b"\x09PROXY TCP6 2001:db8::1 ::1 51234 1883\r\n"
    yield b"\x09PROXY UNKNOWN whatever\r\nrest"
    four, six = bytes(range(12)), bytes(range(36))
    ssl = b"\x20\x00\x0d\x01\0\0\0\0\x22\x00\x05robot"
    yield b"\x03" + _SIGNATURE + b"\x21\x11\x00\x0c" + four + b"rest"
    yield b"\x03" + _SIGNATURE + b"\x21\x21\x00\x24" + six
    yield b"\x03" + _SIGNATURE + b"\x20\x00\x00\x00"
    yield b"\x03" + _SIGNATURE + b"\x21\x11" + (12 + len(ssl)).to_bytes(2, "big") + four + ssl
    yield b"\x03" + _SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216)


TARGETS = (
    Target(
        "websocket-frames", run_frames, _frame_seeds, (b"\x82\x80", b"\x88\x82", b"\xfe\x01\x00", b"\xff"), 700, 4000
    ),
    Target(
        "websocket-handshake",
        run_handshake,
        _handshake_seeds,
        (b"\r\n", b"Origin: ", b"null", b"Sec-WebSocket-Protocol: ", b"mqttv3.1", b"http://[::1]:80", b"GET ", b"\0"),
        800,
        25000,
    ),
    Target(
        "proxy",
        run_proxy,
        _proxy_seeds,
        (_SIGNATURE, b"PROXY ", b"TCP6 ", b"::ffff:1.2.3.4", b"\x20\x00\x05"),
        400,
        4000,
    ),
)
__all__ = ["TARGETS", "UPGRADE", "masked"]
