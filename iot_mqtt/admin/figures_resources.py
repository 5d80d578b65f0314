"""The resources about a node's own figures: what became of messages."""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, schema_of
from iot_mqtt.ports.identity import LossIdentity


class FiguresPart(Protocol):
    """What a node says of itself in figures. Raises ``Unavailable`` before it has begun."""

    def identity(self) -> LossIdentity: ...


class FiguresResources(Resource):
    """Of one node."""

    def __init__(self, figures: FiguresPart) -> None:
        self._figures = figures

    @get("identity", "What became of messages, summed: the loss identity.", "LossIdentity")
    def _identity(self, call: Call) -> LossIdentity:
        return self._figures.identity()

    def schemas(self) -> Schemas:
        return {"LossIdentity": schema_of(LossIdentity)}
