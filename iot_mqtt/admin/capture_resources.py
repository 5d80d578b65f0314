"""The resources below ``/api/v1/captures``: writing down what goes over the links to gateways, for a while."""

from __future__ import annotations

from iot_mqtt.admin.call import Call, whole
from iot_mqtt.admin.errors import bad_request, not_found
from iot_mqtt.admin.routes import Resource, delete, get, post
from iot_mqtt.admin.schemas import Schemas, body_of, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.devices.link import CaptureError, CaptureInfo, Captures

SECONDS = 60
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
        fields = call.json()
        codec, gateway = fields.take("codec", str), fields.take("gateway", str)
        seconds, limit = fields.take("seconds", int), fields.take("limit", int)
        fields.finish()
        if not codec:
            raise bad_request("codec must be given; a gateway may be given beside it")
        try:
            return self._captures.start(
                codec, gateway, SECONDS if seconds is None else seconds, LIMIT if limit is None else limit
            )
        except CaptureError as error:
            raise bad_request(str(error)) from error

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
        return {"Capture": schema_of(CaptureInfo), "CaptureOrder": body_of(order, "codec")}
