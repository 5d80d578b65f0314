"""The resources below ``/api/v1/log``: what the log holds, whether it can be read, and dropping parts of it."""

from __future__ import annotations

from dataclasses import asdict

from iot_mqtt.admin import shapes
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import bad_request, not_found
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.broker.facade import LogPart

_PAGE = ("after", "limit")
_DIGITS = 10


class LogResources:
    """The log of one node."""

    def __init__(self, log: LogPart) -> None:
        self._log = log

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (
            Route("GET", "log", "The log of messages and the room for it.", self._info, answer="Log"),
            Route("GET", "log/shards", "Its shards.", self._shards, answer="LogShard", paged=True),
            Route(
                "GET",
                "log/generations",
                "Messages that will be dropped together.",
                self._generations,
                _PAGE,
                "LogGeneration",
                paged=True,
            ),
            Route(
                "DELETE",
                "log/generations/{generation}",
                "Drop a generation that takes no more messages; what is lost by it is counted.",
                self._drop,
            ),
            Route(
                "GET",
                "log/streams",
                "Topics of like structure, in one generation or all.",
                self._streams,
                ("generation", *_PAGE),
                "LogStream",
                paged=True,
            ),
            Route("GET", "log/verification", "The last check.", self._verification, answer="LogVerification"),
            Route(
                "POST",
                "log/verification",
                "Begin to check every page, unless that is being done.",
                self._verify,
                answer="LogVerification",
            ),
        )

    def _info(self, call: Call) -> Json:
        return asdict(self._log.info())

    async def _shards(self, call: Call) -> Json:
        shards = [asdict(shard) for shard in await self._log.shards()]
        return shapes.page(shards, len(shards), None)

    def _generations(self, call: Call) -> Json:
        limit = call.limit
        after = None if call.after is None else _number(call.after, "after")
        found = self._log.generations(after, limit + 1)
        cursor = str(found[limit - 1].generation) if len(found) > limit else None
        return shapes.page([asdict(one) for one in found], limit, cursor)

    async def _drop(self, call: Call) -> None:
        generation = _number(call.path["generation"], "the generation")
        if not await self._log.drop(generation):
            raise not_found(f"there is no generation {generation}")

    async def _streams(self, call: Call) -> Json:
        limit = call.limit
        wanted = call.query.get("generation")
        generation = None if wanted is None else _number(wanted, "generation")
        found = await self._log.streams(generation, _read_cursor(call.after), limit + 1)
        cursor = f"{found[limit - 1].generation}/{found[limit - 1].stream}" if len(found) > limit else None
        return shapes.page([asdict(one) for one in found], limit, cursor)

    def _verification(self, call: Call) -> Json:
        return asdict(self._log.verification())

    def _verify(self, call: Call) -> Json:
        return asdict(self._log.verify())


def _read_cursor(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    generation, _, stream = cursor.partition("/")
    return _number(generation, "after"), _number(stream, "after")


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise bad_request(f"{what} must be a number, not {text!r}")
    return int(text)
