"""One port for several protocols: the first byte says which stages a connection needs."""

from __future__ import annotations

from collections.abc import Mapping

from iot_mqtt.pipeline.layout import StageFactory
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["HTTP", "MQTT", "TLS", "DetectStage"]

#: First bytes: CONNECT's, a TLS handshake record's, the G of GET.
MQTT, TLS, HTTP = 0x10, 0x16, 0x47

Entries = tuple[tuple[str, StageFactory], ...]


class DetectStage(Stage):
    """Puts the stages that belong to the first byte in its own place; an unknown byte closes the connection.

    It may come twice in a pipeline under two names: before TLS and, for what is inside, after it.
    """

    __slots__ = ("_choices",)

    def __init__(self, choices: Mapping[int, Entries]) -> None:
        self._choices = choices

    def read(self, ctx: Context, batch: Batch) -> None:
        first = batch[0][0]
        entries = self._choices.get(first)
        if entries is None:
            ctx.close(CloseReason("unknown_protocol", f"first byte {first:#04x}"))
            return
        pipeline = ctx.pipeline
        for name, factory in reversed(entries):
            pipeline.add_after(ctx.name, name, factory())
        pipeline.remove(ctx.name)
        ctx.fire_read(batch)
