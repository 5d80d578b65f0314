"""The shared grid: Apache Ignite. Written through the gateway inside each server, read through the thin client."""

from iot_mqtt.grid.ignite.faults import Fenced, NoServer, RefusedByGateway
from iot_mqtt.grid.ignite.grid import IgniteGrid
from iot_mqtt.grid.ignite.settings import Address, IgniteSettings

__all__ = ["Address", "Fenced", "IgniteGrid", "IgniteSettings", "NoServer", "RefusedByGateway"]
