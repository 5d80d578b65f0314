"""WebSocket as a stage: frames below, a stream of bytes above.

All that is written between two flushes leaves in one binary frame, and all that one receive brought goes up in one
batch, so that hundreds of small packets cost one frame each way.
"""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.settings import WebSocketSettings
from iot_mqtt.pipeline.stage import Batch, Context, Stage
from iot_mqtt.pipeline.websocket.frames import CloseCode, FrameReader, Opcode, close_payload, frame, header
from iot_mqtt.pipeline.websocket.handshake import HandshakeError, HandshakeReader, refusal

__all__ = ["WebSocketEstablished", "WebSocketStage"]

#: So much is gathered at most before it becomes a frame, also without a flush: the outbox is to know of it.
GATHER = 64 * 1024
#: Frames that a read should have at most: each takes some microseconds, however small it is. And the bytes that it may
#: have all the same; also the first behind the handshake.
FRAMES = 500
LEAST_READ = 4096

_CODES = {reasons.SHUTTING_DOWN.name: CloseCode.GOING_AWAY, "failed": CloseCode.INTERNAL}


@dataclass(frozen=True, slots=True)
class WebSocketEstablished:
    """Event: the handshake is done."""

    path: str
    subprotocol: str


class WebSocketStage(Stage):
    """Handshake, then frames, then the closing handshake."""

    __slots__ = ("_gathered", "_handshake", "_parts", "_reader", "_said_goodbye")

    def __init__(self, settings: WebSocketSettings | None = None) -> None:
        settings = settings or WebSocketSettings()
        self._handshake: HandshakeReader | None = HandshakeReader(settings)
        self._reader = FrameReader(settings.max_frame)
        self._parts: list[bytes] = []
        self._gathered = 0
        self._said_goodbye = False

    # inbound

    def read(self, ctx: Context, batch: Batch) -> None:
        data = batch[0] if len(batch) == 1 else b"".join(batch)
        if self._handshake is not None:
            self._shake_hands(ctx, self._handshake, data)
        else:
            self._frames(ctx, data)

    def _shake_hands(self, ctx: Context, reader: HandshakeReader, data: bytes) -> None:
        try:
            handshake = reader.feed(data)
        except HandshakeError as error:
            ctx.write([refusal(error)])
            ctx.close(CloseReason("foreign_origin" if error.status == 403 else "bad_websocket_handshake", error.detail))
            return
        if handshake is None:
            return
        self._handshake = None
        ctx.channel.most_read = LEAST_READ
        ctx.write([handshake.response])
        ctx.flush()
        ctx.fire_event(WebSocketEstablished(handshake.path, handshake.subprotocol))
        if reader.rest:
            self._frames(ctx, reader.rest)

    def _frames(self, ctx: Context, data: bytes) -> None:
        received = self._reader.feed(data)
        if received.frames:
            # The next one is to have as many frames as that, if they have the size of these.
            ctx.channel.most_read = max(LEAST_READ, len(data) * FRAMES // received.frames)
        if received.payload:
            ctx.fire_read(list(received.payload))
        pings = [content for opcode, content in received.controls if opcode is Opcode.PING]
        if pings:
            # One for all: only the last has to be answered (RFC 6455 section 5.5.3).
            ctx.write([frame(Opcode.PONG, pings[-1])])
            ctx.flush()
        for opcode, content in received.controls[-1:]:
            if opcode is Opcode.CLOSE and received.error is None:
                self._goodbye(ctx, content[:2])
                ctx.close(reasons.PEER_CLOSED)
        if received.error is not None:
            self._goodbye(ctx, close_payload(received.error.code, received.error.detail))
            ctx.close(CloseReason("websocket_error", received.error.detail))

    # outbound

    def write(self, ctx: Context, batch: Batch) -> None:
        self._parts += batch
        for part in batch:
            self._gathered += len(part)
        if self._gathered >= GATHER:
            self._send_gathered(ctx)

    def flush(self, ctx: Context) -> None:
        self._send_gathered(ctx)
        ctx.flush()

    def close(self, ctx: Context, reason: CloseReason) -> None:
        if self._handshake is None:
            self._send_gathered(ctx)
            self._goodbye(ctx, close_payload(_CODES.get(reason.name, CloseCode.NORMAL)))
        ctx.close(reason)

    def _send_gathered(self, ctx: Context) -> None:
        if self._parts and self._handshake is None:
            parts, self._parts = self._parts, []
            size, self._gathered = self._gathered, 0
            ctx.write([header(Opcode.BINARY, size), *parts])

    def _goodbye(self, ctx: Context, payload: bytes) -> None:
        if not self._said_goodbye:
            self._said_goodbye = True
            ctx.write([frame(Opcode.CLOSE, payload)])
