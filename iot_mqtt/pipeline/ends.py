"""The two ends of every pipeline: the head turns outbound events into bytes sent, the tail catches the rest.

No event comes to both, so one stage is both; and it is stateless, so one instance serves all pipelines.
"""

from __future__ import annotations

from twisted.logger import Logger

from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["ENDS", "Ends"]

_log = Logger()


class Ends(Stage):
    """Head and tail."""

    __slots__ = ()

    # The head, next to the transport: what arrives here as a batch is bytes.

    def write(self, ctx: Context, batch: Batch) -> None:
        channel = ctx.channel
        if not channel.closing:
            channel.outbox.add(batch)

    def flush(self, ctx: Context) -> None:
        ctx.channel.outbox.flush()

    def close(self, ctx: Context, reason: CloseReason) -> None:
        ctx.channel.begin_close(reason)

    def set_reading(self, ctx: Context, on: bool) -> None:
        ctx.channel.switch_reading(on)

    # The tail, where inbound events end that no stage kept.

    def active(self, ctx: Context) -> None: ...

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None: ...

    def read(self, ctx: Context, batch: Batch) -> None:
        _log.debug("{count} items reached the end of {pipeline!r}", count=len(batch), pipeline=ctx.pipeline)

    def read_complete(self, ctx: Context) -> None: ...

    def writability_changed(self, ctx: Context, writable: bool) -> None: ...

    def event(self, ctx: Context, event: object) -> None: ...

    def failed(self, ctx: Context, error: BaseException) -> None:
        """The peer's faults close the connection quietly; ours leave a traceback as well."""
        if isinstance(error, MqttError):
            ctx.channel.close(CloseReason("protocol_error", error.detail, error.reason))
        else:
            ctx.channel.give_up(error)


ENDS = Ends()
