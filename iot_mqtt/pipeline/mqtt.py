"""The MQTT codec as a stage: bytes below, items and packets above.

::

    read    [bytes, ...]            ──▶  [PublishRun | AckRun | Packet, ...], then failed(MqttError) if there was one
    write   [bytes | Packet, ...]   ──▶  [bytes, ...]; bytes pass untouched
"""

from __future__ import annotations

from typing import cast

from iot_mqtt.codec import Decoder, encode
from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.context import Context
from iot_mqtt.pipeline.stage import Batch, Stage
from iot_mqtt.values import ProtocolVersion

__all__ = ["MqttCodecStage"]


class MqttCodecStage(Stage):
    """Owns the connection's decoder. Until CONNECT came, packets are written as 3.1.1."""

    __slots__ = ("decoder",)

    def __init__(self, max_packet_size: int = 1_048_576, max_connect_size: int | None = None) -> None:
        self.decoder = Decoder(max_packet_size, max_connect_size=max_connect_size)

    def read(self, ctx: Context, batch: Batch) -> None:
        items = self.decoder.feed(batch[0] if len(batch) == 1 else b"".join(batch))
        if not items:
            return
        last = items[-1]
        if isinstance(last, MqttError):
            items.pop()
            if items:
                ctx.fire_read(cast(Batch, items))
            ctx.fire_failed(last)
        else:
            ctx.fire_read(cast(Batch, items))

    def write(self, ctx: Context, batch: Batch) -> None:
        for part in batch:
            if type(part) is not bytes:
                break
        else:
            ctx.write(batch)
            return
        version = self.decoder.version or ProtocolVersion.V311
        ctx.write([part if type(part) is bytes else encode(part, version) for part in batch])
