"""``/api/v1/alarms``: what an operator should know, of all nodes: what goes on, since when, and what was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, items_of, object_of, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.ports.alarms import AlarmInfo


class Alarms(Protocol):
    """What is known of them in this life of the node."""

    def items(self) -> Sequence[AlarmInfo]: ...


class AlarmResources(Resource):
    """For everybody: no name of a client is in it."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms

    @get(
        "alarms",
        "Alarms that go on, and the last ones that are over since a node was started; the newest first.",
        "Alarms",
        spread="merge",
        by=("-since",),
    )
    def _list(self, call: Call) -> Json:
        return {"items": sorted(self._alarms.items(), key=lambda one: -one.since)}

    def schemas(self) -> Schemas:
        return {"Alarms": object_of({"items": items_of(schema_of(AlarmInfo))})}
