"""``/api/v1/pipeline/alarms`` and ``/api/v1/pipeline/dead_letters``: single rows of the tables behind the uplink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.admin.call import Call, Page, pair
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.routes import Resource, listing
from iot_mqtt.admin.schemas import Schemas, schema_of

#: Characters of what is looked for.
_PART = 200


@dataclass(frozen=True, slots=True)
class PlantAlarm:
    """One alarm that a rule has raised."""

    id: str
    #: Wall clock, as all times here.
    raised_at: float
    #: None: it goes on.
    cleared_at: float | None
    gateway: str | None
    device: str | None
    #: None: it is about the whole device.
    tag: str | None
    rule: str | None
    kind: str | None
    severity: str | None
    #: When it was raised.
    value: float | None
    threshold: float | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record that became no reading."""

    id: str
    #: When it arrived.
    at: float
    #: Where it was read.
    topic: str | None
    #: Who sent it, as far as the record tells.
    device: str | None
    reason: str
    #: The first tag that it is about, and how many there are; None: the record as a whole.
    tag: str | None
    tags: int | None
    #: The beginning of what was published.
    payload: str
    #: Bytes of the whole record.
    size: int


@dataclass(frozen=True, slots=True)
class RowsWanted:
    """Which rows of a table, the newest first."""

    limit: int
    #: Only those behind this one: milliseconds and id.
    before: tuple[int, str] | None = None
    #: What stands in device, rule, reason or topic.
    part: str = ""
    #: Of alarms: only those that go on, or are over.
    active: bool | None = None


class PlantTables(Protocol):
    """What a node reads of the tables. Raises ``Unavailable``."""

    async def alarms(self, wanted: RowsWanted) -> list[PlantAlarm]: ...

    async def dead_letters(self, wanted: RowsWanted) -> list[DeadLetter]: ...


class PipelineTableResources(Resource):
    """The tables in the ``pipeline.dir`` that this node sees. Payloads are in them, so they are for operators."""

    def __init__(self, tables: PlantTables) -> None:
        self._tables = tables

    @listing(
        "pipeline/alarms",
        "Alarms that the pipeline's rules have raised, the newest first; contains: in device, tag or rule.",
        "PlantAlarm",
        "contains",
        "active",
        role=Role.OPERATOR,
        spread="merge",
        by=("-raised_at", "id"),
        once=True,
    )
    async def _alarms(self, call: Call) -> Page:
        found = await self._tables.alarms(_wanted(call, call.flag("active")))
        return call.page(found, lambda one: _cursor(one.raised_at, one.id))

    @listing(
        "pipeline/dead_letters",
        "Records that became no readings, the newest first; contains: in topic, reason, tag or sender.",
        "DeadLetter",
        "contains",
        role=Role.OPERATOR,
        spread="merge",
        by=("-at", "id"),
        once=True,
    )
    async def _dead_letters(self, call: Call) -> Page:
        found = await self._tables.dead_letters(_wanted(call))
        return call.page(found, lambda one: _cursor(one.at, one.id))

    def schemas(self) -> Schemas:
        return {"PlantAlarm": schema_of(PlantAlarm), "DeadLetter": schema_of(DeadLetter)}


def _wanted(call: Call, active: bool | None = None) -> RowsWanted:
    part = call.query.get("contains", "")
    if len(part) > _PART:
        raise bad_request(f"contains has more than {_PART} characters")
    return RowsWanted(call.limit + 1, call.after_figure, part, active)


def _cursor(at: float, id: str) -> str:
    return pair(str(round(at * 1000)), id)
