"""The data grid, in memory and embedded, and the formats of what is kept in it."""

from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.faults import Damaged, InUse, OpenFault, TooNew
from iot_mqtt.grid.memory import MemoryGrid

__all__ = ["Damaged", "EmbeddedGrid", "InUse", "MemoryGrid", "OpenFault", "TooNew"]
