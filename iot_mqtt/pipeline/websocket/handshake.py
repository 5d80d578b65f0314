"""The opening handshake (RFC 6455 section 4): an HTTP/1.1 request that asks to stop speaking HTTP.

``HandshakeReader`` is sans-IO and takes its bytes in any pieces. What is refused gets a proper HTTP answer, because
the other side may well be a browser, a health check or a person with curl.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha1

from iot_mqtt.pipeline.settings import WebSocketSettings
from iot_mqtt.pipeline.websocket.origins import is_allowed

__all__ = ["Handshake", "HandshakeError", "HandshakeReader", "refusal"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
#: A target with the host in it, as for a proxy; every server takes it (RFC 9112, 3.2.2).
_ABSOLUTE = re.compile(r"https?://(?P<host>[^/?#@]+)(?P<path>/[^?#]*)?(?:\?[^#]*)?", re.IGNORECASE)
#: Headers that decide something here and may come once only.
_SINGLE = frozenset(
    ("host", "origin", "sec-websocket-key", "sec-websocket-version", "content-length", "transfer-encoding")
)
_STATUS = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    505: "HTTP Version Not Supported",
}


class HandshakeError(Exception):
    """A request that is no handshake for us, with the status to answer."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Handshake:
    """An accepted request and the response to it."""

    path: str
    subprotocol: str
    response: bytes


class HandshakeReader:
    """Bytes in, handshake out; ``rest`` then has what followed the request."""

    __slots__ = ("rest", "_buffer", "_settings")

    def __init__(self, settings: WebSocketSettings) -> None:
        self._settings = settings
        self._buffer = b""
        self.rest = b""

    def feed(self, data: bytes) -> Handshake | None:
        """Take more bytes; None until the request is complete, ``HandshakeError`` if it is refused."""
        # Only the end of what was there can complete the empty line.
        searched = max(len(self._buffer) - 3, 0)
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n", searched)
        if end > self._settings.max_head or (end < 0 and len(self._buffer) > self._settings.max_head):
            raise HandshakeError(431, f"the request head exceeds {self._settings.max_head} bytes")
        if end < 0:
            if not b"GET ".startswith(self._buffer[:4]):
                raise HandshakeError(405, "a WebSocket is asked for with GET")
            return None
        self.rest = self._buffer[end + 4 :]
        return accept(self._buffer[:end], self._settings)


def accept(head: bytes, settings: WebSocketSettings) -> Handshake:
    """Check a request (without its empty line) and write the response."""
    lines = head.decode("latin-1").split("\r\n")
    host, path = _requested(lines[0])
    headers = _headers(lines[1:])
    if path != settings.path:
        raise HandshakeError(404, f"MQTT is at {settings.path}")
    if "content-length" in headers or "transfer-encoding" in headers:
        raise HandshakeError(400, "a handshake has no body")
    if "host" not in headers:
        raise HandshakeError(400, "no Host header")
    host = host or headers["host"]
    origin, allowed = headers.get("origin"), settings.allowed_origins
    if not is_allowed(origin, host, allowed, local=settings.local, dashboard=settings.dashboard()):
        raise HandshakeError(403, "pages of that origin may not connect here (allowed_origins)")
    if "websocket" not in _tokens(headers.get("upgrade", "")) or "upgrade" not in _tokens(
        headers.get("connection", "")
    ):
        raise HandshakeError(426, "this port speaks WebSocket")
    if headers.get("sec-websocket-version") != "13":
        raise HandshakeError(426, "WebSocket version 13 is spoken here")
    key = _key(headers.get("sec-websocket-key", ""))
    subprotocol = _subprotocol(headers.get("sec-websocket-protocol", ""), settings)
    return Handshake(path, subprotocol, _response(key, subprotocol))


def _requested(line: str) -> tuple[str | None, str]:
    """The host, if the request line has it, and the path."""
    parts = line.split(" ")
    if len(parts) != 3:
        raise HandshakeError(400, "not an HTTP request")
    method, target, version = parts
    if method != "GET":
        raise HandshakeError(405, "a WebSocket is asked for with GET")
    if version != "HTTP/1.1":
        raise HandshakeError(505, "HTTP/1.1 is spoken here")
    if target.startswith("/"):
        return None, target.partition("?")[0]
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise HandshakeError(400, "the request's target is neither a path nor an address of HTTP")
    return absolute["host"], absolute["path"] or "/"


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.match(name) or any(c < " " and c != "\t" for c in value):
            raise HandshakeError(400, "a malformed header")
        name, value = name.lower(), value.strip(" \t")
        if name in headers:
            if name in _SINGLE:
                raise HandshakeError(400, f"two {name} headers")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _tokens(value: str) -> list[str]:
    return [each.strip().lower() for each in value.split(",")]


def _key(value: str) -> bytes:
    try:
        if len(base64.b64decode(value, validate=True)) == 16:
            return value.encode()
    except (binascii.Error, ValueError):
        pass
    raise HandshakeError(400, "Sec-WebSocket-Key is not 16 bytes in base64")


def _subprotocol(offered: str, settings: WebSocketSettings) -> str:
    """The first of the client's that is ours [MQTT-6.0.0-3] [MQTT-6.0.0-4]."""
    for each in offered.split(","):
        if each.strip() in settings.subprotocols:
            return each.strip()
    raise HandshakeError(400, f"none of the subprotocols {', '.join(settings.subprotocols)} was offered")


def _response(key: bytes, subprotocol: str) -> bytes:
    # SHA-1 is the protocol's, and proves nothing but that the server understood the request.
    proof = base64.b64encode(sha1(key + _GUID, usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + proof + b"\r\nSec-WebSocket-Protocol: " + subprotocol.encode() + b"\r\n\r\n"
    )


def refusal(error: HandshakeError) -> bytes:
    """The HTTP answer to a request that was refused."""
    body = f"{error.detail}\n".encode()
    extra = {426: "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", 405: "Allow: GET\r\n"}.get(error.status, "")
    head = (
        f"HTTP/1.1 {error.status} {_STATUS[error.status]}\r\n{extra}Connection: close\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
