"""The connections of gateways: between a codec and the broker."""

from iot_mqtt.devices.link.capturing import CaptureError, CaptureInfo, Captures
from iot_mqtt.devices.link.counters import LinkCounters, LinksCounters
from iot_mqtt.devices.link.services import LinkServices, LinkSettings
from iot_mqtt.devices.link.stage import DeviceStage, make_stage
from iot_mqtt.devices.link.turns import FrameTurns
from iot_mqtt.devices.link.watching import WatchedLink, Watcher

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
    "WatchedLink",
    "Watcher",
    "make_stage",
]
