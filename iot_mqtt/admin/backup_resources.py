"""The resources below ``/api/v1/backup``: copies of the embedded grid, which `iot-mqtt backup` makes a file of."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import ApiError, bad_request, not_found
from iot_mqtt.admin.routes import Resource, delete, post
from iot_mqtt.admin.schemas import Schemas, body_of, schema_of


@dataclass(frozen=True, slots=True)
class CopyInfo:
    """A copy, on the machine of the node."""

    id: str
    path: str


class Copies(Protocol):
    """Makes them; ``Busy`` where there is one that somebody reads."""

    async def make(self, reader: int | None) -> CopyInfo: ...

    async def remove(self, id: str) -> bool: ...


class Busy(Exception):
    """There is a copy already."""


class BackupResources(Resource):
    """Nobody may read a copy but the owner of the node's files: what goes over the network is where it is."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    @post(
        "backup/copies",
        "Copy the directory of the grid, on the node's machine.",
        "GridCopy",
        "GridCopyOrder",
        role=Role.ADMIN,
    )
    async def _make(self, call: Call) -> CopyInfo:
        with call.json() as fields:
            reader = fields.take("reader", int)
        if reader is not None and reader < 1:
            raise bad_request("reader must be the number of a process")
        try:
            return await self._copies.make(reader)
        except Busy as error:
            raise ApiError(HTTPStatus.CONFLICT, "busy", str(error)) from error
        except OSError as error:
            raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, "no_copy", str(error)) from error

    @delete("backup/copies/{id}", "Remove a copy.", role=Role.ADMIN)
    async def _delete(self, call: Call) -> None:
        if not await self._copies.remove(call.path["id"]):
            raise not_found("there is no such copy")

    def schemas(self) -> Schemas:
        text = "The process on the node's machine that reads the copy: another one is refused as long as it is there."
        order = {"reader": {"type": "integer", "minimum": 1, "description": text}}
        return {"GridCopy": schema_of(CopyInfo), "GridCopyOrder": body_of(order)}
