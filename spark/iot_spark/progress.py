"""``status/<job>.json``: how a job is doing, for ``iot-mqtt ctl pipeline status`` and whoever looks.

Written whole every second or so and at the end, with ``running``, the batch, rates, totals, totals by name (of devices
and reasons), lag, watermark and the last error. ``updated_at`` is part of it: a job that was killed leaves ``running``
true, and a time that does not move.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from iot_spark.sinks import OTHERS, State, replace_json

#: Devices and reasons that are told by name; all others together are ``OTHERS``.
MOST_NAMES = 10


class Progress:
    """The status file of one job."""

    def __init__(self, status: Path, job: str, now: Callable[[], float] = time.time) -> None:
        self._path = status / f"{job}.json"
        self._now = now
        self._fields: dict[str, Any] = {
            "job": job,
            "running": True,
            "pid": os.getpid(),
            "started_at": self._milliseconds(),
            "run": None,
            "batch": None,
            "input_rows_per_second": None,
            "processed_rows_per_second": None,
            "batch_seconds": None,
            "totals": {},
            "named": {},
            "lag": None,
            "watermark": None,
            "error": None,
        }

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)

    def write(self, **fields: object) -> None:
        """Change fields and write all of them."""
        self._fields |= fields
        replace_json(self._path, {**self._fields, "updated_at": self._milliseconds()})

    def look(self, last: Mapping[str, Any] | None, shown: State) -> None:
        """Write what Spark says of its last batch, and what the sink has shown."""
        fields: dict[str, object] = {
            "run": shown.run,
            "batch": shown.batch,
            "totals": dict(shown.totals),
            "named": {what: _largest(names) for what, names in shown.named.items()},
        }
        if last is not None:
            fields |= of_batch(last)
        self.write(**fields)


def _largest(names: Mapping[str, int]) -> dict[str, int]:
    """The file stays small: the state of the tables has more of them. Together they are as many as there."""
    named = [name for name in names if name != OTHERS]
    found = {name: names[name] for name in sorted(named, key=lambda name: (-names[name], name))[:MOST_NAMES]}
    rest = sum(names.values()) - sum(found.values())
    return found | {OTHERS: rest} if rest else found


def of_batch(last: Mapping[str, Any]) -> dict[str, object]:
    """Spark's progress of one batch, in our words."""
    duration = last.get("durationMs") or {}
    return {
        "input_rows_per_second": last.get("inputRowsPerSecond"),
        "processed_rows_per_second": last.get("processedRowsPerSecond"),
        "batch_seconds": duration.get("triggerExecution", 0) / 1000,
        "lag": lag(last),
        "watermark": (last.get("eventTime") or {}).get("watermark"),
    }


def lag(last: Mapping[str, Any]) -> int | None:
    """Records of Kafka that are not read yet; None for files, of which nobody knows."""
    behind = [_behind(source) for source in last.get("sources", [])]
    known = [one for one in behind if one is not None]
    return sum(known) if behind and len(known) == len(behind) else None


def _behind(source: Mapping[str, Any]) -> int | None:
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None:
        return None
    if latest is None:
        # With --once the end is fixed at the beginning, and only the average over partitions is told.
        average = (source.get("metrics") or {}).get("avgOffsetsBehindLatest")
        return None if average is None else round(float(average) * len(end))
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _offsets(said: object) -> dict[tuple[str, str], int] | None:
    """Kafka's offsets by topic and partition, from ``{"topic": {"0": 17}}`` or the same as text."""
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return None
    if not isinstance(said, Mapping):
        return None
    found = {}
    for topic, partitions in said.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            found[str(topic), str(partition)] = int(offset)
    return found
