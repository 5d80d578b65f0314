"""The resources below ``/api/v1/captures``: writing down what goes over the links to gateways, for a while."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from iot_mqtt.admin.call import Call, number_in, whole
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import ApiError, bad_request, bad_request_if, not_found
from iot_mqtt.admin.routes import Resource, delete, get, post
from iot_mqtt.admin.schemas import Schemas, body_of, items_of, maybe, object_of, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.devices.link import CaptureError, CaptureInfo, Captures

SECONDS = 60
#: Bytes of a frame that are shown.
SHOWN = 2048
LIMIT = 64 * 1024 * 1024


class CaptureResources(Resource):
    """The captures of one node. Their files stay on its machine: they may hold passwords."""

    def __init__(self, captures: Captures) -> None:
        self._captures = captures

    @get("captures", "Captures that run, and the last that did.", "Capture", paged=True, spread="merge")
    def _list(self, call: Call) -> Json:
        return whole(self._captures.info())

    @post(
        "captures",
        "Write down what goes over the links of a codec, or of one gateway.",
        "Capture",
        "CaptureOrder",
        spread="one",
    )
    def _start(self, call: Call) -> CaptureInfo:
        with call.json() as fields:
            codec, gateway = fields.take("codec", str), fields.take("gateway", str)
            seconds, limit = fields.take("seconds", int), fields.take("limit", int)
        if not codec:
            raise bad_request("codec must be given; a gateway may be given beside it")
        with bad_request_if(CaptureError):
            return self._captures.start(
                codec, gateway, SECONDS if seconds is None else seconds, LIMIT if limit is None else limit
            )

    @get(
        "captures/{id}/frames",
        "What was written down, from a place in the file on: bytes in hex, and what the codec made of them.",
        "CapturedFrames",
        query=("from_byte",),
        role=Role.OPERATOR,
        spread="find",
    )
    def _frames(self, call: Call) -> Json:
        begin = number_in(call.query.get("from_byte", "0"), "from_byte")
        try:
            capture, lines, end = self._captures.read(call.path["id"], begin)
        except CaptureError as error:
            raise not_found(str(error)) from error
        if capture.gateway is None and (call.caller is None or call.caller.role < Role.ADMIN):
            raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", "logins are in a capture of all gateways: for admins")
        return {"capture": capture, "items": [_shown(one) for one in lines if "kind" in one], "next": end}

    @delete("captures/{id}", "End a capture; its file stays.", spread="find")
    def _stop(self, call: Call) -> None:
        try:
            self._captures.stop(call.path["id"])
        except CaptureError as error:
            raise not_found(str(error)) from error

    def schemas(self) -> Schemas:
        order = {
            "codec": {"type": "string", "minLength": 1},
            "gateway": {"type": ["string", "null"], "description": "Only this one, without its logins."},
            "seconds": {"type": "integer", "minimum": 1},
            "limit": {"type": "integer", "minimum": 1, "description": "Bytes of the file, at most."},
        }
        frame = {
            "ms": maybe("integer"),
            "connection": maybe("integer"),
            "kind": {"type": "string"},
            "text": maybe("string"),
        }
        frame |= {"hex": maybe("string"), "cut": {"type": "boolean"}, "event": {"type": ["object", "null"]}}
        frames = {"capture": schema_of(CaptureInfo), "items": items_of(object_of(frame)), "next": {"type": "integer"}}
        return {
            "Capture": schema_of(CaptureInfo),
            "CaptureOrder": body_of(order, "codec", audited=("codec", "gateway")),
            "CapturedFrames": object_of(frames),
        }


def _shown(line: Mapping[str, Any]) -> Json:
    """One line, with the beginning of a long frame."""
    told = {name: line.get(name) for name in ("ms", "connection", "kind", "text", "event")}
    data = line.get("hex")
    return {**told, "hex": None if data is None else data[: 2 * SHOWN], "cut": len(data or "") > 2 * SHOWN}
