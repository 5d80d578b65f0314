"""From the section ``uplink`` to the parts of the uplink."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from iot_mqtt.app.config_sections import Config
from iot_mqtt.broker.broker import Broker
from iot_mqtt.broker.uplink import Uplink
from iot_mqtt.ports.grid import Grid
from iot_mqtt.uplink.files import FileSink
from iot_mqtt.uplink.places import GridPlaces
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rules, rule_of
from iot_mqtt.uplink.settings import FileSettings

#: Below ``node.data_dir``.
FOLDER = "uplink"


def make_uplink(
    config: Config, broker: Broker, grid: Grid, number: int, cross: Callable[[Callable[[], None]], object]
) -> Uplink | None:
    """The uplink of ``uplink.kind``; None: there is none. ``number`` is the node's in a cluster."""
    told = config.uplink
    if told.kind == "none":
        return None
    file = told.file
    settings = FileSettings(file.rotate_bytes, file.rotate_seconds, file.limit, file.reserve)
    sink = FileSink(Path(config.node.data_dir) / FOLDER, settings, cross, time.monotonic)
    plan = RulePlan(Rules([rule_of(entry) for entry in told.rules]), config.node.id)
    return Uplink(broker, plan, sink, GridPlaces(grid, number))
