"""The tables as a report asks for them. The only module that knows DuckDB, which reads Parquet in bounded memory.

Names and texts in the tables come from devices, so none of them ever becomes part of a statement.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.launching import INSTALL
from iot_mqtt.app.pipeline.report import limits
from iot_mqtt.app.pipeline.report.files import days_of, files_of, named_of
from iot_mqtt.app.pipeline.report.series import Bucket

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DAY = 86_400_000


class Series(NamedTuple):
    """One tag of one device, summed up over the whole range. Times in ms, ``delay`` from device to broker."""

    gateway: str
    device: str
    tag: str
    rows: int
    numbers: int
    low: float | None
    high: float | None
    mean: float | None
    last: float | None
    last_text: str | None
    unit: str | None
    not_good: int
    first_at: int
    last_at: int
    heard_at: int
    delay: float | None
    longest_delay: int | None


class Alarm(NamedTuple):
    """One alarm; ``tag`` is empty where it is about a whole device, ``until`` None while it goes on."""

    gateway: str
    device: str
    tag: str
    rule: str
    kind: str
    severity: str
    value: float | None
    threshold: float | None
    since: int
    until: int | None


class Reason(NamedTuple):
    """Why something is in the dead letters, how often, and the newest that is."""

    reason: str
    records: int
    at: int
    sample: str


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a page shows, from ``begin`` to ``end`` (ms)."""

    begin: int
    end: int
    width: int
    series: Sequence[Series]
    more_series: int
    more_devices: int
    #: By the place of the series in ``series``.
    buckets: dict[int, list[Bucket]]
    alarms: Sequence[Alarm]
    more_alarms: int
    reasons: Sequence[Reason]
    invalid: int
    delays: tuple[float | None, float | None]
    #: Messages that were passed over because they came again, by device, since the tables began.
    duplicates: Sequence[tuple[str, int]] = ()


def read(tables: Path, days: int, device: str | None) -> Found | None:
    """The last days that there are readings of; None: there are none."""
    try:
        import duckdb
    except ImportError as error:
        raise PipelineError(f"duckdb is not installed, which reads the tables: {INSTALL}") from error
    try:
        with connection() as made:
            return _Reading(made, tables, device).found(days)
    except duckdb.Error as error:
        raise PipelineError(f"the tables in {tables} cannot be read: {error}") from error


@contextmanager
def connection(memory: str = limits.MEMORY, threads: int = limits.THREADS) -> Iterator[DuckDBPyConnection]:
    """A database of nothing, which takes no more than this."""
    import duckdb

    settings: dict[str, Any] = {
        "memory_limit": memory,
        "threads": threads,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": False,
    }
    with duckdb.connect(":memory:", config=settings) as made:
        yield made


