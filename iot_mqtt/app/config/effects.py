"""Keys that do something under a condition only, and the sentence for whoever writes one where it does nothing.

A key that is written where nobody reads it is a mistake of which its author hears nothing: he believes that there is a
limit. It is refused unless a higher layer decided otherwise than the one in which the key stands: ``--set
uplink.kind=none`` may pass over a file that configures Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from iot_mqtt.app.config.errors import Problem
from iot_mqtt.app.config.reading import LoadedConfig
from iot_mqtt.app.config.sections import Config, ListenerConfig


@dataclass(frozen=True, slots=True)
class _Condition:
    """Keys (one, or all below a section that ends in a dot), what they depend on, and what else can be done."""

    keys: str
    decided_by: str
    values: tuple[str, ...]
    instead: str = ""
    #: Something else reads the keys.
    unless: Callable[[Config], bool] = lambda _: False

    def covers(self, key: str) -> bool:
        return key.startswith(self.keys) if self.keys.endswith(".") else key == self.keys


def _jobs_read_kafka(config: Config) -> bool:
    return config.pipeline.source == "kafka"


_CONDITIONS = (
    _Condition("grid.ignite.", "grid.kind", ("ignite",)),
    _Condition("registry.zookeeper.", "registry.kind", ("zookeeper",)),
    _Condition("registry.static.", "registry.kind", ("static",)),
    _Condition("uplink.file.", "uplink.kind", ("file",)),
    _Condition("uplink.kafka.", "uplink.kind", ("kafka",), unless=_jobs_read_kafka),
    _Condition("uplink.commands.", "uplink.kind", ("kafka",)),
    _Condition("log.disk_limit", "grid.kind", ("embedded", "ignite"), "memory bounds nothing"),
    _Condition("log.disk_reserve", "grid.kind", ("embedded",), "only the node's own disk has one"),
)
_OF_PROTOCOLS = {
    "path": "websocket",
    "heartbeat": "frames",
    "command_expiry": "frames",
    "commands_at_once": "frames",
}


def without_effect(loaded: LoadedConfig) -> Iterator[Problem]:
    """What was written and does nothing here."""
    for key in loaded.written:
        for condition in _CONDITIONS:
            if condition.covers(key) and not condition.unless(loaded.config):
                yield from _unmet(loaded, key, condition.decided_by, condition.values, condition.instead)
    for name, listener in loaded.config.enabled_listeners.items():
        yield from _of_listener(loaded, name, listener)


def _of_listener(loaded: LoadedConfig, name: str, listener: ListenerConfig) -> Iterator[Problem]:
    for option, protocol in _OF_PROTOCOLS.items():
        if f"listeners.{name}.{option}" in loaded.written and listener.protocol != protocol:
            yield from _unmet(loaded, f"listeners.{name}.{option}", f"listeners.{name}.protocol", (protocol,), "")


def _unmet(loaded: LoadedConfig, key: str, decided_by: str, values: tuple[str, ...], instead: str) -> Iterator[Problem]:
    value, origin = loaded.value(decided_by), loaded.origin(key)
    if value in values or origin.layer < loaded.origin(decided_by).layer:
        return
    way_out = instead or f"set {decided_by}: {' or '.join(values)}"
    yield Problem(origin, key, f"has no effect with {decided_by}: {value}; {way_out}, or leave it out")
