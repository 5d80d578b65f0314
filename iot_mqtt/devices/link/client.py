"""The MQTT 5 client that a gateway is to the broker, from its login on.

::

    connecting ── CONNACK ──▶ subscribing ── SUBACK, what the grid knows ──▶ open ──▶ closed

Its id is the gateway's name. Commands that waited in its session come behind the CONNACK, readings go once it is open.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol

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
from iot_mqtt.devices.link.downlink import Downlink
from iot_mqtt.devices.link.messages import Composer, codec_id_of
from iot_mqtt.devices.link.places import Places
from iot_mqtt.devices.link.posting import Bounds, Posting
from iot_mqtt.devices.link.services import LinkServices, LinkSettings
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import CloseReason, Context, IdleStage
from iot_mqtt.plugins.running import Opened
from iot_mqtt.sdk import Login
from iot_mqtt.values import ProtocolVersion

log = logging.getLogger(__name__)

#: Ids of messages that wait for their PUBACK; the broker may allow fewer.
_MOST_UNACKNOWLEDGED: Final = 8192
_SUBSCRIBING: Final = 1
#: Bytes of a message beside its payload, at most, in what the broker calls its size.
_AROUND: Final = 160
#: What CONNACK says where it has no better word.
_VAGUE: Final = (ReasonCode.UNSPECIFIED_ERROR, ReasonCode.SERVER_UNAVAILABLE)


class Phase(Enum):
    """How far a client has come."""

    CONNECTING = auto()
    SUBSCRIBING = auto()
    OPEN = auto()
    CLOSED = auto()


class Link(Protocol):
    """The gateway's connection, as far as its client uses it."""

    def logged_in(self) -> None:
        """The broker has let the gateway in, and it may be commanded."""
        ...

    def open(self, posting: Posting) -> None:
        """The broker takes readings."""
        ...

    def refuse(self, reason: str) -> None:
        """The broker is about to close: the gateway is told in its own words."""
        ...

    def give_up(self, reason: str, detail: str) -> None:
        """Close."""
        ...


