"""What a node runs: what was compiled of it, or Python."""

from __future__ import annotations

from iot_mqtt.compiled import CHOICE
from iot_mqtt.native import USE_NATIVE

__all__ = ["form"]


def form() -> str:
    """What a node started now would run: the same work is done by either, faster by what is compiled."""
    match (CHOICE.use, USE_NATIVE):
        case (True, True):
            return "compiled"
        case (False, False):
            return "Python alone: nothing is compiled, other sources are, or IOT_MQTT_NATIVE=off says so"
        case (False, True):
            return "Python with native modules; the rest is not compiled, or of other sources"
    return "compiled, without the native modules"
