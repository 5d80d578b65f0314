"""Bytes to a broker and back, over TCP, TLS, a Unix socket or a WebSocket; nothing here waits once it is connected."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from iot_mqtt.app.client.errors import ClientError, NoConnection

if TYPE_CHECKING:
    from wsproto.events import Event

#: Bytes read at once.
_PIECE: Final = 65_536


class Stream(Protocol):
    """What a client reads from and writes to."""

    @property
    def waiting(self) -> bool:
        """Whether bytes that were taken have still to be written; ``receive`` writes them, too."""

    def fileno(self) -> int: ...

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """As many of the bytes as are taken now."""

    def receive(self) -> bytes | None:
        """What has come; None if there is nothing now, ``b""`` at the end."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to believe, and who we are."""

    cafile: str | None = None
    capath: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    alpn: str | None = None

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.cafile, capath=self.capath)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
            if self.alpn:
                context.set_alpn_protocols([self.alpn])
        except (OSError, ValueError) as error:
            named = ", ".join(filter(None, (self.cafile, self.capath, self.cert, self.key)))
            raise ClientError(f"cannot use {named}: {getattr(error, 'reason', None) or error}") from error
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """Where the broker is."""

    host: str
    port: int
    tls: Tls | None = None
    #: Path of a WebSocket.
    ws: str | None = None
    unix: str | None = None
    #: Local address.
    bind: str | None = None

    def __str__(self) -> str:
        return self.unix or (f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}")


def connect(address: Address, patience: float) -> Stream:
    """An open stream, or ``NoConnection`` after ``patience`` seconds."""
    until = time.monotonic() + patience
    try:
        link = _open(address, patience)
    except OSError as error:
        raise NoConnection(f"cannot connect to {address}: {_why(error)}") from error
    try:
        if address.tls is not None:
            link.settimeout(max(0.1, until - time.monotonic()))
            link = address.tls.context().wrap_socket(link, server_hostname=address.host)
        if address.ws is not None:
            return WebSocketStream(link, address, until)
        link.settimeout(0)
    except OSError as error:
        link.close()
        raise NoConnection(f"cannot connect to {address}: {_why(error)}") from error
    except BaseException:
        link.close()
        raise
    return SocketStream(link)


def _open(address: Address, patience: float) -> socket.socket:
    if address.unix is not None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(patience)
        link.connect(address.unix)
        return link
    source = None if address.bind is None else (address.bind, 0)
    link = socket.create_connection((address.host, address.port), patience, source)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not believed: {error.verify_message}; name its authority with --cafile"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}; is this the TLS port?"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is the broker running, and is this its port?"
    return error.strerror or str(error)


class SocketStream:
    """A socket that does not wait, with TLS or without."""

    waiting = False

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def fileno(self) -> int:
        return self._link.fileno()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self._link.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError:
            # Reading says how it ended; what the broker has said last is still to be read.
            return len(data)

    def receive(self) -> bytes | None:
        try:
            return self._link.recv(_PIECE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError:
            return b""

    def close(self) -> None:
        self._link.close()


class WebSocketStream:
    """The same in binary frames of a WebSocket."""

    def __init__(self, link: socket.socket, address: Address, until: float) -> None:
        # Late: hardly anybody uses it.
        from wsproto import WSConnection
        from wsproto.connection import ConnectionType
        from wsproto.events import Request

        self._stream = SocketStream(link)
        self._ended = False
        self._out = bytearray()
        self._came: list[bytes] = []
        self._ws = WSConnection(ConnectionType.CLIENT)
        path = address.ws or "/"
        host = f"[{address.host}]" if ":" in address.host else address.host
        request = Request(host=f"{host}:{address.port}", target=path, subprotocols=["mqtt"])
        link.settimeout(max(0.1, until - time.monotonic()))
        link.sendall(self._ws.send(request))
        while not self._opened(link.recv(_PIECE), path):
            link.settimeout(max(0.1, until - time.monotonic()))
        link.settimeout(0)

    def _opened(self, data: bytes, path: str) -> bool:
        from wsproto.events import AcceptConnection, RejectConnection
        from wsproto.utilities import RemoteProtocolError

        try:
            self._ws.receive_data(data or None)
            events = list(self._ws.events())
        except RemoteProtocolError as error:
            raise NoConnection(f"no WebSocket at {path}: {error}") from error
        if not data:
            raise NoConnection(f"no WebSocket at {path}: the connection was closed")
        opened = False
        for event in events:
            if isinstance(event, RejectConnection):
                raise NoConnection(f"no WebSocket at {path}: the answer was HTTP {event.status_code}")
            if isinstance(event, AcceptConnection):
                if event.subprotocol != "mqtt":
                    raise NoConnection(f"the WebSocket at {path} does not speak MQTT")
                opened = True
            elif opened:
                self._take(event)
        return opened

    @property
    def waiting(self) -> bool:
        return bool(self._out)

    def fileno(self) -> int:
        return self._stream.fileno()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        from wsproto.events import BytesMessage

        self._flush()
        if self._out or self._ended:
            return len(data) if self._ended else 0
        piece = bytes(data[:_PIECE])
        self._out += self._ws.send(BytesMessage(data=piece))
        self._flush()
        return len(piece)

    def receive(self) -> bytes | None:
        from wsproto.utilities import RemoteProtocolError

        self._flush()
        if not self._came and not self._ended:
            data = self._stream.receive()
            if data is None:
                return None
            if not data:
                self._ended = True
                return b""
            try:
                self._ws.receive_data(data)
                for event in self._ws.events():
                    self._take(event)
            except RemoteProtocolError:
                self._ended = True
        if self._came:
            data, self._came = b"".join(self._came), []
            return data
        return b"" if self._ended else None

    def _take(self, event: Event) -> None:
        from wsproto.events import BytesMessage, CloseConnection, Ping

        if isinstance(event, BytesMessage):
            self._came.append(bytes(event.data))
        elif isinstance(event, Ping):
            self._out += self._ws.send(event.response())
        elif isinstance(event, CloseConnection):
            self._ended = True

    def _flush(self) -> None:
        if self._out:
            del self._out[: self._stream.send(self._out)]

    def close(self) -> None:
        self._stream.close()
