"""Single alarms and dead letters of the tables, the newest first; as a program, asked and answering in JSON.

::

    {"tables": …, "table": "alarms" | "invalid", "limit": …, "before": [ms, id] | null, "part": …}
        ─▶  python -m iot_mqtt.app.pipeline.report.rows  ─▶  [{…}, …]

A node asks in a process of its own: reading Parquet takes memory and time that a broker has no business to spend. Texts
in the tables come from devices, so none of them becomes part of a statement.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.launching import INSTALL
from iot_mqtt.app.pipeline.report import limits
from iot_mqtt.app.pipeline.report.files import days_of, files_of
from iot_mqtt.app.pipeline.report.tables import connection, parquet

#: Characters of a record that are looked at, and that are shown of what was published.
LOOKED_AT, EXCERPT = 20_000, 300
#: How much this takes, at most.
MEMORY, THREADS = "256MB", 1
_SENDER = re.compile(r'"(?:client|device)":("(?:[^"\\]|\\.)*")')

Row = dict[str, Any]


class Wanted(NamedTuple):
    """Which rows. ``before``: only those behind this one, by its time in ms and its id."""

    limit: int
    before: tuple[int, str] | None = None
    #: In the device, the rule or reason, or the topic; in whatever case.
    part: str = ""
    #: Of alarms: those that go on, or are over; None: both.
    active: bool | None = None

    def values(self) -> dict[str, object]:
        at, after = self.before or (2**62, "")
        return {"at": at, "after": after, "part": self.part.lower(), "limit": self.limit}


def alarms(tables: Path, wanted: Wanted) -> list[Row]:
    """Of all days: one that was raised long ago may go on."""
    files = files_of(tables, "alarms", date.min, date.max)
    if not files:
        return []
    over = {None: "", True: "AND until IS NULL", False: "AND until IS NOT NULL"}[wanted.active]
    statement = (
        "WITH told AS (SELECT alarm_id AS id, any_value(gateway) AS gateway, any_value(device) AS device,"  # noqa: S608
        " any_value(tag) AS tag, any_value(rule) AS rule, any_value(kind) AS kind,"
        " coalesce(arg_max(severity, \"at\"), 'warning') AS severity,"
        ' arg_min(value, "at") AS value, arg_min(threshold, "at") AS threshold,'
        " min(epoch_ms(\"at\")) FILTER (state = 'raised') AS since,"
        " max(epoch_ms(\"at\")) FILTER (state = 'cleared') AS until"
        f" FROM {parquet(files)} GROUP BY alarm_id)"
        " SELECT id, gateway, device, tag, rule, kind, severity, value, threshold, since, until FROM told"
        f" WHERE since IS NOT NULL {over} AND (since < $at OR since = $at AND id > $after)"
        " AND contains(lower(concat_ws(' ', gateway || '/' || device, tag, rule)), $part)"
        " ORDER BY since DESC, id LIMIT $limit"
    )
    with connection(MEMORY, THREADS) as duckdb:
        return [_alarm(row) for row in duckdb.execute(statement, wanted.values()).fetchall()]


def _alarm(row: Sequence[Any]) -> Row:
    names = ("id", "gateway", "device", "tag", "rule", "kind", "severity")
    texts = {name: _cut(value) for name, value in zip(names, row, strict=False)}
    value, threshold, since, until = row[len(names) :]
    numbers = {"value": _finite(value), "threshold": _finite(threshold)}
    return {**texts, **numbers, "raised_at": since / 1000, "cleared_at": None if until is None else until / 1000}


def dead_letters(tables: Path, wanted: Wanted) -> list[Row]:
    """Day by day from the newest, for as many as are wanted."""
    found: list[Row] = []
    newest = date.max if wanted.before is None else datetime.fromtimestamp(wanted.before[0] / 1000, UTC).date()
    with connection(MEMORY, THREADS) as duckdb:
        for day in reversed(days_of(tables, "invalid")):
            files = files_of(tables, "invalid", day, day) if day <= newest else []
            if not files:
                continue
            values = wanted.values() | {"limit": wanted.limit - len(found)}
            found += map(_letter, duckdb.execute(_letters(parquet(files)), values).fetchall())
            if len(found) == wanted.limit:
                break
    return found


def _letters(files: str) -> str:
    return (
        "WITH told AS (SELECT md5(concat_ws(' ', raw::VARCHAR, reason, tag)) AS id,"  # noqa: S608
        " coalesce(epoch_ms(ingest_ts), 0) AS ms, topic, tag, tags, reason,"
        f" left(raw::VARCHAR, {LOOKED_AT}) AS beginning, octet_length(encode(raw::VARCHAR)) AS size FROM {files})"
        " SELECT id, ms, topic, tag, tags, reason, beginning, size FROM told"
        " WHERE (ms < $at OR ms = $at AND id > $after)"
        " AND contains(lower(concat_ws(' ', topic, reason, tag, left(beginning, 1000))), $part)"
        " ORDER BY ms DESC, id LIMIT $limit"
    )


def _letter(row: Sequence[Any]) -> Row:
    id, ms, topic, tag, tags, reason, beginning, size = row
    sender, text = _looked_into(beginning or "")
    shown = {"topic": topic, "device": sender, "tag": tag, "reason": reason or ""}
    named = {name: _cut(value) for name, value in shown.items()}
    return {"id": id, "at": ms / 1000, **named, "payload": text[:EXCERPT], "tags": tags, "size": size or 0}


def _cut(value: object) -> str | None:
    return None if value is None else str(value)[: limits.NAME]


def _looked_into(beginning: str) -> tuple[str | None, str]:
    """Who sent it, and what was published: of a record of the uplink's, or as much as can be told of anything else."""
    try:
        said = json.loads(beginning)
    except ValueError:
        head, _, payload = beginning.partition('"payload":')
        named = _SENDER.search(head)
        return (json.loads(named[1]) if named else None), payload or beginning
    except RecursionError:
        return None, beginning
    if not isinstance(said, Mapping):
        return None, beginning
    sender = next((str(said[name]) for name in ("device", "client") if said.get(name)), None)
    if (gateway := said.get("gateway")) and sender:
        sender = f"{gateway}/{sender}"
    if "payload_b64" in said:
        return sender, _text(str(said["payload_b64"]))
    payload = said.get("payload", said.get("values"))
    return sender, beginning if payload is None else json.dumps(payload, ensure_ascii=False)


