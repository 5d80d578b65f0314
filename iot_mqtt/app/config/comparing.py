"""Two configurations beside each other: which keys differ, and one with some keys of the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from iot_mqtt.app.config import schema
from iot_mqtt.app.config.sections import Config, ListenerConfig
from iot_mqtt.app.dotted import nested
from iot_mqtt.secrecy import masked_key

#: With a listener of which nobody has said anything.
_ANY: Final = Config(listeners={"any": ListenerConfig()})


class _Absent:
    """There is no such listener."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


def value_of(config: Config, key: str) -> object:
    """The value of a key; ``ABSENT`` if it is one of a listener that this configuration has not."""
    value: object = config
    for name in key.split("."):
        if isinstance(value, Mapping):
            if name not in value:
                return ABSENT
            value = value[name]
        else:
            value = getattr(value, name)
    return value


def differing(one: Config, other: Config) -> list[str]:
    """The keys whose values differ, in the order of the configuration. A listener that only one of them has differs in
    what is not its default.
    """
    names = list(dict.fromkeys((*one.listeners, *other.listeners)))
    return [key for key in schema.keys(names) if _value(one, key) != _value(other, key)]


def defaults() -> Config:
    """What nobody has configured. Its data directory is where it would be."""
    config = Config()
    return dataclasses.replace(
        config, node=dataclasses.replace(config.node, data_dir=str(Path(config.node.data_dir).absolute()))
    )


def differences(one: Config, other: Config) -> Iterator[tuple[str, object, object]]:
    """The same with both values, as they may be printed. Two secrets that differ are two masks."""
    for key in differing(one, other):
        yield key, masked_key(key, _value(one, key)), masked_key(key, _value(other, key))


def with_keys(base: Config, keys: Iterable[str], source: Config) -> Config:
    """The configuration with these keys as the other one has them. Both have the listeners that keys are of."""
    made: Config = _replaced(base, nested({key: value_of(source, key) for key in keys}))
    return made


def _value(config: Config, key: str) -> object:
    value = value_of(config, key)
    if value is not ABSENT:
        return value
    _, _, *rest = key.split(".")
    return False if rest == ["enabled"] else value_of(_ANY, ".".join(("listeners", "any", *rest)))


def _replaced(section: Any, changed: Mapping[str, Any]) -> Any:
    if isinstance(section, Mapping):
        return {**section, **{name: _replaced(section[name], below) for name, below in changed.items()}}
    values = {
        name: _replaced(getattr(section, name), value) if _is_section(getattr(section, name)) else value
        for name, value in changed.items()
    }
    return dataclasses.replace(section, **values)


def _is_section(value: object) -> bool:
    # A mapping as a value (of uplink.kafka.options) is one value.
    return dataclasses.is_dataclass(value) or (
        isinstance(value, Mapping) and all(isinstance(one, ListenerConfig) for one in value.values()) and bool(value)
    )
