"""Sends what a capture holds to a listener: the same bytes, on as many connections, at the same times or faster.

What comes back is read and thrown away, so that a broker which answers is not held up by its own answers.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import click

from iot_mqtt.sdk.capture import Record

#: Seconds to connect, and for the other side to take what is sent.
_PATIENCE: Final = 10.0
#: Seconds after the last byte in which answers are still counted.
_LINGER: Final = 0.3


class SendingFailed(click.ClickException):
    """The target is no address, or nobody is there."""


@dataclass(slots=True)
class Sent:
    """What was done."""

    connections: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    #: Connections that the other side closed before all was sent.
    refused: int = 0


@dataclass(slots=True)
class _Links:
    """Open connections, by their number in the capture; None: the other side closed it."""

    address: tuple[str, int]
    sent: Sent
    selector: selectors.BaseSelector
    sockets: dict[int, socket.socket | None] = field(default_factory=dict)

    def to(self, connection: int) -> socket.socket | None:
        if connection not in self.sockets:
            try:
                link = socket.create_connection(self.address, _PATIENCE)
            except OSError as error:
                raise SendingFailed(f"cannot connect to {self.address[0]}:{self.address[1]}: {error}") from error
            self.sockets[connection] = link
            self.selector.register(link, selectors.EVENT_READ, connection)
            self.sent.connections += 1
        return self.sockets[connection]

    def send(self, connection: int, data: bytes) -> None:
        link = self.to(connection)
        if link is None:
            return
        try:
            link.sendall(data)
            self.sent.bytes_up += len(data)
        except OSError:
            self.sent.refused += 1
            self.close(connection)

    def close(self, connection: int) -> None:
        link = self.sockets.get(connection)
        if link is not None:
            self.selector.unregister(link)
            link.close()
        self.sockets[connection] = None

    def listen(self, seconds: float) -> None:
        """Read what comes, for so long; nothing at all if no connection is open."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.0, until - time.monotonic())
            ready = self.selector.select(left)
            for key, _ in ready:
                self._read(key)
            if not left:
                return

    def _read(self, key: selectors.SelectorKey) -> None:
        link = key.fileobj
        assert isinstance(link, socket.socket)
        try:
            data = link.recv(65_536)
        except OSError:
            data = b""
        self.sent.bytes_down += len(data)
        if not data:
            self.close(key.data)


def send(target: str, records: Iterable[Record], *, fast: bool) -> Sent:
    """Send the bytes of the gateways. Raises ``SendingFailed``."""
    host, colon, port = target.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65_536:
        raise SendingFailed(f"{target!r} is no HOST:PORT")
    with selectors.DefaultSelector() as selector:
        links = _Links((host.strip("[]"), int(port)), Sent(), selector)
        try:
            _play(links, records, fast=fast)
            links.listen(_LINGER)
        finally:
            for connection in list(links.sockets):
                links.close(connection)
        return links.sent


def _play(links: _Links, records: Iterable[Record], *, fast: bool) -> None:
    start = time.monotonic()
    for record in records:
        late = 0.0 if fast else start + record.ms / 1000 - time.monotonic()
        links.listen(max(0.0, late))
        if record.kind == "opened":
            links.close(record.connection)
            del links.sockets[record.connection]
            links.to(record.connection)
        elif record.kind == "up":
            links.send(record.connection, record.data)
        elif record.kind == "closed" and record.connection in links.sockets:
            links.close(record.connection)
