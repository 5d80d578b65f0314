"""The resource ``/api/v1/pipeline``: what the jobs that read the uplink say of themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from iot_mqtt.admin.call import Call, whole
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, schema_of
from iot_mqtt.admin.shapes import Json


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job, as it said last and as it was found to be."""

    job: str
    #: "running"; "stopped"; "died": it ended without a word; "stale": it says nothing any more; "unknown".
    state: str
    pid: int | None = None
    #: Wall clock, as all times here.
    started_at: float | None = None
    updated_at: float | None = None
    batch: int | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_seconds: float | None = None
    #: Rows since the tables began, by what became of them.
    totals: dict[str, int] = field(default_factory=dict)
    #: Totals by name: "duplicate" by device, "invalid" by reason, "raised" by rule; the largest, and "(others)".
    named: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Records that are not read yet; None: nobody knows, as with files.
    lag: int | None = None
    watermark: str | None = None
    error: str | None = None


#: Reads the status files, off the reactor.
ReadJobs = Callable[[], Awaitable[Sequence[JobStatus]]]


class PipelineResources(Resource):
    """The jobs whose ``pipeline.dir`` this node sees."""

    def __init__(self, read: ReadJobs) -> None:
        self._read = read

    @get("pipeline", "Jobs that read the uplink.", "Job", paged=True, spread="merge", by=("job",))
    async def _list(self, call: Call) -> Json:
        return whole(await self._read())

    def schemas(self) -> Schemas:
        return {"Job": schema_of(JobStatus)}
