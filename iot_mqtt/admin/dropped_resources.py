"""``/api/v1/dropped``: the last messages that were dropped, requests that were refused, and clients that were not let
in; with all that was counted, by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.routes import Resource, combined
from iot_mqtt.admin.schemas import Json, Schemas, items_of, object_of, schema_of
from iot_mqtt.broker.facade import DroppedInfo, DroppedWanted
from iot_mqtt.devices.asked import NotHis
from iot_mqtt.ports.counters import Counters

_KINDS: Final = ("dropped", "refused", "denied", "connect")
#: Counted for each kind since the node started.
_TOTALS: Final[Mapping[str, Callable[[Counters], Mapping[str, int]]]] = {
    "dropped": lambda counters: counters.dropped,
    "refused": lambda counters: Counter(counters.messages_refused) + Counter(counters.limited),
    "denied": lambda counters: counters.denied,
    "connect": lambda counters: counters.connects_refused,
}


class Dropped(Protocol):
    """The part of a node that remembers it."""

    @property
    def counters(self) -> Counters: ...

    async def dropped(self, wanted: DroppedWanted, limit: int) -> list[DroppedInfo]:
        """The newest first."""
        ...


def all_dropped(answers: Sequence[Mapping[str, Any]], _: Mapping[str, str]) -> dict[str, Any]:
    """Of all nodes: the newest of the items, and the sums of what was counted."""
    limit = answers[0]["limit"]
    items = [{**one, "node": answer["node"]} for answer in answers for one in answer["items"]]
    items.sort(key=lambda one: -one["last"])
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in _KINDS}
    for answer in answers:
        for kind in _KINDS:
            totals[kind].update(answer["totals"][kind])
    return {**answers[0], "items": items[:limit], "totals": totals}


class DroppedResources(Resource):
    """Topics and clients of everybody are in it, so it is for operators."""

    def __init__(self, node: Callable[[], Dropped]) -> None:
        self._node = node

    @combined(
        "dropped",
        "The last of what did not arrive, with the reason, and how much was counted by reason since the nodes started.",
        "Dropped",
        all_dropped,
        query=("kind", "reason", "topic", "client", "publisher", "limit"),
        role=Role.OPERATOR,
    )
    async def _dropped(self, call: Call) -> Json:
        if call.user is not None:
            raise NotHis(f"{call.user} may not look at what others did not get")
        wanted = DroppedWanted(*map(call.query.get, ("kind", "reason", "topic", "client", "publisher")))
        if wanted.kind not in (None, *_KINDS):
            raise bad_request(f"kind must be one of {', '.join(_KINDS)}")
        node = self._node()
        return {
            "limit": call.limit,
            "items": await node.dropped(wanted, call.limit),
            "totals": {kind: dict(of(node.counters)) for kind, of in _TOTALS.items()},
        }

    def schemas(self) -> Schemas:
        item = schema_of(DroppedInfo)
        item["properties"]["node"] = {"type": "string"}
        counted = {"type": "object", "additionalProperties": {"type": "integer"}}
        totals = object_of(dict.fromkeys(_KINDS, counted))
        return {"Dropped": object_of({"limit": {"type": "integer"}, "items": items_of(item), "totals": totals})}
