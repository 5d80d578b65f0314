"""The resources below ``/api/v1/log``: what the log holds, whether it can be read, and dropping parts of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from iot_mqtt.admin.call import Call, Page, number_in, whole
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import bad_cursor, not_found
from iot_mqtt.admin.json_text import fields_of
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Json, Schemas, object_of, schema_of
from iot_mqtt.admin.shapes import of_bytes
from iot_mqtt.broker.log_part import (
    GenerationInfo,
    LoggedInfo,
    LoggedPlace,
    LoggedWanted,
    LogPart,
    ShardInfo,
    StreamInfo,
    VerificationInfo,
)
from iot_mqtt.devices.asked import NotHis
from iot_mqtt.ports.status import LogInfo

#: Time, writer and position of a message.
_PLACE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,20})?)/([0-9]{1,3})\.([0-9]{1,20})")


class LogResources(Resource):
    """The log of one node."""

    def __init__(self, log: LogPart) -> None:
        self._log = log

    @get("log", "The log of messages and the room for it.", "Log", spread="one")
    def _info(self, call: Call) -> LogInfo:
        return self._log.info()

    @get("log/shards", "Its shards.", "LogShard", paged=True, spread="merge", by=("shard",))
    async def _shards(self, call: Call) -> Mapping[str, object]:
        return whole(await self._log.shards())

    @listing(
        "log/generations",
        "Messages that will be dropped together.",
        "LogGeneration",
        spread="merge",
        by=("generation",),
    )
    def _generations(self, call: Call) -> Page:
        after = None if call.after is None else number_in(call.after, "after")
        return call.page(self._log.generations(after, call.limit + 1), lambda one: str(one.generation))

    @delete(
        "log/generations/{generation}",
        "Drop a generation that takes no more messages; what is lost by it is counted.",
        spread="one",
    )
    async def _drop(self, call: Call) -> None:
        generation = number_in(call.path["generation"], "the generation")
        if not await self._log.drop(generation):
            raise not_found(f"there is no generation {generation}")

    @listing(
        "log/streams",
        "Topics of like structure, in one generation or all.",
        "LogStream",
        "generation",
        spread="merge",
        by=("generation", "stream"),
    )
    async def _streams(self, call: Call) -> Page:
        limit, wanted = call.limit, call.query.get("generation")
        generation = None if wanted is None else number_in(wanted, "generation")
        found = await self._log.streams(generation, _read_cursor(call.after), limit + 1)
        return call.page(found, lambda one: f"{one.generation}/{one.stream}")

    @listing(
        "log/messages",
        "What it holds of a filter, in the order in which it came: `since` and `until` are times, or so long ago"
        " (`1h`). Payloads are cut after 1024 bytes.",
        "LoggedMessage",
        "filter",
        "since",
        "until",
        role=Role.OPERATOR,
        spread="merge",
        by=("came_at",),
    )
    async def _messages(self, call: Call) -> Page:
        if call.user is not None:
            raise NotHis(f"{call.user} may not read what all have published")
        told = call.query
        behind = None if call.after is None else _read_place(call.after)
        wanted = LoggedWanted(
            told.get("filter", "#"), told.get("since", "1h"), told.get("until"), call.limit + 1, behind
        )
        return call.page(await self._log.messages(wanted), _place, _of_logged)

    @get("log/verification", "The last check.", "LogVerification", spread="one")
    def _verification(self, call: Call) -> VerificationInfo:
        return self._log.verification()

    @post("log/verification", "Begin to check every page, unless that is being done.", "LogVerification", spread="one")
    def _verify(self, call: Call) -> VerificationInfo:
        return self._log.verify()

    def schemas(self) -> Schemas:
        return {
            "Log": schema_of(LogInfo),
            "LogShard": schema_of(ShardInfo),
            "LogGeneration": schema_of(GenerationInfo),
            "LogStream": schema_of(StreamInfo),
            "LogVerification": schema_of(VerificationInfo),
            "LoggedMessage": object_of(_LOGGED),
        }


def _read_cursor(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    generation, _, stream = cursor.partition("/")
    return number_in(generation, "after"), number_in(stream, "after")


def _place(one: LoggedInfo) -> str:
    return f"{one.came_at!r}/{one.writer}.{one.position}"


def _read_place(cursor: str) -> LoggedPlace:
    found = _PLACE.fullmatch(cursor)
    if found is None:
        raise bad_cursor()
    return LoggedPlace(float(found[1]), int(found[2]), int(found[3]))


def _of_logged(one: LoggedInfo) -> Json:
    return {**fields_of(one), **of_bytes("payload", one.payload)}


_LOGGED: Json = {
    "came_at": {"type": "number"},
    "writer": {"type": "integer", "description": "Number of the node whose log it is in."},
    "position": {"type": "integer"},
    "topic": {"type": "string"},
    "publisher": {"type": "string"},
    "qos": {"type": "integer"},
    "size": {"type": "integer", "description": "Bytes of the payload."},
    "payload": {"type": ["string", "null"], "description": "The beginning of the payload, if it is UTF-8."},
    "payload_base64": {"type": "string", "contentEncoding": "base64"},
}
