"""Configuration, the whole of it: ``load_config`` for those who serve, ``read_config`` for those who ask.

Defaults < file < what was changed while the node ran (``changed``) < environment (``IOT_MQTT__A__B``) < ``--set
a.b=value``. The shape is in ``sections``, the meaning
and the limits of each key in ``keys.yaml``, what must hold between keys in ``checks``.
"""

from iot_mqtt.app.config.errors import ConfigError, Problem
from iot_mqtt.app.config.loading import DEFAULT_FILE, default_file, load_checked, load_config
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
