"""Where clients come in: the listeners with their certificates, and the files that say who may pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iot_mqtt.app.config.sections import Config, ListenerConfig
from iot_mqtt.app.node.certificates import Certificates
from iot_mqtt.app.node.configuration import Configuration, Run
from iot_mqtt.app.node.gateways import Gateways
from iot_mqtt.app.node.listeners import Listeners
from iot_mqtt.app.node.parts import PageAddress
from iot_mqtt.app.node.periodic import Periodic
from iot_mqtt.app.node.reloads import Reloads
from iot_mqtt.app.node.running_listeners import RunningListeners
from iot_mqtt.auth.bans import BanBook
from iot_mqtt.auth.service import Access
from iot_mqtt.pipeline import HalfOpen, Layout, ListenerSettings, Share, TimingWheel
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.clock import Clock


class Entrance:
    """Of one life of a node."""

    def __init__(
        self,
        config: Config,
        reactor: Any,
        clock: Clock,
        wheel: TimingWheel,
        access: Access,
        bans: BanBook,
        configuration: Configuration,
        dashboard: PageAddress,
    ) -> None:
        """``dashboard``: scheme and port of the pages that may connect, if there are any."""
        self._config = config
        self._access = access
        self.certificates = Certificates(clock)
        self._reloads = Reloads(access, self.certificates, configuration, reactor)
        self.listeners = Listeners(config, reactor, clock, wheel, bans.bans_host, dashboard)

    def open(self, layout: Callable[[ListenerSettings, ListenerConfig], Layout], half_open: HalfOpen) -> Share:
        """Accept from now on; returns the places that are left for the admin port."""
        room = self.listeners.open(layout, half_open)
        for one in self.listeners:
            self.certificates.add(one.name, one.tls)
        return room

    def look(self, repeat: Periodic) -> None:
        """What changes in files counts from now on."""
        if self._access.has_files:
            repeat(self._config.auth.reload_seconds, self._reloads.users.look)
        self.certificates.begin(lambda seconds: repeat(seconds, self._reloads.certificates.look))

    def reload(self) -> None:
        """Read again what may have changed in files, although nobody saw it."""
        self._reloads.reload()

    def changing(self, gateways: Gateways, moved: Callable[[Mapping[str, str]], None], run: Run) -> RunningListeners:
        """Ports that come and go while the node serves."""
        return RunningListeners(self.listeners, self._access, gateways, self.certificates, moved, run)

    @property
    def ports(self) -> dict[str, int]:
        """What was bound, by configuration key."""
        return {f"listeners.{name}": port for name, port in self.listeners.ports.items()}

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about."""
        parts = (self.listeners, self.certificates, self._reloads, self._access)
        return tuple(alarm for part in parts for alarm in part.alarms)
