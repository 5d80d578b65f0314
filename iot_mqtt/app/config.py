"""Configuration, the whole of it: ``load_config`` for those who serve, ``read_config`` for those who ask.

Defaults < file < environment (``IOT_MQTT__A__B``) < ``--set a.b=value``. The shape is in ``config_sections``,
the meaning of each key in ``config_docs``, what must hold between keys in ``config_checks``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from iot_mqtt.app.config_checks import serving_problems
from iot_mqtt.app.config_errors import ConfigError, Problem
from iot_mqtt.app.config_read import LoadedConfig, read_config
from iot_mqtt.app.config_sections import Config

__all__ = [
    "DEFAULT_FILE",
    "Config",
    "ConfigError",
    "LoadedConfig",
    "Problem",
    "default_file",
    "load_config",
    "read_config",
]

#: Read when it is there and no other file is named.
DEFAULT_FILE = "application.yaml"


def load_config(path: str | None, sets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of a node that is about to serve; ``ConfigError`` names every problem."""
    loaded = read_config(path, sets, environ)
    if problems := serving_problems(loaded):
        raise ConfigError(problems)
    return loaded.config


def default_file() -> str | None:
    """The configuration file of the working directory, if there is one."""
    return DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else None
