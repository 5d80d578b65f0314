"""The resources about the cluster, and about this node's part in it: draining and rebalancing."""

from __future__ import annotations

from dataclasses import asdict

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.broker.facade import MAX_RATE, ClusterPart


class ClusterResources:
    """The cluster as it looks from one node."""

    def __init__(self, cluster: ClusterPart) -> None:
        self._cluster = cluster

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (
            Route(
                "GET",
                "cluster",
                "The cluster as it looks from here: who is there, how it is, what is degraded and why.",
                self._info,
                answer="Cluster",
            ),
            Route(
                "POST",
                "cluster/rebalance",
                "Have every node send away the clients that it has more than the others; what each of them does.",
                self._rebalance,
                answer="Rebalanced",
                body="Rebalance",
            ),
            Route("GET", "node/drain", "How far draining is.", self._progress, answer="Drain"),
            Route(
                "POST",
                "node/drain",
                "Let no clients in and send all away, so many a second; again: at another rate.",
                self._drain,
                answer="Drain",
                body="DrainOrder",
            ),
            Route("DELETE", "node/drain", "Let clients in again, and send nobody away any more.", self._resume),
        )

    def _info(self, call: Call) -> Json:
        return asdict(self._cluster.info())

    async def _rebalance(self, call: Call) -> Json:
        fields = call.json()
        rate, dry_run = _rate(fields.take("rate", int)), fields.take("dry_run", bool) or False
        fields.finish()
        return {"items": [asdict(share) for share in await self._cluster.rebalance(rate, dry_run=dry_run)]}

    def _progress(self, call: Call) -> Json:
        return asdict(self._cluster.progress())

    def _drain(self, call: Call) -> Json:
        fields = call.json()
        rate, moved = _rate(fields.take("rate", int)), fields.take("moved", bool) or False
        fields.finish()
        return asdict(self._cluster.drain(rate, moved=moved))

    async def _resume(self, call: Call) -> None:
        self._cluster.resume()


def _rate(rate: int | None) -> int | None:
    if rate is not None and not 1 <= rate <= MAX_RATE:
        raise bad_request(f"rate must be a number from 1 to {MAX_RATE}")
    return rate
