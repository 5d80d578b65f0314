"""``plugins.codecs``: the entries of a list of mappings, checked and as the plugins know them.

A codec that a listener names needs no entry: it is enabled with the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from iot_mqtt.app.config.sections import Config
from iot_mqtt.plugins.settings import Limits, PluginSettings
from iot_mqtt.sdk.config import BadConfig, config_from

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class _Entry:
    """As it is written."""

    name: str
    enabled: bool = True
    isolation: Literal["inline", "process"] | None = None
    config: dict[object, object] | None = None
    limits: Limits | None = None
    sandbox: Literal["available", "required", "off"] = "available"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"needs a name of letters, digits, '.', '_' and '-', not {self.name!r}")
        for key, value in asdict(self.limits or Limits()).items():
            if value <= 0:
                raise ValueError(f"limits.{key}: must be greater than 0, not {value!r}")


def plugin_settings(config: Config) -> dict[str, PluginSettings]:
    """By name: what the entries say, and the codecs of the listeners that are open. ValueError as ``entry_of``."""
    found = dict(entry_of(entry) for entry in config.plugins.codecs)
    for listener in config.enabled_listeners.values():
        if listener.protocol == "frames" and listener.codec is not None:
            found.setdefault(listener.codec, PluginSettings())
    return found


def entry_of(entry: Mapping[str, object]) -> tuple[str, PluginSettings]:
    """One entry. ValueError says what is wrong with it."""
    try:
        told = config_from(_Entry, entry)
    except BadConfig as error:
        raise ValueError("; ".join(error.lines)) from None
    config = {str(key): value for key, value in (told.config or {}).items()}
    return told.name, PluginSettings(told.enabled, told.isolation, config, told.limits or Limits(), told.sandbox)
