"""Optional accelerators: the compiled scanner where it could be built, else its pure-Python twin.

``HAVE_NATIVE`` says whether the compiled module is there, ``USE_NATIVE`` whether it is what this package
exports. The environment decides: ``IOT_MQTT_NATIVE=auto`` (the default) takes it if it is there, ``off``
never, and ``require`` refuses to start without it. Imported only by ``codec``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

__all__ = [
    "FIVE",
    "FROM_CLIENT",
    "HAVE_NATIVE",
    "USE_NATIVE",
    "Scanner",
    "acks",
    "locate",
    "patch",
    "payloads",
    "publish",
    "recode",
]

from iot_mqtt.native._pure import FIVE, FROM_CLIENT

SWITCH: Final = "IOT_MQTT_NATIVE"


def _choose(setting: str, have: bool) -> bool:
    """Whether to use the compiled module, or ImportError if it was demanded and is absent."""
    if setting not in ("auto", "off", "require"):
        raise ImportError(f"{SWITCH} is {setting!r}; it may be auto, off or require")
    if setting == "require" and not have:
        raise ImportError(f"{SWITCH}=require, but iot_mqtt.native._scan was not built: run setup.py build_ext")
    return have and setting != "off"


HAVE_NATIVE: Final = find_spec("iot_mqtt.native._scan") is not None
USE_NATIVE: Final = _choose(os.environ.get(SWITCH, "auto"), HAVE_NATIVE)

if TYPE_CHECKING or not USE_NATIVE:
    from iot_mqtt.native._pure import Scanner, acks, locate, patch, payloads, publish, recode
else:
    from iot_mqtt.native._scan import Scanner, acks, locate, patch, payloads, publish, recode
