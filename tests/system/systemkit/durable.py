"""An asyncio MQTT client that does sessions properly, across any number of broken connections.

Its session lives in this object: what it sent and was not acknowledged is sent again, PUBREL before PUBLISH,
in the old order, with the old packet ids and DUP; what it received at QoS 2 it knows until PUBREL. Whatever the
broker does wrong on the way (a packet id used twice, a missing DUP, a session gone) is noted in ``faults``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from systemkit import wire
from systemkit.wire import Received, Splitter

#: Told subscriber, topic, payload.
OnDelivery = Callable[[str, str, bytes], None]
OnAcked = Callable[[bytes], None]


class DurableClient(asyncio.Protocol):
    """``run`` keeps it connected until cancelled; ``publish`` never blocks and obeys ``room``."""

    def __init__(
        self,
        client_id: str,
        port: int,
        *,
        version: int = 4,
        filters: tuple[tuple[str, int], ...] = (),
        window: int = 100,
        on_delivery: OnDelivery | None = None,
        on_acked: OnAcked | None = None,
    ) -> None:
        self.client_id, self.port, self.version = client_id, port, version
        self.host = "127.0.0.1"
        self.faults: list[str] = []
        self.connections = 0
        #: What is being handed over, for whoever is told of a delivery and wants to know more.
        self.receiving: wire.Publication | None = None
        self._filters, self._most = filters, window
        self._on_delivery, self._on_acked = on_delivery, on_acked
        # The session: frames to be acknowledged, with their payloads; ids to be completed; QoS 2 ids received.
        self._unacked: dict[int, tuple[bytes, bytes]] = {}
        self._released: dict[int, None] = {}
        self._received: dict[int, bytes] = {}
        self._has_session = False
        self._last_id = 0
        # The connection.
        self._transport: asyncio.Transport | None = None
        self._splitter = Splitter()
        self._window = window
        self._answers: asyncio.Queue[Received | None] = asyncio.Queue()
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._down.set()
        self._fresh_connection_ids: set[int] = set()

    # --- for the test ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is gone."""
        try:
            while True:
                if not await self._connect():
                    await asyncio.sleep(0.02)
                    continue
                await self._down.wait()
        finally:
            self.drop()

    async def connected(self) -> None:
        """Wait until the session is established (and subscribed, the first time)."""
        await self._up.wait()

    def drop(self) -> None:
        """Cut the connection without a word; ``run`` makes a new one."""
        if self._transport is not None:
            self._transport.abort()

    def on_acked(self, call: OnAcked) -> None:
        """Tell this one of acknowledged messages."""
        self._on_acked = call

    def on_delivery(self, call: OnDelivery) -> None:
        """Tell this one of messages that came."""
        self._on_delivery = call

    @property
    def room(self) -> int:
        """How many more QoS 1/2 messages may be sent now."""
        return max(0, self._window - self.pending) if self._up.is_set() else 0

    @property
    def pending(self) -> int:
        """Exchanges of ours that are not finished."""
        return len(self._unacked) + len(self._released)

    def publish(self, topic: str, payloads: list[bytes], qos: int) -> None:
        """Send a burst in one write."""
        assert self._transport is not None
        frames = []
        for payload in payloads:
            packet_id = self._next_id()
            frame = wire.publish(topic, payload, qos=qos, packet_id=packet_id, version=self.version)
            self._unacked[packet_id] = frame, payload
            frames.append(frame)
        self._transport.write(b"".join(frames))

    # --- connecting ------------------------------------------------------------------------------------

    async def _connect(self) -> bool:
        self._splitter, self._answers = Splitter(), asyncio.Queue()
        self._fresh_connection_ids.clear()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, self.host, self.port)
        except OSError:
            return False
        assert self._transport is not None
        properties = b"\x11" + (3600).to_bytes(4, "big") if self.version == 5 else b""
        self._transport.write(wire.connect(self.client_id, version=self.version, clean=False, properties=properties))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                if await self._established():
                    self.connections += 1
                    self._up.set()
                    return True
        self.drop()
        await self._down.wait()
        return False

    async def _established(self) -> bool:
        answer = await self._answers.get()
        if answer is None:
            return False
        if answer.kind != wire.CONNACK or answer.reason() != 0:
            self.refused(answer)
            return False
        self._window = self._most
        if self.version == 5:
            limit = wire.connack_properties(answer.body).get(wire.RECEIVE_MAXIMUM, 65535)
            self._window = min(self._most, int(limit))
        if self._has_session and not answer.body[0] & 1:
            self.faults.append(f"{self.client_id}: the session is gone")
            self._unacked.clear()
            self._released.clear()
            self._received.clear()
            self._has_session = False
        self._resend()
        if not self._has_session and self._filters:
            assert self._transport is not None
            self._transport.write(wire.subscribe(1, list(self._filters), version=self.version))
            answer = await self._answers.get()
            if answer is None:
                return False
            if answer.kind != wire.SUBACK or max(answer.body[-len(self._filters) :]) > 2:
                self.faults.append(f"{self.client_id}: SUBSCRIBE answered by {answer}")
        self._has_session = True
        return True

    def _resend(self) -> None:
        assert self._transport is not None
        frames = [wire.ack(wire.PUBREL, packet_id) for packet_id in self._released]
        frames += [wire.as_duplicate(frame) for frame, _ in self._unacked.values()]
        self._transport.write(b"".join(frames))

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 65535 + 1
            if self._last_id not in self._unacked and self._last_id not in self._released:
                return self._last_id

    # --- what comes in ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._down.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._up.clear()
        self._down.set()
        self._answers.put_nowait(None)

    def data_received(self, data: bytes) -> None:
        replies: list[bytes] = []
        for received in self._splitter.feed(data):
            self._handle(received, replies)
        if replies and self._transport is not None:
            self._transport.write(b"".join(replies))

    def _handle(self, received: Received, replies: list[bytes]) -> None:
        kind = received.kind
        if kind == wire.PUBLISH:
            self._on_publish(received, replies)
        elif kind == wire.PUBREL:
            self._received.pop(received.packet_id, None)
            replies.append(wire.ack(wire.PUBCOMP, received.packet_id))
        elif kind in (wire.PUBACK, wire.PUBREC):
            self._on_acked_publish(received, replies)
        elif kind == wire.PUBCOMP:
            self._released.pop(received.packet_id, None)
        elif kind in (wire.CONNACK, wire.SUBACK):
            self._answers.put_nowait(received)
        elif kind == wire.DISCONNECT:
            self.sent_away(received.reason())

    def refused(self, answer: Received) -> None:
        """CONNECT was answered by something else than a welcome."""
        self.faults.append(f"{self.client_id}: CONNECT answered by {answer}")

    def sent_away(self, reason: int) -> None:
        """DISCONNECT came."""
        if reason != 0x8B:
            self.faults.append(f"{self.client_id}: DISCONNECT {reason:#x}")

    def _on_publish(self, received: Received, replies: list[bytes]) -> None:
        message = wire.publication(received, self.version)
        if message.qos == 2:
            replies.append(wire.ack(wire.PUBREC, message.packet_id))
            if (known := self._received.get(message.packet_id)) is not None:
                self._check_repeat(message, known)
                return
            self._received[message.packet_id] = message.payload
        elif message.qos == 1:
            replies.append(wire.ack(wire.PUBACK, message.packet_id))
        if self._on_delivery is not None:
            self.receiving = message
            self._on_delivery(self.client_id, message.topic, message.payload)

    def _check_repeat(self, message: wire.Publication, known: bytes) -> None:
        name = f"{self.client_id}: id {message.packet_id}"
        if message.payload != known:
            self.faults.append(f"{name} in flight for {known!r} used for {message.payload!r}")
        elif not message.dup:
            self.faults.append(f"{name} sent again without DUP")
        if message.packet_id in self._fresh_connection_ids:
            self.faults.append(f"{name} sent again on one connection")
        self._fresh_connection_ids.add(message.packet_id)

    def _on_acked_publish(self, received: Received, replies: list[bytes]) -> None:
        packet_id, second = received.packet_id, received.kind == wire.PUBREC
        if second:
            replies.append(wire.ack(wire.PUBREL, packet_id))
            if packet_id in self._released:
                return
        entry = self._unacked.pop(packet_id, None)
        if entry is None:
            self.faults.append(f"{self.client_id}: acknowledgement {received} for nothing")
            return
        if self.version == 5 and received.reason() >= 0x80:
            self.faults.append(f"{self.client_id}: refused {received}")
            if second:
                replies.pop()
            return
        if second:
            self._released[packet_id] = None
        if self._on_acked is not None:
            self._on_acked(entry[1])
