"""The MQTT codec as a stage: bytes below, items and packets above.

::

    read    [bytes, ...]   ──▶  [PublishRun | AckRun | Packet, ...], then failed(MqttError) if there was one
    write   [bytes, ...]   ──▶  the same; they never come here

Small packets cost more than their bytes: of a read that has thousands, some are decoded, with ``UNDECODED`` behind
them. Whoever gets that stops reading, and more are decoded when it reads on.
"""

from __future__ import annotations

from typing import Any

from iot_mqtt.codec import UNDECODED, Decoder
from iot_mqtt.codec.wire import MAX_PACKET_SIZE
from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.stage import Batch, Context, Stage
from iot_mqtt.values import ProtocolVersion

__all__ = ["MqttCodecStage", "MqttCodecs"]


class MqttCodecStage(Stage):
    """Has the connection's decoder."""

    __slots__ = ("decoder",)

    def __init__(
        self,
        max_packet_size: int = MAX_PACKET_SIZE,
        *,
        max_connect_size: int | None = None,
        topic_alias_maximum: int | None = None,
        version: ProtocolVersion | None = None,
        routes: dict[bytes, Any] | None = None,
    ) -> None:
        self.decoder = Decoder(
            max_packet_size,
            max_connect_size=max_connect_size,
            topic_alias_maximum=topic_alias_maximum,
            version=version,
            routes=routes,
            bounded=True,
        )

    def read(self, ctx: Context, batch: Batch) -> None:
        decoder, channel = self.decoder, ctx.channel
        data: bytes = batch[0] if len(batch) == 1 else b"".join(batch)
        recorded = channel.recorded
        follows = recorded is not None and recorded.received(data)
        items: Batch = decoder.feed(data)
        if follows and recorded is not None and not decoder.undecoded:
            recorded.follow(data, decoder.buffered, decoder.missing)
        self._pass_on(ctx, items)

    def set_reading(self, ctx: Context, on: bool) -> None:
        ctx.set_reading(on)
        if on and self.decoder.undecoded and not ctx.channel.closing:
            self._go_on(ctx)

    def _go_on(self, ctx: Context) -> None:
        """With what the last read left undecoded."""
        decoder, recorded = self.decoder, ctx.channel.recorded
        items: Batch = decoder.feed(b"")
        if recorded is not None and not decoder.undecoded:
            recorded.follow(decoder.begun, decoder.buffered, decoder.missing)
        self._pass_on(ctx, items)

    def _pass_on(self, ctx: Context, items: Batch) -> None:
        decoder, channel = self.decoder, ctx.channel
        if decoder.large or channel.large:
            channel.large, channel.missing = decoder.large, decoder.missing
            unfinished = channel.settings.unfinished
            if unfinished is not None:
                unfinished.change(channel, decoder.buffered if decoder.large else 0, anew=bool(items))
                if channel.closing:
                    return
        if not items:
            return
        if decoder.undecoded:
            items.append(UNDECODED)
        if decoder.closed:
            last = items[-1]
            if isinstance(last, MqttError):
                items.pop()
                if items:
                    ctx.fire_read(items)
                ctx.fire_failed(last)
                return
        ctx.fire_read(items)


class MqttCodecs:
    """Makes the codecs of a listener, one for each connection: a ``partial`` would have its arguments looked up by
    their names each time.
    """

    __slots__ = ("_max_connect_size", "_max_packet_size", "_routes", "_topic_alias_maximum")

    def __init__(
        self, max_packet_size: int, max_connect_size: int, topic_alias_maximum: int, routes: dict[bytes, Any]
    ) -> None:
        self._max_packet_size = max_packet_size
        self._max_connect_size = max_connect_size
        self._topic_alias_maximum = topic_alias_maximum
        self._routes = routes

    def codec(self) -> Stage:
        """The next one."""
        return MqttCodecStage(
            self._max_packet_size,
            max_connect_size=self._max_connect_size,
            topic_alias_maximum=self._topic_alias_maximum,
            routes=self._routes,
        )
