"""A blocking MQTT client for short conversations, where the test decides every byte."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from types import TracebackType

from systemkit import wire
from systemkit.wire import Publication, Received, Splitter


class Plain:
    """One TCP connection that speaks packets; nothing is answered unless the test answers it."""

    def __init__(self, port: int, *, version: int = 4, timeout: float = 20, sock: socket.socket | None = None) -> None:
        self.version = version
        self.sock = sock or socket.create_connection(("127.0.0.1", port), timeout)
        self.sock.settimeout(timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closed = False
        self._splitter = Splitter()
        self._waiting: deque[Received] = deque()

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.sock.close()

    def connect(
        self,
        client_id: str,
        *,
        clean: bool = True,
        keep_alive: int = 0,
        expiry: int = 0,
        receive_maximum: int = 0,
        will: tuple[str, bytes, int, bool] | None = None,
    ) -> Received:
        """CONNECT, and the CONNACK that must accept it."""
        properties = b"\x11" + expiry.to_bytes(4, "big") if expiry else b""
        if receive_maximum:
            properties += b"\x21" + receive_maximum.to_bytes(2, "big")
        self.send(
            wire.connect(
                client_id, version=self.version, clean=clean, keep_alive=keep_alive, properties=properties, will=will
            )
        )
        answer = self.expect(wire.CONNACK)
        assert answer.reason() == 0, f"CONNACK {answer.reason():#x}"
        return answer

    def subscribe(self, *filters: tuple[str, int]) -> None:
        """SUBSCRIBE, and the SUBACK that must grant it all."""
        self.send(wire.subscribe(1, list(filters), version=self.version))
        granted = self.expect(wire.SUBACK).body[-len(filters) :]
        assert max(granted) <= 2, granted.hex()

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, packet_id: int = 0, retain: bool = False) -> None:
        """PUBLISH, no more."""
        self.send(wire.publish(topic, payload, qos=qos, packet_id=packet_id, retain=retain, version=self.version))

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def receive(self, timeout: float | None = None) -> Received | None:
        """The next packet; None once the broker closed the connection. TimeoutError: it says nothing."""
        deadline = time.monotonic() + (self.sock.gettimeout() or 10) if timeout is None else time.monotonic() + timeout
        limit = self.sock.gettimeout()
        try:
            while not self._waiting:
                if self.closed:
                    return None
                self.sock.settimeout(max(0.001, deadline - time.monotonic()))
                try:
                    data = self.sock.recv(65536)
                except ConnectionError:
                    data = b""
                self.closed = not data
                self._waiting.extend(self._splitter.feed(data))
        finally:
            self.sock.settimeout(limit)
        return self._waiting.popleft()

    def expect(self, kind: int) -> Received:
        """The next packet, which must be of this type."""
        got = self.receive()
        assert got is not None, f"closed instead of packet type {kind}"
        assert got.kind == kind, f"packet type {got.kind} ({got.body.hex()}) instead of {kind}"
        return got

    def expect_publication(self) -> Publication:
        """The next packet, which must be a PUBLISH."""
        return wire.publication(self.expect(wire.PUBLISH), self.version)

    def expect_silence(self, seconds: float = 0.3) -> None:
        """Nothing comes for a while."""
        with contextlib.suppress(TimeoutError):
            raise AssertionError(f"came, though nothing should: {self.receive(seconds)}")

    def until_closed(self) -> list[Received]:
        """Everything up to the end of the connection, which must come."""
        packets = []
        while (got := self.receive()) is not None:
            packets.append(got)
        return packets

    def ping(self) -> None:
        """PINGREQ and its answer; what was sent before it has been dealt with."""
        self.send(b"\xc0\x00")
        self.expect(wire.PINGRESP)

    def disconnect(self) -> None:
        """DISCONNECT in peace."""
        self.send(b"\xe0\x00")
        self.sock.close()
