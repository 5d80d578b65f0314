"""The MQTT codec as a stage: bytes below, items and packets above.

::

    read    [bytes, ...]   ──▶  [PublishRun | AckRun | Packet, ...], then failed(MqttError) if there was one
    write   [bytes, ...]   ──▶  the same; they never come here
"""

from __future__ import annotations

from iot_mqtt.codec import Decoder
from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["MqttCodecStage"]


class MqttCodecStage(Decoder, Stage):
    """The connection's decoder."""

    __slots__ = ()

    def read(self, ctx: Context, batch: Batch) -> None:
        items: Batch = self.feed(batch[0] if len(batch) == 1 else b"".join(batch))
        if self.large or ctx.channel.large:
            ctx.channel.large, ctx.channel.missing = self.large, self.missing
        if not items:
            return
        last = items[-1]
        if isinstance(last, MqttError):
            items.pop()
            if items:
                ctx.fire_read(items)
            ctx.fire_failed(last)
        else:
            ctx.fire_read(items)
