"""Whether a server is there, asked in its own language: the shortest conversation that only a working one can hold.

Every function connects, asks, and closes. Without a proper answer within ``TIMEOUT`` it raises ``NotThere``, whose
text says how far it got.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from typing import NamedTuple

from iot_mqtt.app.engines.ports import HOST

#: Seconds for a connection and for each answer.
TIMEOUT = 2.0
_THIN_VERSION = (1, 6, 0)
_THIN_CLIENT = 2
_GET_STATE = 5000
_FLAG_ERROR, _FLAG_TOPOLOGY = 1, 2
_ACTIVE = 1
_GATEWAY_VERSION = 2
_HELLO, _WELCOME, _REFUSED, _TOPOLOGY = 0x01, 0x81, 0x82, 0x85
_MODE = re.compile(r"^Mode: (\w+)", re.MULTILINE)
_METADATA = 3
_UNKNOWN = 0xFFFF_FFFF
#: No answer that is asked for here is longer; what is longer comes from something else on that port.
_LONGEST = 1 << 20


#: What to connect with; None: plain text.
Tls = ssl.SSLContext | None


class NotThere(Exception):
    """Nobody answers, or not as such a server does."""


class Kafka(NamedTuple):
    """What a metadata answer says."""

    brokers: int
    controller: int


class Servers(NamedTuple):
    """What an Ignite server says of all of them."""

    there: int
    #: Partitions that have fewer copies than they should; None: the servers have just changed.
    missing: int | None


# --- ZooKeeper ------------------------------------------------------------------------------------------------


def zookeeper(port: int, *, tls: Tls = None) -> str:
    """The mode of a ZooKeeper server that serves: standalone, leader or follower."""
    with _Conversation(port, tls=tls) as peer:
        peer.send(b"srvr")
        answer = peer.rest().decode("utf-8", "replace")
    if found := _MODE.search(answer):
        return found[1]
    raise NotThere(f"it says {answer.strip()[:100]!r}")


# --- Ignite ---------------------------------------------------------------------------------------------------


def ignite_active(port: int, *, tls: Tls = None) -> bool:
    """Whether the grid behind a thin-client port works."""
    with _Conversation(port, tls=tls) as peer:
        peer.send(_little(struct.pack("<bhhhb", 1, *_THIN_VERSION, _THIN_CLIENT)))
        if peer.frame("<i")[:1] != b"\x01":
            raise NotThere("the thin client's handshake is refused")
        return _ask(peer, _GET_STATE)[:1] == bytes([_ACTIVE])


def _ask(peer: _Conversation, operation: int) -> bytes:
    """One request of the thin client, without a body, and the body of its answer."""
    peer.send(_little(struct.pack("<hq", operation, 1)))
    answer = peer.frame("<i")
    _, flags = struct.unpack_from("<qh", answer)
    if flags & _FLAG_ERROR:
        raise NotThere(f"thin client operation {operation} failed: {answer[10:].decode('utf-8', 'replace')[:200]}")
    return answer[10 + (12 if flags & _FLAG_TOPOLOGY else 0) :]


def _little(body: bytes) -> bytes:
    return struct.pack("<i", len(body)) + body


def gateway(port: int, token: str, *, host: str = HOST, tls: Tls = None) -> Servers:
    """What the messaging gateway says of the Ignite servers (cluster/gateway/PROTOCOL.md). Node 0 disturbs nobody."""
    text = token.encode()
    hello = struct.pack(">BBH", _HELLO, _GATEWAY_VERSION, len(text)) + text + struct.pack(">HQI", 0, 0, 0)
    with _Conversation(port, host, tls) as peer:
        peer.send(struct.pack(">I", len(hello)) + hello)
        while frame := peer.frame(">I"):
            if frame[0] == _TOPOLOGY:
                _, servers, missing = struct.unpack_from(">QHI", frame, 1)
                return Servers(servers, None if missing == _UNKNOWN else missing)
            if frame[0] == _REFUSED:
                raise NotThere(f"the gateway refuses: {frame[4:].decode('utf-8', 'replace')}")
            if frame[0] != _WELCOME:
                break
    raise NotThere("this is no gateway")


# --- Kafka ----------------------------------------------------------------------------------------------------


def kafka(port: int, *, tls: Tls = None) -> Kafka:
    """Ask for metadata of no topic (version 1), which lists the brokers.

    Answer: correlation (4), brokers (4) x ( node (4), host, port (4), rack ), controller (4), ...
    """
    request = struct.pack(">hhih", _METADATA, 1, 1, -1) + struct.pack(">i", 0)
    with _Conversation(port, tls=tls) as peer:
        peer.send(struct.pack(">i", len(request)) + request)
        answer = peer.frame(">i")
    brokers: int
    controller: int
    try:
        (brokers,) = struct.unpack_from(">i", answer, 4)
        at = 8
        for _ in range(brokers):
            at = _behind_text(answer, at + 4) + 4
            at = _behind_text(answer, at)
        (controller,) = struct.unpack_from(">i", answer, at)
    except struct.error as error:
        raise NotThere("its metadata makes no sense") from error
    return Kafka(brokers, controller)


def _behind_text(data: bytes, at: int) -> int:
    length: int
    (length,) = struct.unpack_from(">h", data, at)
    return at + 2 + max(length, 0)


# --- all ------------------------------------------------------------------------------------------------------


class _Conversation:
    """A blocking connection whose every failure is ``NotThere``."""

    def __init__(self, port: int, host: str = HOST, tls: Tls = None) -> None:
        self._tls = tls
        self._host = host
        self._port = port

    def __enter__(self) -> _Conversation:
        try:
            self._socket = socket.create_connection((self._host, self._port), TIMEOUT)
            if self._tls is not None:
                self._socket = self._tls.wrap_socket(self._socket, server_hostname=self._host)
        except OSError as error:
            raise NotThere(f"port {self._port}: {error.strerror or error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise NotThere(f"port {self._port}: {error.strerror or error}") from error

    def frame(self, length: str) -> bytes:
        """The body of a frame that begins with its length."""
        (size,) = struct.unpack(length, self._exactly(struct.calcsize(length)))
        if not 0 < size <= _LONGEST:
            raise NotThere(f"port {self._port}: something else listens there")
        return self._exactly(size)

    def rest(self) -> bytes:
        """Everything until the peer closes."""
        data = b""
        while len(data) < _LONGEST and (more := self._some(65_536)):
            data += more
        return data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._some(size - len(data))
            if not more:
                raise NotThere(f"port {self._port}: it closed the connection")
            data += more
        return data

    def _some(self, size: int) -> bytes:
        try:
            return self._socket.recv(size)
        except OSError as error:
            raise NotThere(f"port {self._port}: {error.strerror or error}") from error
