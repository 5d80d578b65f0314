"""The MQTT codec as a stage: bytes below, items and packets above.

::

    read    [bytes, ...]   ──▶  [PublishRun | AckRun | Packet, ...], then failed(MqttError) if there was one
    write   [bytes, ...]   ──▶  the same; they never come here
"""

from __future__ import annotations

from typing import Any

from iot_mqtt.codec import Decoder
from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["MqttCodecStage"]


class MqttCodecStage(Decoder, Stage):
    """The connection's decoder."""

    __slots__ = ()

    def __init__(
        self,
        max_packet_size: int = 1_048_576,
        max_connect_size: int | None = None,
        topic_alias_maximum: int = 0,
        routes: dict[bytes, Any] | None = None,
    ) -> None:
        """``routes``: see ``Decoder.routes``."""
        super().__init__(max_packet_size, max_connect_size=max_connect_size, topic_alias_maximum=topic_alias_maximum)
        self.routes = routes

    def read(self, ctx: Context, batch: Batch) -> None:
        items: Batch = self.feed(batch[0] if len(batch) == 1 else b"".join(batch))
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
