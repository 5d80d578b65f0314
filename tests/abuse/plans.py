"""What good, silent and slow clients of each port of a node say, as ``herd`` is told it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from iot_mqtt.codec import Connect, Pingreq, encode
from iot_mqtt.grid.ignite.frames import encode_hello
from iot_mqtt.values import ProtocolVersion
from tests.abuse.herd import NUMBER
from tests.doubles import gateway

HERD: Final = Path(__file__).with_name("herd.py")

_CONNECT: Final = encode(
    Connect(ProtocolVersion.V5, "herd-" + NUMBER.decode(), clean_start=True, keep_alive=0), ProtocolVersion.V5
)
_PING: Final = encode(Pingreq(), ProtocolVersion.V5)
_PONG: Final = r"\xd0\x00"
_CONNACK: Final = r"\x20.\x00\x00"
_UPGRADE: Final = (
    b"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
_REQUEST: Final = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
#: The beginning of a CONNECT with a client id of 980 bytes.
_LONG_CONNECT: Final = b"\x10\xe4\x07\x00\x04MQTT\x05\x02\x00\x00\x00\x03\xd4" + b"c" * 900
#: The beginning of a ClientHello that never ends.
_CLIENT_HELLO: Final = b"\x16\x03\x01\x20\x00\x01\x00\x1f\xfc\x03\x03" + bytes(1000)


def masked(data: bytes) -> bytes:
    """In a WebSocket frame of a client, with a mask that changes nothing."""
    return bytes((0x82, 0x80 | len(data), 0, 0, 0, 0)) + data


def _port(port: int, steps: list[tuple[bytes, str]], drip: bytes, again: list[tuple[bytes, str]]) -> dict[str, Any]:
    return {
        "port": port,
        "steps": [(say.hex(), answer) for say, answer in steps],
        "again": [(say.hex(), answer) for say, answer in again],
        "drip": drip.hex(),
    }


def mqtt(port: int, ca: Path | None = None) -> dict[str, Any]:
    """The MQTT port, or over TLS with the authority's certificate."""
    found = _port(port, [(_CONNECT, _CONNACK)], _CLIENT_HELLO if ca else _LONG_CONNECT, [(_PING, _PONG)])
    return found | {"ca": None if ca is None else str(ca)}


def websocket(port: int) -> dict[str, Any]:
    """The same in WebSocket frames."""
    steps = [(_UPGRADE, r"HTTP/1.1 101 .*\r\n\r\n"), (masked(_CONNECT), r"\x82." + _CONNACK)]
    return _port(port, steps, _UPGRADE[:-4] + b"\r\nX: " + b"x" * 1000, [(masked(_PING), r"\x82\x02" + _PONG)])


def gateways(port: int) -> dict[str, Any]:
    """The port of PLC gateways."""
    login = gateway.login("herd-" + NUMBER.decode())
    beat = gateway.heartbeat()
    return _port(port, [(login, r".{9,}\x00")], login[:-1], [(beat, ".{10,}")])


def admin(port: int) -> dict[str, Any]:
    """The admin port: a request, and it is over."""
    return _port(port, [(_REQUEST, "HTTP/1.1 200 ")], _REQUEST[:-4] + b"\r\nX: " + b"x" * 1000, [])


def messaging(port: int, token: str) -> dict[str, Any]:
    """The messaging gateway of an Ignite server: nobody's HELLO, with the token."""
    hello = encode_hello(token, 0, 0, 1)
    return _port(port, [(hello, r"....\x81")], hello[:5] + bytes(1000), [])


#: By the names of listeners.
PORTS: Final = {"mqtt": mqtt, "ws": websocket, "gateway": gateways, "admin": admin}


def begin(plan: Mapping[str, Any]) -> subprocess.Popen[str]:
    """A herd on its way."""
    process = subprocess.Popen([sys.executable, str(HERD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    return process


def figures(process: subprocess.Popen[str], within: float) -> dict[str, Any]:
    """What a herd says in the end."""
    assert process.stdout is not None
    process.stdin = None
    text, _ = process.communicate(timeout=within)
    found: dict[str, Any] = json.loads(text)
    return found
