"""The resource ``/api/v1/clients/{client_id}/packets``: the flight recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iot_mqtt.admin.call import Call, whole
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.codec.describing import PacketInfo


class Recordings(Protocol):
    """What was recorded of a client, the oldest first."""

    async def of(self, client_id: str) -> Sequence[PacketInfo]: ...


class PacketResources(Resource):
    """Topics are in it, so it is for operators."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    @get(
        "clients/{client_id}/packets",
        "The last packets of a client, in and out, also of connections that are over: no payloads, no passwords.",
        "RecordedPacket",
        paged=True,
        role=Role.OPERATOR,
        spread="merge",
        by=("at",),
    )
    async def _packets(self, call: Call) -> Json:
        return whole(await self._recordings.of(call.path["client_id"]))

    def schemas(self) -> Schemas:
        return {"RecordedPacket": schema_of(PacketInfo)}
