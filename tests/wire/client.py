"""A blocking MQTT client of a few hundred lines for asking a broker questions, right and wrong ones.

Nothing happens by itself: no automatic acknowledgement, no ping, no reconnect. Every wait has a deadline and
fails with a sentence that says what was expected and what came instead, because these sentences are what the
tables of known differences (`differences/*.yaml`) are matched against.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from . import packets
from .packets import (
    CONNACK,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    V5,
    Packet,
    Will,
)


class Mismatch(AssertionError):
    """The broker did something else than expected."""


class Transport:
    """Bytes over TCP. ``receive`` answers b"" at the end and None when nothing came in time."""

    def __init__(self, host: str, port: int, deadline: float) -> None:
        self.socket = socket.create_connection((host, port), timeout=deadline)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send it all; a connection that the broker has closed already is found out on reading."""
        try:
            self.socket.settimeout(10)
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self, timeout: float) -> bytes | None:
        """What has come, waiting at most ``timeout`` seconds."""
        self.socket.settimeout(max(timeout, 0.001))
        try:
            return self.socket.recv(65536)
        except TimeoutError:
            return None
        except (ConnectionResetError, BrokenPipeError):
            return b""

    def close(self) -> None:
        """Close without a word, as a network failure would."""
        self.socket.close()


class Client:
    """One connection to the broker, speaking one protocol version."""

    def __init__(self, transport: Transport, version: int, deadline: float, client_id: str = "") -> None:
        self.transport = transport
        self.version = version
        self.deadline = deadline
        self.client_id = client_id
        self.connack = Packet(CONNACK, b"")
        self.pending: deque[Packet] = deque()
        self._buffer = b""
        self._ended = False
        self._last_id = 0
        self._aliases: dict[int, str] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.drop()

    # --- sending ----------------------------------------------------------------------------------------------

    def send(self, *pieces: bytes) -> None:
        """Send raw bytes in one write."""
        self.transport.send(b"".join(pieces))

    def next_id(self) -> int:
        """The next packet id; counts up, tests never need to wrap."""
        self._last_id += 1
        return self._last_id

    def connect(self, *, clean: bool = True, will: Will | None = None, **options: Any) -> Packet:
        """Send CONNECT and return the CONNACK, whatever it says."""
        self.send(packets.connect(self.version, self.client_id, clean=clean, will=will, **options))
        self.connack = self.expect(CONNACK)
        return self.connack

    def subscribe(self, *filters: str | tuple[str, int], qos: int = 0, **options: Any) -> tuple[int, ...]:
        """Subscribe and return the reason codes; options: no_local, as_published, handling, identifier."""
        bits = (
            qos
            | options.get("no_local", 0) << 2
            | options.get("as_published", 0) << 3
            | options.get("handling", 0) << 4
        )
        pairs = [(item, bits) if isinstance(item, str) else item for item in filters]
        number = self.next_id()
        self.send(packets.subscribe(self.version, number, pairs, subscription_identifier=options.get("identifier")))
        answer = self.expect(SUBACK)
        if answer.packet_id != number or len(answer.reasons) != len(pairs):
            raise Mismatch(f"SUBACK for id {number} with {len(pairs)} filters was {answer}")
        return answer.reasons

    def unsubscribe(self, *filters: str) -> tuple[int, ...]:
        """Unsubscribe and return the reason codes (none before version 5)."""
        number = self.next_id()
        self.send(packets.unsubscribe(self.version, number, list(filters)))
        answer = self.expect(UNSUBACK)
        if answer.packet_id != number:
            raise Mismatch(f"UNSUBACK for id {number} was {answer}")
        return answer.reasons

    def publish(self, topic: str, payload: bytes | str = b"", *, qos: int = 0, **options: Any) -> int:
        """Publish and finish the exchange; returns the reason code of the PUBACK or PUBREC."""
        content = payload.encode() if isinstance(payload, str) else payload
        number = self.next_id() if qos else 0
        self.send(packets.publish(self.version, topic, content, qos=qos, packet_id=number, **options))
        if qos == 0:
            return 0
        answer = self.expect(PUBACK if qos == 1 else PUBREC)
        if answer.packet_id != number:
            raise Mismatch(f"acknowledgement of publish {number} was {answer}")
        if qos == 2 and answer.reason < 0x80:
            self.send(packets.ack(PUBREL, number))
            if self.expect(PUBCOMP).packet_id != number:
                raise Mismatch("PUBCOMP with another packet id")
        return answer.reason

    def ack(self, kind: int, packet_id: int, reason: int = 0, **props: Any) -> None:
        """Send one acknowledgement."""
        self.send(packets.ack(kind, packet_id, reason, **props))

    def disconnect(self, reason: int = 0, **props: Any) -> None:
        """Say goodbye and wait until the broker has closed, so that what follows happens after it."""
        self.send(packets.disconnect(self.version, reason, **props))
        with contextlib.suppress(OSError):
            self.transport.socket.shutdown(socket.SHUT_WR)
        end = time.monotonic() + self.deadline
        while not self._ended and time.monotonic() < end:
            if self.transport.receive(end - time.monotonic()) == b"":
                self._ended = True
        self.transport.close()

    def drop(self) -> None:
        """Lose the connection without DISCONNECT."""
        self.transport.close()

    # --- receiving --------------------------------------------------------------------------------------------

    def receive(self, timeout: float | None = None) -> Packet | None:
        """The next packet in the order received, or None when the broker closed; nothing in time is a Mismatch."""
        if self.pending:
            return self.pending.popleft()
        try:
            return self._read(time.monotonic() + (self.deadline if timeout is None else timeout))
        except TimeoutError:
            raise Mismatch("expected a packet, nothing came") from None

    def expect(self, kind: int, timeout: float | None = None) -> Packet:
        """The next packet of this kind; messages that come in between wait in ``pending``."""
        for packet in self.pending:
            if packet.kind == kind:
                self.pending.remove(packet)
                return packet
        end = time.monotonic() + (self.deadline if timeout is None else timeout)
        while True:
            try:
                packet_or_end = self._read(end)
            except TimeoutError:
                raise Mismatch(f"expected {NAMES[kind]}, nothing came{self._waiting()}") from None
            if packet_or_end is None:
                raise Mismatch(f"expected {NAMES[kind]}, the connection was closed{self._waiting()}")
            if packet_or_end.kind == kind:
                return packet_or_end
            if packet_or_end.kind == DISCONNECT:
                raise Mismatch(f"expected {NAMES[kind]}, got {packet_or_end}")
            self.pending.append(packet_or_end)

    def message(self, *, acknowledge: bool = True, timeout: float | None = None) -> Packet:
        """The next PUBLISH, acknowledged to the end unless told otherwise."""
        packet = self.expect(PUBLISH, timeout)
        if acknowledge and packet.qos == 1:
            self.ack(PUBACK, packet.packet_id)
        elif acknowledge and packet.qos == 2:
            self.ack(PUBREC, packet.packet_id)
            self.expect(PUBREL)
            self.ack(PUBCOMP, packet.packet_id)
        return packet

    def messages(self, count: int, *, acknowledge: bool = True) -> list[Packet]:
        """The next ``count`` messages."""
        return [self.message(acknowledge=acknowledge) for _ in range(count)]

    def ping(self) -> None:
        """PINGREQ and PINGRESP: everything sent before has been read by the broker."""
        self.send(packets.frame(PINGREQ, 0, b""))
        self.expect(PINGRESP)

    def quiet(self, seconds: float = 0.2) -> list[Packet]:
        """The packets that come within ``seconds``; for showing that nothing came.

        Nothing comes on a closed connection either, which shows nothing: that is a Mismatch.
        """
        found = self.heard(seconds)
        if self._ended:
            raise Mismatch(f"expected an open connection, it was closed{self._came(found)}")
        return found

    def heard(self, seconds: float = 0.2) -> list[Packet]:
        """The packets that come within ``seconds``, or until the broker closes."""
        end = time.monotonic() + seconds
        found = list(self.pending)
        self.pending.clear()
        while True:
            try:
                packet = self._read(end)
            except TimeoutError:
                return found
            if packet is None:
                return found
            found.append(packet)

    def no_message(self, seconds: float = 0.2) -> None:
        """Fail if a PUBLISH comes within ``seconds``."""
        got = [packet for packet in self.quiet(seconds) if packet.kind == PUBLISH]
        if got:
            raise Mismatch(f"expected no message, got {', '.join(map(str, got))}")

    def closed(self, timeout: float | None = None) -> list[Packet]:
        """Wait until the broker closes; returns what it sent before."""
        found = self.heard(self.deadline if timeout is None else timeout)
        if not self._ended:
            raise Mismatch(f"expected a close, the connection stays open{self._came(found)}")
        return found

    def refused(self, *reasons: int, lenient: bool = False, timeout: float | None = None) -> None:
        """The answer to a bad packet: v5 DISCONNECT with one of the reasons and close; before v5 just close.

        ``lenient``: the specification only says SHOULD for the DISCONNECT, so any reason that stands for an
        error, and none at all, are accepted too.
        """
        before = [packet for packet in self.closed(timeout) if packet.kind != PUBLISH]
        said = [packet for packet in before if packet.kind == DISCONNECT]
        if len(before) != len(said) or len(said) > 1:
            raise Mismatch(f"expected a refusal{self._came(before)}")
        if self.version != V5:
            return
        wanted = " or ".join(f"0x{reason:02X}" for reason in reasons)
        if not said:
            if not lenient:
                raise Mismatch(f"expected DISCONNECT {wanted}, closed without a DISCONNECT")
        elif said[0].reason not in reasons and not (lenient and said[0].reason >= 0x80):
            raise Mismatch(f"expected DISCONNECT {wanted}, got {said[0]}")

    # --- the wire ---------------------------------------------------------------------------------------------

    def _read(self, end: float) -> Packet | None:
        """One packet off the wire; raises TimeoutError at ``end``, answers None after the broker's close."""
        while True:
            packet = self._cut()
            if packet is not None:
                return packet
            if self._ended:
                return None
            data = self.transport.receive(end - time.monotonic())
            if data is None:
                if time.monotonic() >= end:
                    raise TimeoutError
            elif data:
                self._buffer += data
            else:
                self._ended = True

    def _cut(self) -> Packet | None:
        """Cut one whole packet from the buffer, if there is one."""
        length, shift, at = 0, 0, 1
        while True:
            if at >= len(self._buffer):
                return None
            byte = self._buffer[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if not byte & 0x80:
                break
            if shift > 21:
                raise packets.NotMqtt(f"remaining length over four bytes: {self._buffer[:8].hex(' ')}")
        if shift > 7 and length < 1 << (shift - 7):
            raise packets.NotMqtt("remaining length is longer than need be")
        if len(self._buffer) < at + length:
            return None
        raw, self._buffer = self._buffer[: at + length], self._buffer[at + length :]
        packet = packets.parse(self.version, raw, raw[0], raw[at:])
        if packet.kind == PUBLISH:
            self._resolve(packet)
        return packet

    def _resolve(self, packet: Packet) -> None:
        """Follow the broker's topic aliases."""
        alias = packet.properties.get("topic_alias")
        if alias and packet.topic:
            self._aliases[alias] = packet.topic
        elif alias:
            if alias not in self._aliases:
                raise packets.NotMqtt(f"topic alias {alias} was never defined on this connection")
            packet.topic = self._aliases[alias]
        elif not packet.topic:
            raise packets.NotMqtt("PUBLISH with neither topic nor alias")

    def _waiting(self) -> str:
        return self._came(list(self.pending))

    @staticmethod
    def _came(found: Iterable[Packet]) -> str:
        shown = ", ".join(str(packet) for packet in found)
        return f"; before that came {shown}" if shown else ""
