"""The listeners of one life, and what they share: places, addresses, half-open connections, logins, debts. They are
opened and closed while the node runs as at its start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from iot_mqtt.app.config.sections import Config, ListenerConfig
from iot_mqtt.app.node.parts import (
    PageAddress,
    bound,
    make_address_limits,
    make_listener_settings,
    make_login_limit,
    make_visitors,
)
from iot_mqtt.app.node.port_key import named_by
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import (
    Channel,
    CloseReason,
    Debts,
    Descriptors,
    Doorman,
    HalfOpen,
    HalfOpenLimits,
    Layout,
    ListenerSettings,
    Listening,
    LoginBudget,
    Share,
    TimingWheel,
    Unfinished,
    listen,
)
from iot_mqtt.pipeline.descriptors import open_files
from iot_mqtt.pipeline.pipeline import Pipeline
from iot_mqtt.pipeline.ports import CalmPort
from iot_mqtt.pipeline.reasons import TLS_HANDSHAKES
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.fields import renew

log = logging.getLogger(__name__)

#: Clients of a port that is closed that are told so at once, and seconds until the next ones are: they all come back
#: somewhere.
CLOSED_AT_ONCE = 200
CLOSE_STEP = 0.05
#: The alarm of refused connections goes on for so many seconds after the last one.
ALARM_SECONDS = 60.0
#: Clients for which a limit of the system that has room for fewer is likely to be one that nobody has thought of.
FEW_CLIENTS = 10_000
_CLOSED = "the listener was closed by the operator"


@dataclass(frozen=True, slots=True)
class OpenListener:
    """One that is open, with its part of the node's descriptors."""

    listening: Listening
    share: Share


