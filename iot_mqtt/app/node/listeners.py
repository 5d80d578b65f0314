"""The listeners of one life, and what they share: places, addresses, half-open connections, logins, debts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.parts import bound, make_listener_settings, make_login_limit, make_visitors
from iot_mqtt.pipeline import (
    Debts,
    Descriptors,
    Doorman,
    HalfOpen,
    Layout,
    ListenerSettings,
    Listening,
    LoginBudget,
    Share,
    TimingWheel,
    listen,
)
from iot_mqtt.pipeline.reasons import TLS_HANDSHAKES
from iot_mqtt.ports.clock import Clock


class Listeners:
    """Made anew for each life, so that nothing is counted that was of the last one."""

    def __init__(
        self, config: Config, reactor: Any, clock: Clock, wheel: TimingWheel, banned: Callable[[str], bool]
    ) -> None:
        """``banned``: whether nobody is let in from a host."""
        self._config = config
        self._reactor = reactor
        self._clock = clock
        self._wheel = wheel
        self._banned = banned
        self._open: list[Listening] = []

    def __iter__(self) -> Iterator[Listening]:
        return iter(self._open)

    @property
    def ports(self) -> dict[str, int]:
        """What was bound, by name."""
        return {one.name: one.port for one in self._open}

    @property
    def addresses(self) -> dict[str, str]:
        """Where each accepts."""
        return {one.name: bound(one) for one in self._open}

    def open(self, layout: Callable[[ListenerSettings], Layout], half_open: HalfOpen) -> Share:
        """Accept from now on; returns the places that are left for the admin port."""
        config, clock = self._config, self._clock
        logins = LoginBudget(config.mqtt.max_connecting_bytes)
        handshakes = LoginBudget(config.mqtt.max_handshakes, TLS_HANDSHAKES)
        debts = Debts(config.mqtt.max_outbox_bytes)
        enabled = config.enabled_listeners
        descriptors, among = Descriptors.of_process(config.doors.max_connections), len(enabled) + 1
        visitors = make_visitors(config.doors, clock)
        half_open.within(descriptors.limit)
        for name, listener in enabled.items():
            settings = make_listener_settings(name, listener)
            doorman = Doorman(
                settings,
                clock.monotonic,
                share=descriptors.share(settings.max_connections, among),
                visitors=visitors,
                half_open=half_open,
                banned=self._banned,
            )
            opened = listen(
                self._reactor,
                settings,
                layout,
                wheel=self._wheel,
                doorman=doorman,
                login=make_login_limit(config.mqtt, logins, listener.protocol),
                handshakes=handshakes,
                debts=debts,
            )
            self._open.append(opened)
        return descriptors.share(config.admin.max_connections, among)

    async def stop(self) -> None:
        """Accept no more. Once more does nothing more."""
        listening, self._open = self._open, []
        for one in listening:
            await one.stop()
