# Twisted's ports have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Listeners: a port, the layout of its connections, and the connections themselves.

The transport's own stages (PROXY header, TLS, WebSocket) are put in front of the
layout that the caller gives, by the listener's settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from twisted.internet import tcp
from twisted.internet.defer import Deferred, maybeDeferred

from iot_mqtt.pipeline.channel import Channel, ChannelSettings, address
from iot_mqtt.pipeline.debts import Debts
from iot_mqtt.pipeline.detect import HTTP, MQTT, TLS, DetectStage, Entries
from iot_mqtt.pipeline.doorman import ConnectionCounts, Doorman
from iot_mqtt.pipeline.layout import Layout
from iot_mqtt.pipeline.login_budget import LoginBudget, LoginLimit
from iot_mqtt.pipeline.ports import ChannelPort
from iot_mqtt.pipeline.proxy_protocol import ProxyProtocolStage, networks
from iot_mqtt.pipeline.settings import ListenerSettings
from iot_mqtt.pipeline.tls import TlsStage
from iot_mqtt.pipeline.tls_context import TlsContext
from iot_mqtt.pipeline.transport import ChannelFactory
from iot_mqtt.pipeline.unfinished import Unfinished
from iot_mqtt.pipeline.websocket import WebSocketStage
from iot_mqtt.pipeline.wheel import TimingWheel

__all__ = ["Listening", "listen", "transport_stages"]

MakeLayout = Callable[[ListenerSettings], Layout]


class Listening:
    """A port that is open."""

    def __init__(
        self, settings: ListenerSettings, port: tcp.Port, factory: ChannelFactory, tls: TlsContext | None
    ) -> None:
        self.settings = settings
        self.tls = tls
        self._port = port
        self._factory = factory
        bound = port.getHost()
        self.host: str = bound.host
        #: The port number, also where the settings said 0.
        self.port: int = bound.port

    @property
    def name(self) -> str:
        """The listener's name."""
        return self.settings.name

    @property
    def counts(self) -> ConnectionCounts:
        """Connections accepted, refused and open."""
        return self._factory.counts

    def __len__(self) -> int:
        return len(self._factory.channels)

    def __iter__(self) -> Iterator[Channel]:
        """The channels as they are now; they may end while one goes through them."""
        return iter(tuple(self._factory.channels))

    def pause(self) -> None:
        """Leave new connections in the kernel's backlog, for instance under overload."""
        self._port.stopReading()

    def resume(self) -> None:
        """Accept again."""
        if self._port.connected:
            self._port.startReading()

    def stop(self) -> Deferred[None]:
        """Close the port; the connections stay."""
        return maybeDeferred(self._port.stopListening).addCallback(lambda _: None)

    def __repr__(self) -> str:
        return f"<Listening {self.name} on {address(self.host, self.port)}, {len(self)} channels>"


def listen(
    reactor: Any,
    settings: ListenerSettings,
    make_layout: MakeLayout,
    *,
    wheel: TimingWheel,
    doorman: Doorman | None = None,
    login: LoginLimit | None = None,
    handshakes: LoginBudget | None = None,
    debts: Debts | None = None,
    unfinished: Unfinished | None = None,
) -> Listening:
    """Open a port. ``make_layout`` is asked once for the stages above the transport's own; ``doorman`` says who is let
    in (None: whoever comes, within the settings), ``login`` what clients may send before they have logged in,
    ``handshakes`` how many of TLS may be under way, ``debts`` what may wait for all of them,
    ``unfinished`` what may be held of packets that are not complete.

    Raises ``TlsConfigurationError`` or Twisted's ``CannotListenError``.
    """
    tls = None if settings.tls is None else TlsContext(settings.tls, handshakes)
    if doorman is None:
        doorman = Doorman(settings, wheel.clock.monotonic)
    layout = transport_stages(settings, doorman) + make_layout(settings)
    channel_settings = ChannelSettings(
        settings.name,
        wheel,
        address(settings.host, settings.port),
        settings.outbox,
        settings.linger,
        login,
        debts,
        unfinished,
    )
    factory = ChannelFactory(reactor, channel_settings, layout, doorman, tls)
    binding: Any = tcp.makeBinding(settings.host, settings.port, reuseAddress=True, reusePort=settings.reuse_port)
    port = ChannelPort(binding, cast(Any, factory), settings.backlog, settings.host, reactor)
    port.startListening()
    return Listening(settings, port, factory, tls)


def transport_stages(settings: ListenerSettings, doorman: Doorman) -> Layout:
    """The stages between the head and the protocol, by the settings::

    [proxy]  [tls]  [websocket]                  each as configured
    [proxy]  detect ─▶ tls, detect ─▶ websocket  with ``detect``: whichever of the configured ones comes
    """
    trusted = networks(settings.trusted_proxies)
    proxy = Layout([("proxy", lambda: ProxyProtocolStage(trusted, doorman.placed))] if settings.proxy_protocol else [])
    websocket = settings.websocket
    frames: Entries = () if websocket is None else (("websocket", lambda: WebSocketStage(websocket)),)
    if settings.detect:
        plain = {MQTT: (), HTTP: frames} if frames else {MQTT: ()}
        inside: Entries = (
            ("tls", lambda: TlsStage(wait_for_bytes=True)),
            ("detect_inside", lambda: DetectStage(plain)),
        )
        choices = plain | {TLS: inside} if settings.tls is not None else plain
        return proxy + Layout([("detect", lambda: DetectStage(choices))])
    encrypted: Entries = ()
    if settings.tls is not None:
        encrypted = (("tls", lambda: TlsStage(wait_for_bytes=settings.proxy_protocol)),)
    return proxy + Layout(encrypted + frames)
