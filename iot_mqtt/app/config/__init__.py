"""Configuration, the whole of it: ``load_config`` for those who serve, ``read_config`` for those who ask.

Defaults < file < what was changed while the node ran (``changed``) < environment (``IOT_MQTT__A__B``) < ``--set
a.b=value``. The shape is in ``sections``, the meaning
and the limits of each key in ``keys.yaml``, what must hold between keys in ``checks``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from iot_mqtt.app.config.errors import ConfigError, Problem
    from iot_mqtt.app.config.layers import DEFAULT_FILE, default_file
    from iot_mqtt.app.config.loading import load_checked, load_config
    from iot_mqtt.app.config.reading import LoadedConfig, read_config
    from iot_mqtt.app.config.sections import Config

__all__ = [
    "DEFAULT_FILE",
    "Config",
    "ConfigError",
    "LoadedConfig",
    "Problem",
    "default_file",
    "load_checked",
    "load_config",
    "read_config",
]

#: Where each of them is. It is imported when it is asked for: the sections know every part of a node, and ``ctl``,
#: which looks for the data directory, needs none of them.
_PLACES: Final = {
    "DEFAULT_FILE": "layers",
    "Config": "sections",
    "ConfigError": "errors",
    "LoadedConfig": "reading",
    "Problem": "errors",
    "default_file": "layers",
    "load_checked": "loading",
    "load_config": "loading",
    "read_config": "reading",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
