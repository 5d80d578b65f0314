"""``/api/v1/trace``: the packets of a client, an address or a topic, as they go over connections to any node."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Protocol

from iot_mqtt.admin.call import Call, number_in
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import ApiError, bad_request, bad_request_if
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, object_of
from iot_mqtt.admin.streams import Stream, Streams
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import validate_filter

#: Seconds.
USUAL, LONGEST = 60, 600


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a trace is of: one of the three."""

    client: str | None = None
    filter: str | None = None
    address: str | None = None
    seconds: int = USUAL

    def asdict(self) -> dict[str, object]:
        return asdict(self)


class Tracing(Protocol):
    """What traces; ``ValueError`` where too many traces run."""

    def trace(self, wanted: Wanted, stream: Stream) -> None: ...


class TraceResources(Resource):
    """Topics are in it, so it is for operators."""

    def __init__(self, tracing: Tracing, streams: Streams) -> None:
        self._tracing = tracing
        self._streams = streams

    @get(
        "trace",
        "Packets as they go over connections, as server-sent events: no payloads, no passwords.",
        "TracedPacket",
        query=("client", "filter", "address", "seconds"),
        streamed=True,
        role=Role.OPERATOR,
    )
    def _trace(self, call: Call) -> Stream:
        wanted = read_wanted(call)
        stream = self._streams.make(lambda: None)
        try:
            self._tracing.trace(wanted, stream)
        except ValueError as error:
            stream.end()
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too_many_traces", str(error)) from error
        return stream

    def schemas(self) -> Schemas:
        texts = ("node", "client", "peer", "direction", "packet", "text")
        return {"TracedPacket": object_of({"at": {"type": "number"}, **{one: {"type": "string"} for one in texts}})}


def read_wanted(call: Call) -> Wanted:
    """A bad request unless it is one of the three, for so many seconds."""
    given = {name: call.query[name] for name in ("client", "filter", "address") if call.query.get(name)}
    if len(given) != 1:
        raise bad_request("one of client, filter and address must be given")
    seconds = number_in(call.query.get("seconds", str(USUAL)), "seconds", 1, LONGEST)
    if "filter" in given:
        with bad_request_if(MqttError, about="filter: "):
            validate_filter(given["filter"])
    return Wanted(**given, seconds=seconds)
