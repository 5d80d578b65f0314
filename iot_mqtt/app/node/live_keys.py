"""Keys that change while a node runs: settings that its parts hold say something else, and parts that have made
something of a setting make it anew.

::

    LiveKeys.change(config) ─▶ each settings object that was made here says what the configuration says now
                            └▶ each call of ``then``, with the configuration
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.logging import set_level
from iot_mqtt.app.node.listeners import Listeners
from iot_mqtt.app.node.parts import make_flapping, make_guessing
from iot_mqtt.auth.limit_rules import rules_of
from iot_mqtt.auth.service import Access
from iot_mqtt.broker.allowance import allowance_of
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.conduct import Conduct
from iot_mqtt.broker.connections.traffic import Rates
from iot_mqtt.ports.bans import Bans
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.fields import renew

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)


class LiveKeys:
    """Of one life. ``config`` is what is in force; ``shared`` the same, in sections that change for who holds them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._made: list[tuple[Any, Callable[[Config], Any]]] = []
        self._calls: list[Callable[[Config], None]] = []
        self.shared = replace(
            config,
            node=self.made(lambda told: replace(told.node)),
            mqtt=self.made(lambda told: replace(told.mqtt)),
            devices=self.made(lambda told: replace(told.devices)),
        )
        self.then(lambda told: set_level(told.log.level))

    def made(self, make: Callable[[Config], Settings]) -> Settings:
        """Settings of a part, which from now on say what the configuration says."""
        settings = make(self.config)
        self._made.append((settings, make))
        return settings

    def then(self, call: Callable[[Config], None]) -> None:
        """To be called with what is in force after each change."""
        self._calls.append(call)

    def change(self, config: Config) -> None:
        """This is in force now. It was checked, and nothing in here fails."""
        self.config = config
        for settings, make in self._made:
            renew(settings, make(config))
        for call in self._calls:
            call(config)


def port_rates(config: Config) -> dict[str, Rates]:
    """What the clients of each open port may send."""
    return {name: Rates(one.message_rate, one.byte_rate) for name, one in config.enabled_listeners.items()}


def make_conduct(live: LiveKeys, bans: Bans, clock: Clock) -> Conduct:
    """What bans clients that flap or guess."""
    flapping = live.made(lambda told: make_flapping(told.doors))
    guessing = live.made(lambda told: make_guessing(told.doors))
    return Conduct(flapping, guessing, bans, clock.monotonic)


def follow(live: LiveKeys, broker: Composition, listeners: Listeners, access: Access) -> None:
    """Have the parts of a broker that made something of its settings make it anew."""

    def changed(config: Config) -> None:
        mqtt = config.mqtt
        renew(broker.clients.allowance, allowance_of(mqtt))
        broker.clients.timeouts.seconds = mqtt.connect_timeout
        broker.sessions.queued.limit = mqtt.max_queued_bytes_in_all
        broker.readers.replay_turns.limit(mqtt)
        broker.clients.traffic.change(mqtt.traffic, port_rates(config))
        listeners.limit(config)
        access.limits.rewrite(rules_of(config.auth.limits, "auth.limits"))
        broker.clients.limiting.usual_changed()

    live.then(changed)
