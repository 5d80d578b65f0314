"""The resource ``/api/v1/uplink``: how far the data platform has what goes up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import not_found
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.broker.facade import UplinkInfo


class UplinkResources:
    """The uplink of one node; ``info`` answers None where there is none."""

    def __init__(self, info: Callable[[], UplinkInfo | None]) -> None:
        self._info = info

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (Route("GET", "uplink", "What leaves towards the data platform.", self._show, answer="Uplink"),)

    def _show(self, call: Call) -> Json:
        info = self._info()
        if info is None:
            raise not_found("this node has no uplink; set uplink.kind")
        return asdict(info)
