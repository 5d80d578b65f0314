"""A gateway's connection: what its codec says becomes MQTT, and what MQTT says becomes words of its codec.

::

    bytes ▶ [frames] ▶ frames ▶ [device] ▶ CONNECT, SUBSCRIBE, PUBLISH runs, PUBACK ▶ [broker]
                                    │ ▲
                              codec's runner
    bytes ◀─────────────────── [device] ◀ CONNACK, SUBACK, PUBACK, PUBLISH (commands) ◀ [broker]

To the broker a gateway is an MQTT 5 client whose id is the gateway's name: it is authenticated and authorized, taken
over, drained and looked at like any other, and its commands wait in its session while it is away. Until the broker has
let it in, nobody but the log has heard its name.

    waiting ── Login ──▶ connecting ── CONNACK ──▶ subscribing ── SUBACK ──▶ open ──▶ closed

What a codec says before ``open`` is kept, and nothing more is read meanwhile. The same is done when as many messages
are unacknowledged as the broker allows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from iot_mqtt.codec import (
    NO_PROPERTIES,
    PINGREQ,
    AckRun,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    PacketType,
    Properties,
    Publish,
    PublishRun,
    Request,
    Role,
    Suback,
    Subscribe,
    encode,
)
from iot_mqtt.devices.link.counters import LinkCounters, LinksCounters, Skipped
from iot_mqtt.devices.link.downlink import Downlink
from iot_mqtt.devices.link.messages import Composer, codec_id_of, is_name
from iot_mqtt.devices.link.observed_link import ObservedLink
from iot_mqtt.devices.link.posting import Bounds, Posting
from iot_mqtt.devices.link.services import LinkServices, LinkSettings
from iot_mqtt.errors import ReasonCode
from iot_mqtt.framing import framer_of
from iot_mqtt.pipeline import CloseReason, Context, FrameRefused, FramesStage, IdleEvent, IdleStage, Stage
from iot_mqtt.plugins.running import NotAvailable, Opened
from iot_mqtt.sdk import Answer, Close, Event, Heartbeat, Login, Readings, Send, WhenSafe
from iot_mqtt.values import ProtocolVersion

log = logging.getLogger(__name__)

#: Ids of messages that wait for their PUBACK; the broker may allow fewer.
_MOST_UNACKNOWLEDGED: Final = 8192
_SUBSCRIBING: Final = 1
#: Bytes of a message beside its payload, at most, in what the broker calls its size.
_AROUND: Final = 160


class Phase(Enum):
    """How far a gateway has come."""

    WAITING = auto()
    CONNECTING = auto()
    SUBSCRIBING = auto()
    OPEN = auto()
    CLOSED = auto()


class DeviceStage(Stage):
    """One gateway's connection, from accept to close."""

    __slots__ = (
        "_services",
        "_settings",
        "_ctx",
        "_opened",
        "_counters",
        "_phase",
        "_gateway",
        "_codec_id",
        "_login",
        "_mqtt",
        "_downlink",
        "_stash",
        "_bounds",
        "_posting",
        "_full",
        "_paused",
        "_reading",
        "_unflushed",
        "_taking",
        "_spoke",
        "_refusing",
        "_observed",
    )

    def __init__(self, services: LinkServices, settings: LinkSettings) -> None:
        self._services = services
        self._settings = settings
        self._ctx: Context | None = None
        self._opened: Opened | None = None
        self._counters: LinkCounters = services.counters.of(settings.codec)
        self._phase = Phase.WAITING
        self._gateway = ""
        self._login: Login | None = None
        self._mqtt = Decoder(role=Role.CLIENT, version=ProtocolVersion.V5)
        self._posting: Posting | None = None
        self._downlink: Downlink | None = None
        #: What the codec said that cannot be dealt with yet.
        self._stash: deque[Event] = deque()
        #: What the broker allows, once it has said so.
        self._bounds = Bounds(0, 0)
        #: The codec takes no more; the broker takes no more; what was told to the transport.
        self._full = self._paused = False
        self._reading = True
        self._unflushed = False
        self._taking = False
        #: Frames have come that the broker has not heard of.
        self._spoke = False
        #: The codec was asked for last words, which leave before the connection is closed.
        self._refusing = False
        self._observed: ObservedLink | None = None

    # The connection.

    def active(self, ctx: Context) -> None:
        self._ctx = ctx
        ctx.fire_active()
        try:
            opened = self._opened = self._services.plugins.open(self._settings.codec, ctx.channel.peer, self)
        except NotAvailable as reason:
            self._counters.refused["no_codec"] += 1
            self._close("codec_unavailable", str(reason))
            return
        opened.on_drain = partial(self._close, "codec_replaced", "a newer version of the codec is there")
        framer = framer_of(opened.framing)
        on_skipped = Skipped(self._counters, framer).count if opened.framing.resync == "skip" else None
        ctx.pipeline.add_before(ctx.name, "frames", FramesStage(framer, on_skipped))
        ctx.pipeline.add_before(ctx.name, "quiet", IdleStage())
        self._observed = ObservedLink(self._settings.codec, ctx, self._services.captures)
        self._observed.opened()
        self._codec_id = codec_id_of(opened.codec_name, opened.version, opened.schema_version)
        opened.runner.opened()
        self._flush()

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self._end()
        if self._opened is not None:
            self._opened.runner.close()
        ctx.fire_inactive(reason)
        self._ctx = self._observed = None

    def _end(self) -> None:
        """Nothing comes or goes any more."""
        if self._phase is Phase.CLOSED:
            return
        self._phase = Phase.CLOSED
        self._stash.clear()
        if self._observed is not None:
            self._observed.closed()
        if self._downlink is not None:
            self._downlink.lost()
        if self._posting is not None and self._ctx is not None:
            self._services.devices.left(self._gateway, self._ctx.channel.peer)

    def _close(self, reason: str, detail: str) -> None:
        """From our side; what was written leaves."""
        if self._ctx is None or self._phase is Phase.CLOSED:
            return
        if self._downlink is not None:
            self._refuse(reason)
        self._part(CloseReason(reason, detail))

    def close(self, ctx: Context, reason: CloseReason) -> None:
        self._part(reason)

    def _refuse(self, reason: str) -> None:
        if self._opened is not None:
            self._refusing = True
            self._opened.runner.refuse(reason)

    def _part(self, reason: CloseReason) -> None:
        """Close, once the codec's last words are written, if it was asked for some. The first reason counts."""
        if self._phase is Phase.CLOSED:
            return
        self._end()
        if self._refusing and self._opened is not None:
            self._opened.runner.settle(partial(self._leave, reason))
        else:
            self._leave(reason)

    def _leave(self, reason: CloseReason) -> None:
        if self._opened is not None:
            self._opened.runner.close()
        if self._ctx is not None:
            self._flush()
            self._ctx.close(reason)

    # From the gateway.

    def read(self, ctx: Context, batch: list[bytes]) -> None:
        if self._opened is None or self._phase is Phase.CLOSED:
            return
        self._counters.frames += len(batch)
        self._spoke = True
        if not self._opened.runner.decode(batch):
            self._full = True
            self._regulate()

    def read_complete(self, ctx: Context) -> None:
        self._flush()
        ctx.fire_read_complete()

    def event(self, ctx: Context, event: object) -> None:
        if isinstance(event, IdleEvent) and self._opened is not None:
            if self._phase is not Phase.CLOSED:
                self._opened.runner.idle()
                self._flush()
        else:
            ctx.fire_event(event)

    def failed(self, ctx: Context, error: BaseException) -> None:
        if isinstance(error, FrameRefused) and self._opened is not None:
            # Behind what came before it, which the codec may not have read yet.
            self._opened.runner.settle(partial(self.bad_frame, error.reason, error.detail))
        else:
            ctx.fire_failed(error)

    # What the codec says: ``plugins.Sink``.

    def events(self, events: list[Event]) -> None:
        if self._phase is Phase.CLOSED:
            return
        observed = self._observed
        if observed is not None and observed.observed:
            observed.events(events)
        if self._stash or self._taking:
            self._stash.extend(events)
        else:
            self._take(events)
        self._drain()

    def encoded(self, number: int, data: bytes) -> None:
        if self._downlink is not None and self._phase is not Phase.CLOSED:
            self._write(data)
            self._downlink.encoded(number)
            self._flush()

    def not_encoded(self, number: int, reason: str) -> None:
        if self._downlink is not None and self._phase is not Phase.CLOSED:
            self._counters.commands_refused["not_encoded"] += 1
            self._downlink.not_encoded(number, reason)

    def send(self, data: bytes) -> None:
        if data:
            self._write(data)
            self._flush()

    def bad_frame(self, reason: str, detail: str) -> None:
        self._counters.refused[reason] += 1
        self._close("bad_frame", f"{reason}: {detail}" if detail else reason)

    def codec_failed(self, reason: str) -> None:
        self._counters.faults[reason] += 1
        self._close("codec_failed", reason)

    def ready(self) -> None:
        self._full = False
        self._regulate()

    # Events, one after the other.

    def _drain(self) -> None:
        """Go on with what was kept, as far as the broker takes it."""
        while self._stash and not self._taking and self._takes_more():
            events, self._stash = self._stash, deque()
            self._take(events)
        # A codec in another process speaks when nobody reads.
        self._flush()
        self._regulate()

    def _takes_more(self) -> bool:
        if self._phase is Phase.OPEN:
            assert self._posting is not None
            return not self._paused and not self._posting.is_full
        return self._phase is Phase.WAITING

    def _take(self, events: Sequence[Event]) -> None:
        """Do what the events say; the rest is kept when the broker takes no more."""
        self._taking = True
        try:
            self._take_each(events)
        finally:
            self._taking = False

    def _take_each(self, events: Sequence[Event]) -> None:
        posting = self._posting if self._phase is Phase.OPEN else None
        published = 0 if posting is None else posting.published
        for position, event in enumerate(events):
            if self._phase is Phase.CLOSED:
                return
            kind = event.__class__
            if posting is not None:
                if kind is Readings:
                    if self._paused or posting.is_full:
                        self._keep(events, position)
                        break
                    posting.reading(event)  # type: ignore[arg-type]
                    continue
                if kind is WhenSafe:
                    posting.when_safe(event.token)  # type: ignore[attr-defined]
                    continue
                posting.flush()
            elif self._phase is not Phase.WAITING:
                self._keep(events, position)
                break
            self._handle(event)
        else:
            if posting is not None:
                posting.end_of_frames()
        if posting is not None and self._phase is Phase.OPEN:
            self._post(posting, published)

    def _post(self, posting: Posting, published: int) -> None:
        """What has gathered goes to the broker, which had so many messages before."""
        posting.flush()
        if self._phase is not Phase.OPEN:
            return
        if not self._paused:
            posting.tell_taken()
        if posting.published != published:
            self._spoke = False
        elif self._spoke:
            self._alive()
        self._tell_safe()

    def _keep(self, events: Sequence[Event], position: int) -> None:
        rest = list(events)[position:]
        self._stash.extendleft(reversed(rest))

    def _handle(self, event: Event) -> None:
        match event:
            case Send(data=data):
                self._write(data)
            case Heartbeat():
                pass  # That something came is enough.
            case Close(reason=reason):
                self._counters.refused["closed"] += 1
                self._close("closed_by_codec", reason)
            case Login() if self._phase is Phase.WAITING:
                self._connect(event)
            case Answer() if self._downlink is not None:
                self._counters.answers += 1
                self._downlink.answered(event)
            case _:
                # Data without a login, or a second login.
                wrong = "no_login" if self._phase is Phase.WAITING else "unexpected"
                self.bad_frame(wrong, type(event).__name__)

    def _connect(self, login: Login) -> None:
        if not is_name(login.gateway):
            self.bad_frame("bad_name", "a gateway's name is 1 to 64 printable characters without / + # $")
            return
        assert self._ctx is not None and self._observed is not None
        self._login = login
        self._observed.gateway = login.gateway
        self._gateway = login.gateway
        self._phase = Phase.CONNECTING
        heartbeat = login.heartbeat or self._settings.heartbeat
        connect = Connect(
            ProtocolVersion.V5,
            login.gateway,
            clean_start=False,
            keep_alive=min(65_535, max(1, round(heartbeat))),
            username=login.username,
            password=login.secret,
            properties=Properties(
                session_expiry_interval=self._settings.session_expiry, receive_maximum=self._settings.commands_at_once
            ),
        )
        # Only a stage of its own connection can say this: what comes from it from now on are readings.
        self._ctx.fire_event(self._codec_id)
        self._ctx.fire_read([connect])

    def _alive(self) -> None:
        """Something came that was no message: the broker is to know."""
        self._spoke = False
        if self._ctx is not None:
            self._ctx.fire_read([PINGREQ])

    # From the broker.

    def write(self, ctx: Context, batch: list[object]) -> None:
        data = b"".join(
            [part if isinstance(part, bytes) else encode(part, ProtocolVersion.V5) for part in batch]  # type: ignore[arg-type]
        )
        for item in self._mqtt.feed(data):
            if self._phase is Phase.CLOSED:
                return
            self._heard(item)
        self._drain()

    def flush(self, ctx: Context) -> None:
        self._flush()

    def set_reading(self, ctx: Context, on: bool) -> None:
        self._paused = not on
        self._drain()

    def _heard(self, item: object) -> None:
        match item:
            case AckRun(type=PacketType.PUBACK):
                self._puback(item)
            case PublishRun():
                self._command(item)
            case Connack():
                self._connack(item)
            case Suback():
                self._suback(item)
            case Disconnect(reason=reason):
                self._counters.refused[reason.name.lower()] += 1
                self._refuse(reason.name.lower())
            case _:
                pass  # PINGRESP

    def _connack(self, connack: Connack) -> None:
        assert self._opened is not None and self._login is not None and self._ctx is not None
        if connack.reason:
            reason = connack.reason.name.lower()
            told = {"gateway": self._gateway, "user": self._login.username, "peer": self._ctx.channel.peer}
            log.warning("a gateway's login was refused: %s", reason, extra=told)
            self._counters.refused[reason] += 1
            self._refuse(reason)
            return
        found = connack.properties
        opened, services = self._opened, self._services
        self._bounds = Bounds(
            min(_MOST_UNACKNOWLEDGED, found.receive_maximum or _MOST_UNACKNOWLEDGED),
            (found.maximum_packet_size or 1 << 28) - _AROUND - 2 * len(self._gateway),
        )
        self._downlink = Downlink(self._gateway, services.commands, services.now, opened.runner, self._acknowledge)
        heartbeat = self._login.heartbeat or self._settings.heartbeat
        quiet = self._ctx.pipeline.get("quiet")
        if isinstance(quiet, IdleStage):
            quiet.change(heartbeat * 2 / 3)
        opened.runner.welcome()
        # Commands that waited come now, behind the welcome.
        self._phase = Phase.SUBSCRIBING
        filters = (Request(f"down/{self._gateway}/#", qos=1),)
        self._later([Subscribe(_SUBSCRIBING, filters)])

    def _suback(self, suback: Suback) -> None:
        self._counters.logins += 1
        if self._observed is not None:
            self._observed.logged_in()
        if suback.reasons[0] >= ReasonCode.UNSPECIFIED_ERROR:
            # It may tell, and is told nothing.
            self._counters.commands_refused["not_authorized"] += 1
        # Now: a node that had this gateway until now has committed what it took last.
        self._services.devices.known(self._gateway, self._open)

    def _open(self) -> None:
        """What the grid has of this gateway is at hand."""
        opened, services = self._opened, self._services
        if self._phase is not Phase.SUBSCRIBING or self._ctx is None or opened is None:
            return
        safe = services.devices.login(
            self._gateway, codec=opened.codec_name, version=opened.version, peer=self._ctx.channel.peer
        )
        self._posting = Posting(
            self._gateway,
            Composer(services.node_id, self._gateway, self._codec_id),
            services.devices,
            self._counters,
            self._bounds,
            safe,
            services.now,
            self._tell,
        )
        self._phase = Phase.OPEN
        self._drain()
        self._flush()

    def _puback(self, run: AckRun) -> None:
        assert self._posting is not None
        refused = self._posting.acknowledged(run)
        if refused is not None:
            # Nothing behind it may be called safe, either.
            self._close("not_taken", refused)
            return
        self._tell_safe()

    def _tell_safe(self) -> None:
        assert self._posting is not None
        token = self._posting.safe_token()
        if token is not None and self._opened is not None:
            self._opened.runner.safe(token)

    def _command(self, run: PublishRun) -> None:
        packets: list[Publish] = run.packets()
        for packet in packets:
            self._counters.commands += 1
            if self._downlink is None or not self._downlink.command(packet):
                self._counters.commands_refused["no_device"] += 1
                if packet.packet_id:
                    self._acknowledge([packet.packet_id])

    def _acknowledge(self, ids: list[int]) -> None:
        self._later([AckRun(PacketType.PUBACK, ids, ReasonCode.SUCCESS, NO_PROPERTIES)])

    # Writing and reading.

    def _later(self, items: list[object]) -> None:
        """Tell the broker, which may be in the middle of telling us."""
        self._services.call_soon(partial(self._tell, items))

    def _tell(self, items: list[Any]) -> None:
        if self._ctx is not None and self._phase is not Phase.CLOSED:
            self._ctx.fire_read(items)

    def _write(self, data: bytes) -> None:
        if self._ctx is not None:
            self._ctx.write([data])
            self._unflushed = True

    def _flush(self) -> None:
        if self._unflushed and self._ctx is not None:
            self._unflushed = False
            self._ctx.flush()

    def _regulate(self) -> None:
        """Read from the gateway only while codec and broker take what it says."""
        reading = not (self._full or self._paused or self._stash)
        if reading != self._reading and self._ctx is not None and self._phase is not Phase.CLOSED:
            self._reading = reading
            self._ctx.set_reading(reading)


def make_stage(services: LinkServices, settings: LinkSettings) -> Callable[[], Stage]:
    """What makes the stages of a listener's connections."""
    return partial(DeviceStage, services, settings)


__all__ = ["DeviceStage", "LinksCounters", "Phase", "make_stage"]