class GatewayClient:
    """Of one connection. ``ctx``: of the stage below the broker's."""

    __slots__ = (
        "downlink",
        "_services",
        "_settings",
        "_opened",
        "_login",
        "_ctx",
        "_peer",
        "_link",
        "_counters",
        "_codec_id",
        "_mqtt",
        "_phase",
        "_refusal",
        "_bounds",
        "_posting",
    )

    def __init__(
        self, services: LinkServices, settings: LinkSettings, opened: Opened, login: Login, ctx: Context, link: Link
    ) -> None:
        self._services = services
        self._settings = settings
        self._opened = opened
        self._login = login
        #: None behind the end: what is left of a connection does not hold its channel.
        self._ctx: Context | None = ctx
        self._peer = ctx.channel.peer
        self._link = link
        self._counters = services.counters.of(settings.codec)
        self._codec_id = codec_id_of(opened.codec_name, opened.version, opened.schema_version)
        self._mqtt = Decoder(role=Role.CLIENT, version=ProtocolVersion.V5)
        self._phase = Phase.CONNECTING
        #: What the CONNACK says that let nobody in, until the broker closes behind it.
        self._refusal: ReasonCode | None = None
        #: What the broker allows, once it has said so.
        self._bounds = Bounds(0, 0)
        self._posting: Posting | None = None
        #: The commands that come.
        places = Places(settings.commands_at_once, services.call_soon, until_answered=opened.answers)
        states = services.commands(login.gateway)
        self.downlink = Downlink(login.gateway, states, services.now, opened.runner, self._acknowledge, places)

    @property
    def is_let_in(self) -> bool:
        """Whether the broker has accepted the login, and the connection is not over."""
        return self._phase is Phase.SUBSCRIBING or self._phase is Phase.OPEN

    # To the broker.

    def connect(self) -> None:
        """Log in."""
        assert self._ctx is not None
        login, settings = self._login, self._settings
        connect = Connect(
            ProtocolVersion.V5,
            login.gateway,
            clean_start=False,
            keep_alive=min(65_535, max(1, round(self._heartbeat))),
            username=login.username,
            password=login.secret,
            properties=Properties(
                session_expiry_interval=settings.session_expiry, receive_maximum=settings.commands_at_once
            ),
        )
        # Only a stage of its own connection can say this: what comes from it from now on are readings.
        self._ctx.fire_event(self._codec_id)
        self._ctx.fire_read([connect])

    def ping(self) -> None:
        """Something came that was no message: the broker is to know."""
        self._tell([PINGREQ])

    def close(self) -> None:
        """Nothing comes or goes any more."""
        was_open = self._phase is Phase.OPEN
        self._phase = Phase.CLOSED
        # Whoever tells this one something is let go of: no cycle stays.
        self._ctx = self._posting = None
        self.downlink.lost()
        if was_open:
            self._services.devices.left(self._login.gateway, self._peer)

    @property
    def _heartbeat(self) -> float:
        return self._login.heartbeat or self._settings.heartbeat

    def _acknowledge(self, ids: list[int]) -> None:
        self._later([AckRun(PacketType.PUBACK, ids, ReasonCode.SUCCESS, NO_PROPERTIES)])

    def _later(self, items: list[object]) -> None:
        """Tell the broker, which may be in the middle of telling us."""
        self._services.call_soon(partial(self._tell, items))

    def _tell(self, items: list[Any]) -> None:
        if self._ctx is not None:
            self._ctx.fire_read(items)

    # From the broker.

    def hear(self, batch: list[object]) -> None:
        """What the broker has written: packets, and bytes of packets."""
        data = b"".join(
            [part if isinstance(part, bytes) else encode(part, ProtocolVersion.V5) for part in batch]  # type: ignore[arg-type]
        )
        for item in self._mqtt.feed(data):
            if self._phase is Phase.CLOSED:
                return
            self._heard(item)

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
                self._link.refuse(reason.name.lower())
            case _:
                pass  # PINGRESP

    def _connack(self, connack: Connack) -> None:
        assert self._ctx is not None
        gateway = self._login.gateway
        if connack.reason:
            self._refusal = connack.reason
            return
        found = connack.properties
        self._bounds = Bounds(
            min(_MOST_UNACKNOWLEDGED, found.receive_maximum or _MOST_UNACKNOWLEDGED),
            (found.maximum_packet_size or 1 << 28) - _AROUND - 2 * len(gateway),
        )
        quiet = self._ctx.pipeline.get("quiet")
        if isinstance(quiet, IdleStage):
            quiet.change(self._heartbeat * 2 / 3)
        # Before the welcome, at which a codec may fail: then this is closed, and stays so.
        self._phase = Phase.SUBSCRIBING
        self._opened.runner.welcome()
        # Commands that waited come now, behind the welcome.
        self._later([Subscribe(_SUBSCRIBING, (Request(f"down/{gateway}/#", qos=1),))])

    def closing(self, why: CloseReason) -> None:
        """The broker closes, and says more than CONNACK has words for: of a takeover, above all."""
        refusal, self._refusal = self._refusal, None
        if refusal is None:
            return
        reason = (why.name if refusal in _VAGUE else refusal.name).lower()
        told = {"gateway": self._login.gateway, "claimed_user": self._login.username, "peer": self._peer}
        log.warning("a gateway's login was refused: %s", reason, extra=told)
        self._counters.refused[reason] += 1
        self._link.refuse(reason)

    def _suback(self, suback: Suback) -> None:
        self._counters.logins += 1
        self._link.logged_in()
        if suback.reasons[0] >= ReasonCode.UNSPECIFIED_ERROR:
            # It may tell, and is told nothing.
            self._counters.commands_refused["not_authorized"] += 1
        # Now: a node that had this gateway until now has committed what it took last.
        self._services.devices.known(self._login.gateway, self._open)

    def _open(self) -> None:
        """What the grid has of this gateway is at hand."""
        if self._phase is not Phase.SUBSCRIBING:
            return
        opened, services, gateway = self._opened, self._services, self._login.gateway
        safe = services.devices.login(gateway, codec=opened.codec_name, version=opened.version, peer=self._peer)
        self._posting = Posting(
            gateway,
            Composer(services.node_id, gateway, self._codec_id),
            services.devices,
            self._counters,
            services.repetitions,
            self._bounds,
            safe,
            services.now,
            self._tell,
            opened.runner.safe,
        )
        self._phase = Phase.OPEN
        self._link.open(self._posting)

    def _puback(self, run: AckRun) -> None:
        posting = self._posting
        assert posting is not None
        refused = posting.acknowledged(run)
        if refused is None:
            posting.confirm()
        else:
            # Nothing behind it may be called safe, either.
            self._link.give_up("not_taken", refused)

    def _command(self, run: PublishRun) -> None:
        packets: list[Publish] = run.packets()
        for packet in packets:
            self._counters.commands += 1
            if not self.downlink.command(packet):
                self._counters.commands_refused["no_device"] += 1
                if packet.packet_id:
                    self._acknowledge([packet.packet_id])
