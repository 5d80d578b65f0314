"""The configuration of a node that is about to serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.errors import ConfigError
from iot_mqtt.app.config.reading import LoadedConfig, read_config
from iot_mqtt.app.config.sections import Config


def load_config(path: str | None, sets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Config:
    """``ConfigError`` names every problem."""
    return load_checked(path, sets, environ).config


def load_checked(path: str | None, sets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """The same with its layers."""
    loaded = read_config(path, sets, environ)
    if problems := serving_problems(loaded):
        raise ConfigError(problems)
    return loaded