class _Reading:
    """One report being made."""

    def __init__(self, connection: DuckDBPyConnection, tables: Path, device: str | None) -> None:
        self._ask = connection.execute
        self._tables = tables
        self._device = device

    def found(self, days: int) -> Found | None:
        there = days_of(self._tables, "clean")
        if not there:
            return None
        end = self._newest(there)
        if end is None:
            return None
        begin = end - days * DAY
        since = datetime.fromtimestamp(begin / 1000, UTC).date()
        self._view(since)
        bounds = {"begin": begin, "end": end}
        series, more_series, more_devices = self._series(bounds)
        # Of a plant that is a morning old, the morning fills the charts.
        begin = max(begin, min(one.first_at for one in series))
        bounds["begin"] = begin
        charts = [place for place, one in enumerate(series) if one.numbers][: limits.CHARTS]
        count = max(limits.FEWEST_BUCKETS, min(limits.BUCKETS, limits.ALL_BUCKETS // max(1, len(charts))))
        width = max(1, -(-(end - begin + 1) // count))
        buckets = self._buckets(series, charts, bounds | {"width": width})
        reasons, invalid = self._reasons(since)
        alarms, more_alarms = self._alarms(begin)
        delays = self._rows(
            "SELECT quantile_cont(heard - ms, 0.5), quantile_cont(heard - ms, 0.99) FROM readings"
            " WHERE ms BETWEEN $begin AND $end",
            bounds,
        )[0]
        return Found(
            begin,
            end,
            width,
            series,
            more_series,
            more_devices,
            buckets,
            alarms,
            more_alarms,
            reasons,
            invalid,
            (delays[0], delays[1]),
            self._duplicates(),
        )

    def _duplicates(self) -> list[tuple[str, int]]:
        names = named_of(self._tables, "clean", "duplicate")
        chosen = [(name, count) for name, count in names.items() if self._device in (None, name.rpartition("/")[2])]
        return chosen[: limits.REASONS]

    def _rows(self, statement: str, values: object = None) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._ask(statement, values).fetchall()
        return found

    def _newest(self, days: Sequence[date]) -> int | None:
        """The time of the newest reading; the newest day may be empty."""
        narrowed, values = self._narrowed()
        for day in reversed(days):
            files = files_of(self._tables, "clean", day, day)
            if not files:
                continue
            found = self._rows(f"SELECT max(epoch_ms(ts)) FROM {parquet(files)} {narrowed}", values)  # noqa: S608
            if found[0][0] is not None:
                return int(found[0][0])
        return None

    def _narrowed(self) -> tuple[str, dict[str, str]]:
        return ("", {}) if self._device is None else ("WHERE device = $device", {"device": self._device})

    def _view(self, since: date) -> None:
        """``readings``: each row once, with the columns that are asked for here."""
        if self._device is not None:
            self._ask("SET VARIABLE device = $device", {"device": self._device})
        narrowed = "" if self._device is None else "WHERE device = getvariable('device')"
        files = parquet(files_of(self._tables, "clean", since, date.max))
        self._ask(
            "CREATE TEMP VIEW readings AS SELECT gateway, device, tag, epoch_ms(ts) AS ms,"  # noqa: S608
            f" epoch_ms(ingest_ts) AS heard, value, text, quality, unit FROM {files} {narrowed}"
        )

    def _series(self, bounds: dict[str, int]) -> tuple[list[Series], int, int]:
        rows = self._rows(
            "SELECT gateway, device, tag, count(*), count(value), min(value), max(value), avg(value),"
            " arg_max(value, ms), arg_max(text, ms) FILTER (value IS NULL), any_value(unit),"
            " count(*) FILTER (quality <> 'good'), min(ms), max(ms), max(heard),"
            " quantile_cont(heard - ms, 0.5), max(heard - ms)"
            " FROM readings WHERE ms BETWEEN $begin AND $end"
            " GROUP BY gateway, device, tag ORDER BY gateway, device, tag LIMIT 100000",
            bounds,
        )
        every = [Series(*row) for row in rows]
        shown = dict.fromkeys((one.gateway, one.device) for one in every)
        kept = set(list(shown)[: limits.DEVICES])
        series = [one for one in every if (one.gateway, one.device) in kept]
        numbers = sum(one.numbers > 0 for one in series)
        return series, max(0, numbers - limits.CHARTS), len(shown) - len(kept)

    def _buckets(
        self, series: Sequence[Series], charts: Sequence[int], bounds: dict[str, int]
    ) -> dict[int, list[Bucket]]:
        self._ask("CREATE TEMP TABLE chosen (place INTEGER, gateway VARCHAR, device VARCHAR, tag VARCHAR)")
        if not charts:
            return {}
        chosen = [value for place in charts for value in (place, *series[place][:3])]
        # One statement: a statement a row takes a millisecond each.
        self._ask(f"INSERT INTO chosen VALUES {', '.join(['(?, ?, ?, ?)'] * len(charts))}", chosen)  # noqa: S608
        rows = self._rows(
            "SELECT place, min(ms), max(ms), count(*), min(value), max(value), arg_min(value, ms), arg_max(value, ms)"
            " FROM readings JOIN chosen USING (gateway, device, tag)"
            " WHERE value IS NOT NULL AND isfinite(value) AND ms BETWEEN $begin AND $end"
            " GROUP BY place, (ms - $begin) // $width ORDER BY place, min(ms)",
            bounds,
        )
        found: dict[int, list[Bucket]] = defaultdict(list)
        for place, *figures in rows:
            found[place].append(Bucket(*figures))
        return dict(found)

    def _reasons(self, since: date) -> tuple[list[Reason], int]:
        """By day of arrival: what is invalid may have no time of its own."""
        files = files_of(self._tables, "invalid", since, date.max)
        if not files:
            return [], 0
        told = self._rows(
            f"SELECT left(reason, {limits.NAME}) AS why, count(*), max(epoch_ms(ingest_ts)),"  # noqa: S608
            f" left(arg_max(raw::VARCHAR, ingest_ts), {limits.NAME})"
            f" FROM {parquet(files)} GROUP BY why ORDER BY count(*) DESC, why LIMIT 10000"
        )
        reasons = [Reason(str(why), count, at or 0, str(raw or "")) for why, count, at, raw in told]
        return reasons[: limits.REASONS], sum(one.records for one in reasons)

    def _alarms(self, begin: int) -> tuple[list[Alarm], int]:
        """Of all days: one that was raised long ago may go on."""
        files = files_of(self._tables, "alarms", date.min, date.max)
        if not files:
            return [], 0
        narrowed = "" if self._device is None else "WHERE device = getvariable('device')"
        rows = self._rows(
            "WITH told AS (SELECT alarm_id, any_value(gateway), any_value(device), coalesce(any_value(tag), ''),"  # noqa: S608
            " any_value(rule), any_value(kind), coalesce(arg_max(severity, \"at\"), 'warning'),"
            ' arg_min(value, "at"), arg_min(threshold, "at"),'
            " min(epoch_ms(\"at\")) FILTER (state = 'raised') AS since,"
            " min(epoch_ms(\"at\")) FILTER (state = 'cleared') AS until"
            f" FROM {parquet(files)} {narrowed} GROUP BY alarm_id)"
            " SELECT * EXCLUDE (alarm_id), count(*) OVER () FROM told"
            " WHERE since IS NOT NULL AND coalesce(until, since) >= $begin OR since IS NOT NULL AND until IS NULL"
            f" ORDER BY until IS NOT NULL, since DESC LIMIT {limits.ALARMS}",
            {"begin": begin},
        )
        return [Alarm(*row[:-1]) for row in rows], (rows[0][-1] - len(rows) if rows else 0)


def parquet(files: Sequence[Path]) -> str:
    """A table function over exactly these files."""
    listed = ", ".join(_quoted(re.sub(r"([*?\[])", r"[\1]", str(path))) for path in files)
    return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
