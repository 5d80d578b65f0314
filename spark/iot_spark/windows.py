"""The aggregate job's batches: partials are kept until their window closes, then each window is written once.

A batch reads what is kept only if it closes a window. What is kept is small directories, one of each batch, which are
made one when there are many. See ``transforms.aggregate`` for what a watermark, a partial and a late row are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from iot_spark.kept import Kept
from iot_spark.settings import Aggregate
from iot_spark.sinks import Batch, TableSink
from iot_spark.transforms.aggregate import PARTIAL, finished, merged, partials

TABLE: Final = "aggregate"
LATE: Final = "aggregate_late"

#: So many kept directories are made one.
_PARTS: Final = 64


class Windows:
    """What ``foreachBatch`` calls. ``settings`` must not change its window while the checkpoint stays."""

    def __init__(self, settings: Aggregate, kept: Kept, sink: TableSink) -> None:
        self._span = settings.window_seconds * 1000
        self._lateness = settings.lateness_seconds * 1000
        self._settings = settings
        self._kept = kept
        self._sink = sink

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Sum up a batch of cleaned rows."""
        with self._sink.batch(number) as batch:
            if not (batch.is_done or batch.is_decided):
                self._kept.keep(number, self._sum_up(rows, number, batch))

    def _sum_up(self, rows: DataFrame, number: int, batch: Batch) -> Mapping[str, Any]:
        before = self._kept.before(number)
        self._check(before)
        summed = partials(rows, self._settings.window_seconds).persist()
        try:
            return self._close(summed, before, number, batch)
        finally:
            summed.unpersist()

    def _close(self, summed: DataFrame, before: Mapping[str, Any], number: int, batch: Batch) -> Mapping[str, Any]:
        closed: int | None = before.get("watermark")
        end = F.col("start") + self._span
        is_late = F.expr("false") if closed is None else end <= closed
        told = summed.agg(
            F.max("newest").alias("newest"),
            F.sum("count").alias("rows"),
            F.sum(F.when(is_late, F.col("count"))).alias("late"),
            F.min(F.when(~is_late, F.col("start"))).alias("first"),
            F.max(F.when(~is_late, F.col("start"))).alias("last"),
        ).collect()[0]
        if told["rows"] is None:
            return before
        seen = told["newest"] - self._lateness
        watermark = seen if closed is None else max(closed, seen)
        batch.count(rows=told["rows"], late=told["late"] or 0)
        if told["late"]:
            batch.table(LATE, finished(summed.where(is_late), self._settings.window_seconds))
        parts: dict[str, list[int]] = dict(before.get("parts", {}))
        fresh = summed.where(~is_late)
        if self._is_due(watermark, [first for first, _ in parts.values()] + [told["first"]]):
            due = self._with_kept(fresh, parts, watermark).where((end <= watermark) & ~is_late)
            whole = merged(due)
            ready = finished(whole, self._settings.window_seconds).persist()
            try:
                batch.count(windows=ready.count())
                batch.table(TABLE, ready)
            finally:
                ready.unpersist()
        # What a part still has of windows that are closed is there no more: see `due` and `is_late`.
        opened = watermark - self._span + 1
        parts = {name: [max(first, opened), last] for name, (first, last) in parts.items() if last >= opened}
        if told["last"] is not None and told["last"] >= opened:
            ends = [max(told["first"], opened), told["last"]]
            if len(parts) >= _PARTS:
                fresh = merged(self._with_kept(fresh, parts, None))
                ends = [
                    min([ends[0], *(first for first, _ in parts.values())]),
                    max([ends[1], *(last for _, last in parts.values())]),
                ]
                parts = {}
            parts[self._kept.write("partials", number, fresh.where(end > watermark))] = ends
        return {"window_seconds": self._settings.window_seconds, "watermark": watermark, "parts": parts}

    def _check(self, before: Mapping[str, Any]) -> None:
        found = before.get("window_seconds", self._settings.window_seconds)
        if found != self._settings.window_seconds:
            raise ValueError(
                f"aggregate.window_seconds was {found} and is {self._settings.window_seconds}; windows that are open "
                "would be torn: remove the job's checkpoint and its tables, and let it sum up everything anew"
            )

    def _is_due(self, watermark: int, starts: list[int | None]) -> bool:
        """Whether a window may close; none does if all that there are begin too late for that."""
        return any(start is not None and start + self._span <= watermark for start in starts)

    def _with_kept(self, fresh: DataFrame, parts: Mapping[str, list[int]], watermark: int | None) -> DataFrame:
        """Partials of this batch and those kept; with a watermark, only of parts that have a window it closes."""
        names = [name for name, (first, _) in parts.items() if watermark is None or first + self._span <= watermark]
        columns = PARTIAL.fieldNames()
        several = [fresh.select(*columns), *(self._kept.rows(name, PARTIAL).select(*columns) for name in names)]
        return reduce(DataFrame.unionByName, several)
