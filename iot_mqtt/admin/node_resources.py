"""The resources below ``/api/v1/nodes``: each node of the cluster, how it is, and its clients on their way."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.cluster_resources import read_drain
from iot_mqtt.admin.errors import ApiError, not_found
from iot_mqtt.admin.json_text import fields_of
from iot_mqtt.admin.routes import Resource, delete, get, post
from iot_mqtt.admin.schemas import Schemas, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.broker.facade import BrokerView, DrainInfo
from iot_mqtt.ports.status import BrokerInfo


class NodeResources(Resource):
    """One node. ``now`` is wall-clock seconds."""

    def __init__(self, view: BrokerView, now: Callable[[], float]) -> None:
        self._view = view
        self._now = now
        self._node = view.info().node_id

    @get("nodes", "Nodes, how each is, and how far each has sent its clients away.", "Node", spread="each")
    def _list(self, call: Call) -> Json:
        return self._of_node()

    @get("nodes/{node}", "One node.", "Node", spread="find")
    def _show(self, call: Call) -> Json:
        self._require(call)
        return self._of_node()

    @post(
        "nodes/{node}/drain",
        "Let no clients in there and send all away, so many a second; again: at another rate.",
        "Drain",
        "DrainOrder",
        spread="find",
    )
    def _drain(self, call: Call) -> DrainInfo:
        self._require(call)
        return read_drain(call, self._view.cluster)

    @delete("nodes/{node}/drain", "Let clients in there again, and send nobody away any more.", spread="find")
    def _resume(self, call: Call) -> None:
        self._require(call)
        self._view.cluster.resume()

    def _require(self, call: Call) -> None:
        name = call.path["node"]
        if name == self._node:
            return
        for member in self._view.cluster.info().members:
            if member.node_id == name and member.away:
                detail = f"{name} does not answer: it is {member.state}"
                raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail)
        raise not_found(f"no node is called {name!r}")

    def _of_node(self) -> Json:
        info = self._view.info()
        drain = self._view.cluster.progress()
        return {**fields_of(info), "uptime": max(0.0, self._now() - info.started_at), "drain": drain}

    def schemas(self) -> Schemas:
        node = schema_of(BrokerInfo)
        node["properties"] |= {"uptime": {"type": "number"}, "drain": schema_of(DrainInfo)}
        return {"Node": node | {"required": list(node["properties"])}}
