"""``/api/v1/events``: what happens on all nodes, as it happens."""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import bad_request, bad_request_if
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, object_of
from iot_mqtt.admin.streams import Stream
from iot_mqtt.ports.events import KINDS

#: What a listener may ask for beside events: figures of each second.
RATES = "rates"


class Listening(Protocol):
    """Where events come from; ``ValueError`` for a place that is none of ours."""

    def listen(self, kinds: frozenset[str], node: str | None, place: str | None) -> Stream: ...


class EventResources(Resource):
    """Names of clients and users are in it, as in their lists; no topics."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening

    @get(
        "events",
        "What happens, as server-sent events: clients, sessions, alarms, commands, and rates each second.",
        "Event",
        query=("kind", "node", "last_event_id"),
        streamed=True,
    )
    def _events(self, call: Call) -> Stream:
        known = {*KINDS, RATES}
        kinds = frozenset(filter(None, call.query.get("kind", "").split(",")))
        if not kinds <= known:
            raise bad_request(f"kind must be some of {', '.join(sorted(known))}, with commas between")
        place = call.last_event_id or call.query.get("last_event_id")
        with bad_request_if(ValueError):
            return self._listening.listen(kinds or frozenset(known), call.query.get("node"), place)

    def schemas(self) -> Schemas:
        event = {
            "node": {"type": "string"},
            "at": {"type": "number"},
            "kind": {"type": "string", "enum": [*KINDS, RATES]},
        }
        return {"Event": object_of(event)}
