"""What a node has for gateways beside its broker: the plugins, and what the links to gateways share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from iot_mqtt import __version__
from iot_mqtt.app.config import ConfigError
from iot_mqtt.app.config.folders import captures_dir, plugins_dir
from iot_mqtt.app.config.plugin_entries import plugin_settings
from iot_mqtt.app.config.sections import Config
from iot_mqtt.custom_protocols import BUNDLED
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.link import Captures, FrameTurns, LinksCounters, LinkServices
from iot_mqtt.devices.link.repetitions import Repetitions
from iot_mqtt.errors import Unavailable
from iot_mqtt.plugins.catalog import Plugins
from iot_mqtt.plugins.info import PluginError
from iot_mqtt.plugins.settings import PluginSettings
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.recent import Recent


class Gateways:
    """Of one life of a node."""

    def __init__(
        self, config: Config, reactor: Any, clock: Clock, reread: Callable[[], Awaitable[Config]] | None = None
    ) -> None:
        """``reread``: the configuration as it is written now."""
        self._config = config
        self._reread = reread
        self._reactor = reactor
        self._clock = clock
        self.counters = LinksCounters()
        self.captures = Captures(captures_dir(config), clock)
        self.plugins = Plugins(
            reactor,
            plugins_dir(config),
            plugin_settings(config),
            bundled=BUNDLED,
            version=__version__,
            reread=self._sections,
            allowed=config.plugins.allowed_wheels,
        )

    async def _sections(self) -> Mapping[str, PluginSettings]:
        """Of the plugins, as they are written now. Raises ``PluginError``."""
        try:
            return plugin_settings(self._config if self._reread is None else await self._reread())
        except (ConfigError, Unavailable, ValueError) as error:
            raise PluginError("refused", f"the configuration cannot be used: {error}") from error

    async def start(self) -> None:
        """Every plugin is ready, or is known not to be: gateways can be let in."""
        await self.plugins.start()

    def stop(self) -> None:
        self.plugins.stop()
        self.captures.close()

    def services(self, accompanied: Accompanied, recent: Recent) -> LinkServices:
        """What each link gets. ``recent``: what went wrong for clients."""
        return LinkServices(
            self._config.node.id,
            self.plugins,
            accompanied.devices,
            accompanied.states.of,
            self.counters,
            self.captures,
            Repetitions(self._now, recent.note),
            now=self._now,
            call_soon=self._reactor.call_at_turn_end,
            turns=FrameTurns(self._clock.monotonic, self._reactor.call_at_turn_end),
        )

    def _now(self) -> int:
        return int(self._clock.wall() * 1000)

    def facts(self) -> Mapping[str, object]:
        """Counters by codec, what codecs count themselves among them."""
        for plugin in self.plugins.info():
            if plugin.counters:
                self.counters.of(plugin.name).events = Counter(plugin.counters)
        return self.counters.codecs
