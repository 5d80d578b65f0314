"""The resources below ``/api/v1/captures``: writing down what goes over the links to gateways, for a while."""

from __future__ import annotations

from dataclasses import asdict

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.devices.link import CaptureError, Captures

SECONDS = 60
LIMIT = 64 * 1024 * 1024


class CaptureResources:
    """The captures of one node. Their files stay on its machine: they may hold passwords."""

    def __init__(self, captures: Captures) -> None:
        self._captures = captures

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (
            Route(
                "GET", "captures", "Captures that run, and the last that did.", self._list, answer="Capture", paged=True
            ),
            Route(
                "POST",
                "captures",
                "Write down what goes over the links of a codec, or of one gateway.",
                self._start,
                answer="Capture",
                body="CaptureOrder",
            ),
            Route("DELETE", "captures/{id}", "End a capture; its file stays.", self._stop),
        )

    def _list(self, call: Call) -> Json:
        return {"items": [asdict(one) for one in self._captures.info()], "after": None}

    def _start(self, call: Call) -> Json:
        fields = call.json()
        codec, gateway = fields.take("codec", str), fields.take("gateway", str)
        seconds, limit = fields.take("seconds", int), fields.take("limit", int)
        fields.finish()
        if not codec:
            raise bad_request("codec must be given; a gateway may be given beside it")
        try:
            info = self._captures.start(
                codec, gateway, SECONDS if seconds is None else seconds, LIMIT if limit is None else limit
            )
        except CaptureError as error:
            raise bad_request(str(error)) from error
        return asdict(info)

    def _stop(self, call: Call) -> None:
        try:
            self._captures.stop(call.path["id"])
        except CaptureError as error:
            raise bad_request(str(error)) from error
