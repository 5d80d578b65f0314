"""A gateway's connection: what its codec says becomes MQTT, and what MQTT says becomes words of its codec.

::

    bytes ▶ [frames] ▶ frames ▶ [device] ▶ CONNECT, SUBSCRIBE, PUBLISH runs, PUBACK ▶ [broker]
                                    │ ▲
                              codec's runner
    bytes ◀─────────────────── [device] ◀ CONNACK, SUBACK, PUBACK, PUBLISH (commands) ◀ [broker]

To the broker a gateway is an MQTT 5 client whose id is the gateway's name: it is authenticated and authorized, taken
over, drained and looked at like any other, and its commands wait in its session while it is away. Until the broker has
let it in, nobody but the log has heard its name.

    waiting ── Login ──▶ the client connects, subscribes and is open ── its end ──▶ over ──▶ closed

What a codec says between its login and ``open`` is kept, and nothing more is read meanwhile. The same is done when as
many messages are unacknowledged as the broker allows. Frames wait when those of all gateways have taken their share of
a turn (``turns``). Behind a bad frame nothing is read. It is closed when what came before that is acknowledged, which
takes the linger time at most, and the gateway is told why.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from iot_mqtt.devices.link.capturing import ObservedLink
from iot_mqtt.devices.link.client import GatewayClient
from iot_mqtt.devices.link.counters import Skipped
from iot_mqtt.devices.link.intake import Ended, Intake
from iot_mqtt.devices.link.messages import is_name
from iot_mqtt.devices.link.posting import Posting
from iot_mqtt.devices.link.services import LinkServices, LinkSettings
from iot_mqtt.devices.link.wire import Wire
from iot_mqtt.framing import framer_of
from iot_mqtt.pipeline import (
    CloseReason,
    Context,
    FrameRefused,
    FramesStage,
    IdleEvent,
    IdleStage,
    InputClosed,
    Stage,
    Timeout,
)
from iot_mqtt.pipeline.reasons import PEER_CLOSED
from iot_mqtt.plugins.running import NotAvailable, Opened
from iot_mqtt.sdk import Answer, Close, Event, Heartbeat, Login, Send


class DeviceStage(Stage):
    """One gateway's connection, from accept to close."""

    __slots__ = (
        "_services",
        "_settings",
        "_ctx",
        "_opened",
        "_counters",
        "_wire",
        "_intake",
        "_observed",
        "_client",
        "_over",
        "_closed",
        "_refusing",
        "_patience",
        "_ended",
        "_input_ended",
        "_frames",
        "_refused",
    )

    def __init__(self, services: LinkServices, settings: LinkSettings) -> None:
        self._services = services
        self._settings = settings
        self._ctx: Context | None = None
        self._opened: Opened | None = None
        self._counters = services.counters.of(settings.codec)
        self._wire = Wire()
        self._intake = Intake(self._wire, self._handle, self._ping)
        self._observed: ObservedLink | None = None
        #: From the login on.
        self._client: GatewayClient | None = None
        #: Nothing more is decoded: its end is there, and is taken behind what came before it.
        self._over = False
        self._closed = False
        #: The codec was asked for last words, which leave before the connection is closed.
        self._refusing = False
        #: Until it is closed, though what the gateway has sent is not acknowledged; and why, None: it sends no more.
        self._patience: Timeout | None = None
        self._ended: Ended | None = None
        #: The gateway sends no more, but may still read.
        self._input_ended = False
        #: What waits for another turn, and what is wrong behind it.
        self._frames: list[bytes] = []
        self._refused: FrameRefused | None = None

    # The connection.

    def active(self, ctx: Context) -> None:
        self._ctx = ctx
        self._wire.open(ctx)
        ctx.fire_active()
        try:
            opened = self._opened = self._services.plugins.open(self._settings.codec, ctx.channel.peer, self)
        except NotAvailable as reason:
            self._counters.refused["no_codec"] += 1
            self.give_up("codec_unavailable", str(reason))
            return
        ctx.channel.answers_late = True
        opened.on_drain = partial(self.give_up, "codec_replaced", "a newer version of the codec is there")
        framer = framer_of(opened.framing)
        on_skipped = Skipped(self._counters, framer).count if opened.framing.resync == "skip" else None
        ctx.pipeline.add_before(ctx.name, "frames", FramesStage(framer, on_skipped))
        ctx.pipeline.add_before(ctx.name, "quiet", IdleStage())
        observed = self._observed = ObservedLink(self._settings.codec, ctx, self._services.captures)
        observed.opened()
        opened.runner.opened()
        self._wire.flush()

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self._end()
        if self._opened is not None:
            self._opened.runner.close()
            self._opened.on_drain = None
        ctx.fire_inactive(reason)
        # Both refer to this one, in the end.
        self._opened = self._client = None
        self._ctx = self._observed = None
        self._wire.drop()

    def _end(self) -> None:
        """Nothing comes or goes any more."""
        if self._closed:
            return
        self._closed = True
        self._frames = []
        self._intake.close()
        if self._observed is not None:
            self._observed.closed()
        if self._client is not None:
            self._client.close()
        if self._patience is not None:
            self._patience.cancel()

    def close(self, ctx: Context, reason: CloseReason) -> None:
        if self._client is not None:
            self._client.closing(reason)
        # The broker closes when the gateway sends no more, and acknowledges on.
        if not self._input_ended:
            self._part(reason)

    def _part_acknowledged(self) -> None:
        """Nothing more is read: part behind the acknowledgements of what came."""
        if self._closed or self._opened is None or self._ctx is None:
            return
        if self._patience is None:
            channel = self._ctx.channel
            self._patience = channel.wheel.schedule(channel.settings.linger, self._part_for_reason)
        self._settle()

    def _part_for_reason(self) -> None:
        ended = self._ended
        if ended is None:
            self._part(PEER_CLOSED)
        else:
            self.give_up(ended.reason, ended.detail, ended.told)

    def _settle(self) -> None:
        self._intake.settle(self._settle_codec)

    def _settle_codec(self) -> None:
        """It may not have read all, and has to say what is safe."""
        if self._opened is not None and not self._closed:
            self._opened.runner.settle(partial(self._settled, self._intake.times))

    def _settled(self, times: int) -> None:
        if self._intake.is_settled and self._intake.times == times:
            self._part_for_reason()
        else:
            self._settle()

    def _part(self, reason: CloseReason) -> None:
        """Close, once the codec's last words are written, if it was asked for some. The first reason counts."""
        if self._closed:
            return
        self._end()
        if self._refusing and self._opened is not None:
            self._opened.runner.settle(partial(self._leave, reason))
        else:
            self._leave(reason)

    def _leave(self, reason: CloseReason) -> None:
        if self._opened is not None:
            self._opened.runner.close()
        self._wire.close(reason)

    # From the gateway.

    def read(self, ctx: Context, batch: list[bytes]) -> None:
        if self._opened is None or self._closed or self._over:
            return
        self._counters.frames += len(batch)
        self._intake.frames_came()
        if self._frames or self._services.turns.must_wait(self):
            self._frames += batch
            self._intake.turn_takes(more=False)
        else:
            self._decode(batch)

    def go_on(self) -> None:
        """Another turn has room for what waits."""
        frames, self._frames = self._frames, []
        if frames:
            self._decode(frames)
        if self._frames or self._closed:
            return
        if self._refused is not None:
            self._refuse_frame(self._refused)
        self._intake.turn_takes(more=True)

    def _decode(self, frames: list[bytes]) -> None:
        turns = self._services.turns
        self._frames = turns.take(frames, self._decode_some)
        if self._closed or self._over:
            self._frames = []
        elif self._frames:
            turns.wait(self)
            self._intake.turn_takes(more=False)

    def _decode_some(self, frames: list[bytes]) -> None:
        if self._opened is None or self._closed or self._over:
            return
        if not self._opened.runner.decode(frames):
            self._intake.codec_takes(more=False)

    def read_complete(self, ctx: Context) -> None:
        self._wire.flush()
        ctx.fire_read_complete()

    def event(self, ctx: Context, event: object) -> None:
        if isinstance(event, InputClosed):
            self._input_ended = True
            self._part_acknowledged()
            ctx.fire_event(event)
        elif isinstance(event, IdleEvent) and self._opened is not None:
            if not self._closed and not self._over:
                self._opened.runner.idle()
                self._wire.flush()
        else:
            ctx.fire_event(event)

    def failed(self, ctx: Context, error: BaseException) -> None:
        if not isinstance(error, FrameRefused) or self._opened is None:
            ctx.fire_failed(error)
        elif self._frames:
            self._refused = error
        else:
            self._refuse_frame(error)

    def _refuse_frame(self, error: FrameRefused) -> None:
        """Behind what came before it, which the codec may not have read yet."""
        if self._opened is not None:
            self._opened.runner.settle(partial(self.bad_frame, error.reason, error.detail))

    # What the codec says: ``plugins.Sink``.

    def events(self, events: list[Event]) -> None:
        if self._closed:
            return
        observed = self._observed
        if observed is not None and observed.observed:
            observed.events(events)
        self._intake.take(events)

    def encoded(self, number: int, data: bytes) -> None:
        if self._client is not None and not self._closed:
            self._wire.write(data)
            self._client.downlink.encoded(number)
            self._wire.flush()

    def not_encoded(self, number: int, reason: str) -> None:
        if self._client is not None and not self._closed:
            self._counters.commands_refused["not_encoded"] += 1
            self._client.downlink.not_encoded(number, reason)

    def send(self, data: bytes) -> None:
        if data:
            self._wire.write(data)
            self._wire.flush()

    def bad_frame(self, reason: str, detail: str) -> None:
        if not self._over:
            self._counters.bad_frame(reason)
            self._end_behind(_bad_frame(reason, detail))

    def codec_failed(self, reason: str, detail: str = "") -> None:
        self._counters.faults[reason] += 1
        self._end_behind(Ended("codec_failed", f"the codec {self._settings.codec} failed: {detail or reason}"))

    def _end_behind(self, end: Ended) -> None:
        """Behind what it has said, which the broker may not have taken yet. It can encode nothing any more."""
        self._take_no_more()
        if self._client is not None:
            self._client.downlink.hold()
        self._intake.take([end])

    def ready(self) -> None:
        self._intake.codec_takes(more=True)

    # Its events that are no data.

    def _handle(self, event: Event) -> None:
        match event:
            case Send(data=data):
                self._wire.write(data)
            case Heartbeat():
                pass  # That something came is enough.
            case Close(reason=reason):
                self._counters.refused["closed"] += 1
                self._finish(Ended("closed_by_codec", reason))
            case Ended():
                self._finish(event)
            case Login() if self._client is None:
                self._connect(event)
            case Answer() if self._client is not None:
                self._counters.answers += 1
                self._client.downlink.answered(event)
            case _:
                # Data without a login, or a second login.
                self._refuse_event("no_login" if self._client is None else "unexpected", type(event).__name__)

    def _connect(self, login: Login) -> None:
        if not is_name(login.gateway):
            self._refuse_event("bad_name", "a gateway's name is 1 to 64 printable characters without / + # $")
            return
        assert self._ctx is not None and self._opened is not None and self._observed is not None
        self._observed.gateway = login.gateway
        self._intake.hold()
        self._client = GatewayClient(self._services, self._settings, self._opened, login, self._ctx, self)
        self._client.connect()

    def _refuse_event(self, reason: str, detail: str) -> None:
        """Here and now: what comes behind it is not for us."""
        self._counters.refused[reason] += 1
        self._finish(_bad_frame(reason, detail))

    def _finish(self, ended: Ended) -> None:
        """Close behind the acknowledgements of what came before."""
        self._take_no_more()
        self._ended = ended
        self._intake.end()
        self._part_acknowledged()

    def _take_no_more(self) -> None:
        self._over = True
        self._frames = []

    def _ping(self) -> None:
        if self._client is not None:
            self._client.ping()

    # From the broker.

    def write(self, ctx: Context, batch: list[object]) -> None:
        # It says nothing to whom it has not heard.
        if self._client is not None:
            self._client.hear(batch)
            self._intake.drain()

    def flush(self, ctx: Context) -> None:
        self._wire.flush()

    def set_reading(self, ctx: Context, on: bool) -> None:
        self._intake.broker_takes(on)

    # What comes of it: ``client.Link``.

    def logged_in(self) -> None:
        if self._observed is not None:
            self._observed.logged_in()

    def open(self, posting: Posting) -> None:
        self._intake.open(posting)

    def refuse(self, reason: str) -> None:
        if self._opened is not None:
            self._refusing = True
            self._opened.runner.refuse(reason)

    def give_up(self, reason: str, detail: str, told: str = "") -> None:
        """From our side; what was written leaves. ``told``: to the gateway, in place of the reason."""
        if self._closed:
            return
        if self._client is not None and self._client.is_let_in:
            self.refuse(told or reason)
        self._part(CloseReason(reason, detail))


def _bad_frame(reason: str, detail: str) -> Ended:
    return Ended("bad_frame", f"{reason}: {detail}" if detail else reason, f"bad_frame: {reason}")


def make_stage(services: LinkServices, settings: LinkSettings) -> Callable[[], Stage]:
    """What makes the stages of a listener's connections."""
    return partial(DeviceStage, services, settings)
