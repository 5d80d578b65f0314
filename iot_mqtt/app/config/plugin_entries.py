"""``plugins.codecs``: the entries of a list of mappings, checked and as the plugins know them.

A codec that a listener names needs no entry: it is enabled with the defaults.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from iot_mqtt.app.config.sections import Config
from iot_mqtt.plugins.settings import Limits, PluginSettings

KEYS = ("name", "enabled", "isolation", "config", "limits")
ISOLATIONS = ("inline", "process")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIMITS = {field.name: field.type for field in dataclasses.fields(Limits)}


def plugin_settings(config: Config) -> dict[str, PluginSettings]:
    """By name: what the entries say, and the codecs of the listeners that are open. ValueError as ``entry_of``."""
    found = dict(entry_of(entry) for entry in config.plugins.codecs)
    for listener in config.enabled_listeners.values():
        if listener.protocol == "frames" and listener.codec is not None:
            found.setdefault(listener.codec, PluginSettings())
    return found


def entry_of(entry: Mapping[str, object]) -> tuple[str, PluginSettings]:
    """One entry. ValueError says what is wrong with it."""
    _known(entry, KEYS)
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"needs a name of letters, digits, '.', '_' and '-', not {name!r}")
    enabled = entry.get("enabled", True)
    if not isinstance(enabled, bool):
        raise ValueError(f"enabled must be true or false, not {enabled!r}")  # noqa: TRY004 - a wrong value
    isolation = entry.get("isolation")
    if isolation is not None and isolation not in ISOLATIONS:
        raise ValueError(f"isolation must be one of {', '.join(ISOLATIONS)}, not {isolation!r}")
    config = entry.get("config") or {}
    if not isinstance(config, Mapping):
        raise ValueError("config must have keys below it")  # noqa: TRY004 - likewise
    return name, PluginSettings(
        enabled=enabled,
        isolation=None if isolation is None else str(isolation),
        config={str(key): value for key, value in config.items()},
        limits=_limits(entry.get("limits") or {}),
    )


def _limits(entry: object) -> Limits:
    if not isinstance(entry, Mapping):
        raise ValueError("limits must have keys below it")  # noqa: TRY004 - likewise
    _known(entry, tuple(_LIMITS))
    for key, value in entry.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"limits.{key} must be a number greater than 0, not {value!r}")
    changes: dict[str, Any] = {
        key: int(value) if _LIMITS[key] in (int, "int") else float(value) for key, value in entry.items()
    }
    return dataclasses.replace(Limits(), **changes)


def _known(entry: Mapping[str, object], keys: Iterable[str]) -> None:
    keys = tuple(keys)
    for key in entry:
        if key not in keys:
            close = get_close_matches(str(key), keys, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(keys)}"
            raise ValueError(f"unknown key {key!r}; {hint}")
