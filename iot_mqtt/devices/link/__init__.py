"""The connections of gateways: between a codec and the broker."""

from iot_mqtt.devices.link.capturing import CaptureError, CaptureInfo, Captures, ObservedLink, Watcher
from iot_mqtt.devices.link.counters import LinkCounters, LinksCounters
from iot_mqtt.devices.link.services import LinkServices, LinkSettings
from iot_mqtt.devices.link.stage import DeviceStage, make_stage
from iot_mqtt.devices.link.turns import FrameTurns

__all__ = [
    "CaptureError",
    "CaptureInfo",
    "Captures",
    "DeviceStage",
    "FrameTurns",
    "LinkCounters",
    "LinkServices",
    "LinkSettings",
    "LinksCounters",
    "ObservedLink",
    "Watcher",
    "make_stage",
]