def _text(base64: str) -> str:
    """What no JSON was, as text; bytes that are none as Python writes them."""
    try:
        return b64decode(base64).decode(errors="backslashreplace")
    except ValueError:
        return base64


def _finite(value: float | None) -> float | None:
    return None if value is None or not abs(value) < float("inf") else value


TABLES = {"alarms": alarms, "invalid": dead_letters}


def read(tables: Path, table: str, wanted: Wanted) -> list[Row]:
    """Raises ``PipelineError``."""
    try:
        import duckdb
    except ImportError as error:
        raise PipelineError(f"duckdb is not installed, which reads the tables: {INSTALL}") from error
    try:
        return TABLES[table](tables, wanted)
    except duckdb.Error as error:
        raise PipelineError(f"the tables in {tables} cannot be read: {error}") from error
    except OSError as error:
        raise PipelineError(f"the tables in {tables} cannot be read: {error.strerror}") from error


def main() -> None:
    """One question from standard input, one answer; what went wrong, on standard error in words."""
    asked = json.load(sys.stdin)
    before = asked.pop("before")
    tables, table = Path(asked.pop("tables")), asked.pop("table")
    try:
        json.dump(read(tables, table, Wanted(**asked, before=before and (int(before[0]), str(before[1])))), sys.stdout)
    except PipelineError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
