"""What running jobs say of themselves: ``<pipeline.dir>/status/<job>.json``, written by ``iot_spark.progress``.

A file is only what a job said last. Whether that still holds is judged here: by its process, where that is on this
machine, and by the age of the file. Reading is bounded, and a file that is no such file becomes a row that says so.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from iot_mqtt.admin.pipeline_resources import JobStatus
from iot_mqtt.app.terminal import moment, plain, print_form, print_json, span

#: A job writes its file each second, and at the latest when a batch is over.
STALE_SECONDS = 120.0
JUST_NOW_SECONDS = 5.0
MAX_FILES = 32
MAX_BYTES = 64 * 1024
MAX_TOTALS = 32
MAX_NAMES = 10
#: What a job calls all others together, and so do we.
OTHERS = "(others)"
MAX_NAME = 300
MAX_TEXT = 2000


def is_alive(pid: int) -> bool | None:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return None
    return True


class Clock(NamedTuple):
    """What the judgement depends on: the time, and whether a process is there (None: nobody knows)."""

    now: Callable[[], float] = time.time
    alive: Callable[[int], bool | None] = is_alive


def read_status(folder: Path, clock: Clock | None = None) -> list[JobStatus]:
    """A row for each job that ever ran here, by name."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [_unreadable(folder.name, f"{folder}: {error.strerror}")]
    return [_read(path, clock or Clock()) for path in paths[:MAX_FILES]]


def _read(path: Path, clock: Clock) -> JobStatus:
    job = path.stem[:64]
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(MAX_BYTES + 1)[:MAX_BYTES])
    except OSError as error:
        return _unreadable(job, f"{path.name}: {error.strerror}")
    except ValueError:
        return _unreadable(job, f"{path.name} is not JSON")
    if not isinstance(said, Mapping):
        return _unreadable(job, f"{path.name} is no JSON object")
    return _judged(job, said, clock)


def _unreadable(job: str, error: str) -> JobStatus:
    return JobStatus(job=job, state="unknown", error=error)


def _judged(job: str, said: Mapping[str, Any], clock: Clock) -> JobStatus:
    pid = _whole(said.get("pid"))
    updated = _seconds(said.get("updated_at"))
    return JobStatus(
        job=job,
        state=_state(said.get("running") is True, pid, updated, clock),
        pid=pid,
        started_at=_seconds(said.get("started_at")),
        updated_at=updated,
        batch=_whole(said.get("batch")),
        input_rows_per_second=_number(said.get("input_rows_per_second")),
        processed_rows_per_second=_number(said.get("processed_rows_per_second")),
        batch_seconds=_number(said.get("batch_seconds")),
        totals=_totals(said.get("totals")),
        named=_named(said.get("named")),
        lag=_whole(said.get("lag")),
        watermark=_text(said.get("watermark")),
        error=_text(said.get("error")),
    )


def _state(running: bool, pid: int | None, updated: float | None, clock: Clock) -> str:
    """``running``; ``stopped`` in peace; ``died`` without a word; ``stale``: it says nothing, and may be elsewhere."""
    if not running:
        return "stopped"
    fresh = updated is not None and clock.now() - updated <= STALE_SECONDS
    alive = clock.alive(pid) if pid is not None and pid > 0 else None
    if alive is False:
        # A file that goes on being written belongs to a process of another machine.
        return "running" if updated is not None and clock.now() - updated <= JUST_NOW_SECONDS else "died"
    return "running" if fresh else "stale"


def _totals(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        return {}
    known = [(str(name)[:64], number) for name, said in value.items() if (number := _whole(said)) is not None]
    return dict(sorted(known)[:MAX_TOTALS])


def _named(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, Mapping):
        return {}
    return {str(what)[:64]: found for what, names in [*value.items()][:MAX_TOTALS] if (found := _largest(names))}


def _largest(names: object) -> dict[str, int]:
    if not isinstance(names, Mapping):
        return {}
    known = [(str(name)[:MAX_NAME], count) for name, said in names.items() if (count := _whole(said)) is not None]
    found = dict(sorted((one for one in known if one[0] != OTHERS), key=lambda one: (-one[1], one[0]))[:MAX_NAMES])
    rest = sum(count for _, count in known) - sum(found.values())
    return found | {OTHERS: rest} if rest else found


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _number(value: object) -> float | None:
    """NaN is what Spark says of a rate before the first batch."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf"):
        return float(value)
    return None


def _seconds(value: object) -> float | None:
    milliseconds = _whole(value)
    return None if milliseconds is None or not 0 <= milliseconds < 10**14 else milliseconds / 1000


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:MAX_TEXT]


#: Totals by name, as they are called on the screen.
_NAMED = (
    ("duplicate", "duplicates of"),
    ("invalid", "dead letters"),
    ("raised", "alarms raised by"),
    ("commands_too_late", "commands too late of"),
)


def print_jobs(jobs: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """What they say, as of now."""
    if as_json:
        print_json(jobs)
    elif jobs:
        print_form(screen(jobs, time.time()))
    else:
        click.echo("no job ran yet: iot-mqtt pipeline run clean")


def screen(jobs: Sequence[Mapping[str, Any]], now: float) -> Iterator[tuple[str, str]]:
    """The rows as a form, a block for each job."""
    for job in jobs:
        yield plain(job["job"]), _words(job, now)
        if job["batch"] is not None:
            seconds = "" if job["batch_seconds"] is None else f", which took {plain(job['batch_seconds'])} s"
            yield "  batch", f"{job['batch']}{seconds}"
        if job["processed_rows_per_second"] is not None or job["input_rows_per_second"] is not None:
            rates = [plain(_rounded(job[f"{name}_rows_per_second"])) for name in ("input", "processed")]
            yield "  rows a second", f"{rates[0]} come, {rates[1]} can be done"
        if job["totals"]:
            yield "  totals", plain(job["totals"])
        for what, label in _NAMED:
            if names := job.get("named", {}).get(what):
                yield f"  {label}", plain(names)
        if job["lag"] is not None:
            yield "  not read yet", f"{job['lag']} records"
        if job["watermark"] is not None:
            yield "  watermark", plain(job["watermark"])
        if job["error"] is not None:
            yield "  error", plain(job["error"].partition("\n")[0])


def _words(job: Mapping[str, Any], now: float) -> str:
    at = job["updated_at"]
    ago = "" if at is None else f" since {moment(at)} ({span(now - at)} ago)"
    if job["state"] == "running":
        since = "" if job["started_at"] is None else f", since {moment(job['started_at'])}"
        return f"running, process {plain(job['pid'])}{since}"
    reasons = {
        "stopped": f"not running{ago}",
        "died": f"not running{ago}: it ended without a word",
        "stale": f"not running, or hanging{ago}",
    }
    return reasons.get(job["state"], "unknown")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
