"""The resources about the cluster, and about this node's part in it: draining and rebalancing."""

from __future__ import annotations

from http import HTTPStatus

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError, bad_request, not_found
from iot_mqtt.admin.routes import Resource, delete, get, post
from iot_mqtt.admin.schemas import Json as Schema
from iot_mqtt.admin.schemas import Schemas, body_of, flag_of, items_of, object_of, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.broker.facade import DEFAULT_RATE, MAX_RATE, ClusterInfo, ClusterPart, DrainInfo, ShareInfo
from iot_mqtt.ports.cluster_status import NotGone


class ClusterResources(Resource):
    """The cluster as it looks from one node."""

    def __init__(self, cluster: ClusterPart) -> None:
        self._cluster = cluster

    @get(
        "cluster",
        "The cluster as it looks from one node: who is there, how it is, what is degraded and why.",
        "Cluster",
        spread="one",
    )
    def _info(self, call: Call) -> ClusterInfo:
        return self._cluster.info()

    @post(
        "cluster/rebalance",
        "Have every node send away the clients that it has more than the others; what each of them does.",
        "Rebalanced",
        "Rebalance",
    )
    async def _rebalance(self, call: Call) -> Json:
        with call.json() as fields:
            rate, dry_run = _rate(fields.take("rate", int)), fields.take("dry_run", bool) or False
        return {"items": await self._cluster.rebalance(rate, dry_run=dry_run)}

    @delete(
        "cluster/nodes/{name}",
        "A node will not come back: its number, and the log under it, are for the next new node.",
        spread="one",
    )
    async def _remove(self, call: Call) -> None:
        name = call.path["name"]
        try:
            found = await self._cluster.remove(name)
        except NotGone as error:
            raise ApiError(HTTPStatus.CONFLICT, "not_gone", str(error)) from error
        if not found:
            raise not_found(f"no node of this cluster was ever called {name!r}")

    @get("node/drain", "How far draining is.", "Drain", spread="one")
    def _progress(self, call: Call) -> DrainInfo:
        return self._cluster.progress()

    @post(
        "node/drain",
        "Let no clients in and send all away, so many a second; again: at another rate.",
        "Drain",
        "DrainOrder",
        spread="one",
    )
    def _drain(self, call: Call) -> DrainInfo:
        return read_drain(call, self._cluster)

    @delete("node/drain", "Let clients in again, and send nobody away any more.", spread="one")
    async def _resume(self, call: Call) -> None:
        self._cluster.resume()

    def schemas(self) -> Schemas:
        return {
            "Cluster": schema_of(ClusterInfo),
            "Drain": schema_of(DrainInfo),
            "DrainOrder": _order({"moved": flag_of("This node will not come back: 0x9D instead of 0x9C.")}),
            "Rebalance": _order({"dry_run": flag_of("Only say what would be done.")}),
            "Rebalanced": object_of({"items": items_of(schema_of(ShareInfo))}),
        }


def read_drain(call: Call, cluster: ClusterPart) -> DrainInfo:
    """Begin what the body says."""
    with call.json() as fields:
        rate, moved = _rate(fields.take("rate", int)), fields.take("moved", bool) or False
    return cluster.drain(rate, moved=moved)


def _order(more: Schema) -> Schema:
    """What has a rate and may be empty."""
    rate: Schema = {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": MAX_RATE,
        "description": f"Clients a second; {DEFAULT_RATE} if nothing was said before.",
    }
    return body_of({"rate": rate, **more})


def _rate(rate: int | None) -> int | None:
    if rate is not None and not 1 <= rate <= MAX_RATE:
        raise bad_request(f"rate must be a number from 1 to {MAX_RATE}")
    return rate