class Listeners:
    """Made anew for each life, so that nothing is counted that was of the last one."""

    def __init__(
        self,
        config: Config,
        reactor: Any,
        clock: Clock,
        wheel: TimingWheel,
        banned: Callable[[str], bool],
        dashboard: PageAddress,
    ) -> None:
        """``banned``: whether nobody is let in from a host; ``dashboard``: whose pages may connect."""
        self._config = config
        self._reactor = reactor
        self._clock = clock
        self._wheel = wheel
        self._banned = banned
        self._dashboard = dashboard
        self._open: dict[str, OpenListener] = {}
        self._logins = LoginBudget(config.mqtt.max_connecting_bytes)
        self._handshakes = LoginBudget(config.mqtt.max_handshakes, TLS_HANDSHAKES)
        self._debts = Debts(config.mqtt.max_outbox_bytes)
        self._unfinished = Unfinished(_unfinished_bytes(config))
        self._visitors = make_visitors(config.doors, clock)
        self._address_limits = self._visitors.limits
        self._files = open_files()
        self._descriptors = Descriptors.of_process(config.doors.max_connections)
        #: For how many connections there was no descriptor, and when that was seen to grow.
        self._lacking = (self._without_descriptor, -ALARM_SECONDS)
        #: Clients that there is room for.
        self._room = self._descriptors.limit
        self._layout: Callable[[ListenerSettings, ListenerConfig], Layout]
        self._half_open: HalfOpen

    def __iter__(self) -> Iterator[Listening]:
        return iter([one.listening for one in self._open.values()])

    def get(self, name: str) -> Listening | None:
        """The port of this name, if it is open."""
        found = self._open.get(name)
        return None if found is None else found.listening

    @property
    def ports(self) -> dict[str, int]:
        """What was bound, by name."""
        return {one.name: one.port for one in self}

    @property
    def sockets(self) -> list[tuple[bool, int]]:
        """Whether it is over TLS, and the port, of each for browsers."""
        return [(one.tls is not None, one.port) for one in self if one.settings.websocket is not None]

    @property
    def addresses(self) -> dict[str, str]:
        """Where each accepts."""
        return {one.name: bound(one) for one in self}

    def open(self, layout: Callable[[ListenerSettings, ListenerConfig], Layout], half_open: HalfOpen) -> Share:
        """Accept from now on; returns the places that are left for the admin port."""
        self._layout, self._half_open = layout, half_open
        half_open.within(self._descriptors.limit)
        enabled = self._config.enabled_listeners
        among = len(enabled) + 1
        for name, listener in enabled.items():
            self._add(name, listener, among)
        admin = self._descriptors.share(self._config.admin.max_connections, among)
        self._room = self._descriptors.limit - admin.own
        self._say_room(sum(listener.max_connections for listener in enabled.values()))
        return admin

    def _say_room(self, allowed: int) -> None:
        """How many clients may come, and by which limit; ``allowed``: by the listeners' own."""
        every = self._descriptors
        if allowed <= self._room:
            log.info("room for %d clients, by listeners.<name>.max_connections", allowed)
        else:
            level = logging.WARNING if every.short and self._room < FEW_CLIENTS else logging.INFO
            log.log(level, "room for %d clients, by %s", self._room, every.bound)

    @property
    def _without_descriptor(self) -> int:
        return CalmPort.starved + (self._descriptors.refused if self._descriptors.short else 0)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about."""
        now = self._clock.monotonic()
        count, at = self._lacking
        if self._without_descriptor > count:
            count, at = self._lacking = self._without_descriptor, now
        if now - at >= ALARM_SECONDS:
            return ()
        if (files := open_files()) < self._files:
            why = f"the limit of open files is {files} now, {self._files} at the start"
        else:
            why = f"there is room for {self._room} clients, by {self._descriptors.bound}"
        return (Alarm(AlarmKind.DESCRIPTORS, f"connections are refused: {why}", why),)

    def add(self, name: str, config: ListenerConfig) -> Listening:
        """Open one more. Raises ``TlsConfigurationError`` or Twisted's ``CannotListenError``."""
        return self._add(name, config, len(self._open) + 2)

    def _add(self, name: str, config: ListenerConfig, among: int) -> Listening:
        settings = make_listener_settings(name, config, self._dashboard)
        share = self._descriptors.share(settings.max_connections, among)
        doorman = Doorman(
            settings,
            self._clock.monotonic,
            share=share,
            visitors=self._visitors,
            half_open=self._half_open,
            banned=self._banned,
        )
        try:
            with named_by(f"listeners.{name}"):
                listening = listen(
                    self._reactor,
                    settings,
                    lambda told: self._layout(told, config),
                    wheel=self._wheel,
                    doorman=doorman,
                    login=make_login_limit(self._config.mqtt, self._logins, config.protocol),
                    handshakes=self._handshakes,
                    debts=self._debts,
                    unfinished=self._unfinished,
                )
        except Exception:
            share.end()
            raise
        self._open[name] = OpenListener(listening, share)
        return listening

    def close(self, name: str) -> Deferred[None]:
        """Close a port and let its clients go: version 5 is told 0x98. Fires when the last of them was told."""
        one = self._open.pop(name)
        return Deferred.fromCoroutine(self._close(one))

    async def _close(self, one: OpenListener) -> None:
        await one.listening.stop()
        told = 0
        while channels := [channel for channel in one.listening if not channel.closing]:
            for channel in channels[:CLOSED_AT_ONCE]:
                _let_go(channel)
            told += len(channels[:CLOSED_AT_ONCE])
            if len(channels) > CLOSED_AT_ONCE:
                await deferLater(self._reactor, CLOSE_STEP)
            else:
                break
        one.share.end()
        log.info("listener %s was closed", one.listening.name, extra={"connections": told})

    def limit(self, config: Config) -> None:
        """The limits of all ports, and of each, are others now."""
        mqtt = config.mqtt
        self._logins.limit, self._handshakes.limit = mqtt.max_connecting_bytes, mqtt.max_handshakes
        self._debts.limit, self._unfinished.limit = mqtt.max_outbox_bytes, _unfinished_bytes(config)
        limits = HalfOpenLimits(mqtt.max_half_open, mqtt.max_half_open_per_listener, mqtt.max_half_open_per_address)
        self._half_open.limit(limits)
        self._half_open.within(self._descriptors.limit)
        renew(self._address_limits, make_address_limits(config.doors))
        self._visitors.forget_sources()
        for name, one in self._open.items():
            told = config.listeners.get(name)
            if told is None:
                continue  # it is about to be closed
            renew(one.listening.settings, make_listener_settings(name, told, self._dashboard))
            one.share.most = told.max_connections

    async def stop(self) -> None:
        """Accept no more. Once more does nothing more."""
        listening, self._open = self._open, {}
        for one in listening.values():
            await one.listening.stop()

    @property
    def states(self) -> Mapping[str, OpenListener]:
        """Those that are open, by name."""
        return self._open


def _unfinished_bytes(config: Config) -> int:
    """One packet may be there in any case."""
    return max(config.mqtt.max_unfinished_bytes, config.mqtt.max_packet_size)


def _let_go(channel: Channel) -> None:
    """Of a port that is closed."""
    pipeline = channel.pipeline
    connection = pipeline.get("broker") if isinstance(pipeline, Pipeline) else None
    if isinstance(connection, Connection) and connection.ctx is not None:
        connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, _CLOSED)
    else:
        channel.close(CloseReason("listener_closed", _CLOSED))
