"""``pipeline status`` and ``ctl pipeline status``: what jobs say, and whether that still holds."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.admin.pipeline_resources import JobStatus
from iot_mqtt.app.cli import main
from iot_mqtt.app.pipeline.status import MAX_FILES, Clock, is_alive, read_status, screen
from iot_mqtt.app.slow_files import SlowFiles
from iot_mqtt.errors import Unavailable
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.threadkit import Reactor

NOW = 1_000_000.0
PATIENCE = 5.0
SAID: dict[str, Any] = {
    "job": "clean",
    "running": True,
    "pid": 4711,
    "started_at": 999_000_000,
    "run": "aabbccdd",
    "batch": 7,
    "input_rows_per_second": 2000.04,
    "processed_rows_per_second": 50_000.0,
    "batch_seconds": 1.5,
    "named": {
        "duplicate": {"gw-1/press": 2, "mill": 3},
        "invalid": {"broken JSON": 3},
        "commands_too_late": {"gw-1/slow": 4},
    },
    "totals": {"in": 100, "out": 90, "duplicate": 5, "invalid": 3, "late": 2},
    "lag": 12,
    "watermark": "2026-11-22T01:00:00.000Z",
    "error": None,
    "updated_at": 999_999_000,
}


def read(folder: Path, said: object = SAID, *, alive: bool | None = True, now: float = NOW) -> JobStatus:
    """One job that said this."""
    (folder / "clean.json").write_text(said if isinstance(said, str) else json.dumps(said))
    (found,) = read_status(folder, Clock(lambda: now, lambda _: alive))
    return found


def test_a_running_job_is_told_as_it_says(tmp_path: Path) -> None:
    """Every figure."""
    found = read(tmp_path)
    assert (found.job, found.state, found.batch, found.lag) == ("clean", "running", 7, 12)
    assert found.named == {
        "duplicate": {"mill": 3, "gw-1/press": 2},
        "invalid": {"broken JSON": 3},
        "commands_too_late": {"gw-1/slow": 4},
    }
    assert found.totals == {"duplicate": 5, "in": 100, "invalid": 3, "late": 2, "out": 90}
    assert (found.started_at, found.updated_at) == (999_000.0, 999_999.0)


@pytest.mark.parametrize(
    ("running", "alive", "age", "state"),
    [
        (True, True, 1, "running"),
        (True, None, 1, "running"),
        # Of another machine, which goes on writing.
        (True, False, 1, "running"),
        (True, False, 10, "died"),
        (True, False, 10_000, "died"),
        (True, True, 10_000, "stale"),
        (True, None, 10_000, "stale"),
        (False, True, 1, "stopped"),
        (False, False, 10_000, "stopped"),
    ],
)
def test_what_a_file_says_is_held_against_its_process_and_its_age(
    tmp_path: Path, running: bool, alive: bool | None, age: float, state: str
) -> None:
    """A job that is killed leaves a file that says it runs."""
    said = SAID | {"running": running, "updated_at": int((NOW - age) * 1000)}
    assert read(tmp_path, said, alive=alive).state == state


def test_a_process_is_alive_or_not() -> None:
    """This one is; no machine has so many as the other needs."""
    assert is_alive(os.getpid()) is True
    assert is_alive(2**30) is False


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"running": true', "\udcff".encode("utf-8", "surrogateescape")]
)
def test_a_file_that_is_none_becomes_a_row_that_says_so(tmp_path: Path, text: str | bytes) -> None:
    """And no traceback."""
    (tmp_path / "clean.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    (found,) = read_status(tmp_path)
    assert found.state == "unknown"
    assert found.error is not None


def test_fields_of_a_wrong_type_are_not_told(tmp_path: Path) -> None:
    """Whoever may write there must not bring the node down."""
    said = {
        "running": True,
        "pid": "x",
        "batch": True,
        "totals": {"a": "b", "c" * 1000: 1},
        "named": {"duplicate": {"d" * 1000: 2, "e": "f"} | {f"g{n}": 1 for n in range(100)}, "invalid": 7, "x": {}},
        "lag": 1e300,
        "updated_at": 10**30,
        "error": "e" * 10_000,
    }
    found = read(tmp_path, said)
    assert (found.pid, found.batch, found.lag, found.updated_at, found.state) == (None, None, None, None, "stale")
    assert found.totals == {"c" * 64: 1}
    assert found.named.keys() == {"duplicate"} and len(found.named["duplicate"]) == 11
    assert found.named["duplicate"]["d" * 300] == 2
    assert [*found.named["duplicate"].items()][-1] == ("(others)", 91)
    assert found.error == "e" * 2000


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    """It is no status."""
    assert read(tmp_path, json.dumps(SAID | {"error": "e" * 1_000_000})).state == "unknown"


def test_directories_are_bounded_and_may_be_missing(tmp_path: Path) -> None:
    """Files that are being written are passed over."""
    assert read_status(tmp_path / "none") == []
    for number in range(MAX_FILES + 5):
        (tmp_path / f"job-{number:03}.json").write_text("{}")
    (tmp_path / ".job.json").write_text("{")
    assert len(read_status(tmp_path)) == MAX_FILES


def lines(*jobs: JobStatus) -> dict[str, str]:
    return dict(screen([asdict(job) for job in jobs], NOW))


def test_the_screen_has_rates_lag_and_watermark(tmp_path: Path) -> None:
    """In words."""
    found = lines(read(tmp_path))
    assert found["clean"].startswith("running, process 4711, since ")
    assert found["  batch"] == "7, which took 1.5 s"
    assert found["  rows a second"] == "2000 come, 50000 can be done"
    assert found["  not read yet"] == "12 records"
    assert found["  watermark"] == "2026-11-22T01:00:00.000Z"
    assert "duplicate 5" in found["  totals"]
    assert found["  duplicates of"] == "gw-1/press 2, mill 3" and found["  dead letters"] == "broken JSON 3"
    assert found["  commands too late of"] == "gw-1/slow 4"


def test_the_screen_says_since_when_a_job_does_not_run(tmp_path: Path) -> None:
    """And whether it had been told to end."""
    old = SAID | {"updated_at": int((NOW - 3600) * 1000), "error": "boom\n  at x"}
    assert lines(read(tmp_path, old, alive=False))["clean"] == (
        "not running since 1970-01-12 12:46:40Z (1 h ago): it ended without a word"
    )
    assert (
        lines(read(tmp_path, old | {"running": False}))["clean"] == "not running since 1970-01-12 12:46:40Z (1 h ago)"
    )
    assert lines(read(tmp_path, old))["  error"] == "boom"


def test_the_command_reads_the_files(tmp_path: Path) -> None:
    """No node is needed."""
    sets = ["--set", f"pipeline.dir={tmp_path}"]
    assert "no job ran yet" in CliRunner().invoke(main, ["pipeline", "status", *sets]).output
    (tmp_path / "status").mkdir()
    # No process has a number as large as that.
    (tmp_path / "status" / "clean.json").write_text(json.dumps(SAID | {"pid": 1 << 23}))
    assert "not running since" in CliRunner().invoke(main, ["pipeline", "status", *sets]).output
    found = json.loads(CliRunner().invoke(main, ["pipeline", "status", "--json", *sets]).output)
    assert (found[0]["job"], found[0]["lag"]) == ("clean", 12)


def test_the_api_has_the_jobs(tmp_path: Path) -> None:
    """As a page, like every list."""

    async def jobs() -> list[JobStatus]:
        return [read(tmp_path)]

    browser = make_browser(FakeView(), jobs=jobs)
    found = browser.get("/api/v1/pipeline").json
    assert found["after"] is None
    assert found["items"][0]["watermark"] == "2026-11-22T01:00:00.000Z"
    assert "/pipeline" in browser.get("/api/v1/openapi.json").json["paths"]


def _bridge(folder: Path, reactor: Reactor) -> SlowFiles[list[JobStatus]]:
    return SlowFiles(partial(read_status, folder), reactor, PATIENCE, str(folder), reactor.pool)


def asked(bridge: SlowFiles[list[JobStatus]]) -> list[Any]:
    found: list[Any] = []
    asking: Deferred[list[JobStatus]] = ensureDeferred(bridge.read())
    asking.addBoth(found.append)
    return found


def test_those_who_ask_at_once_share_one_read(tmp_path: Path) -> None:
    """However many ask, one thread reads."""
    reactor = Reactor()
    bridge = _bridge(tmp_path, reactor)
    asking = [asked(bridge) for _ in range(10)]
    assert len(reactor.pool.waiting) == 1
    reactor.pool.go()
    assert asking == [[[]]] * 10
    assert reactor.getDelayedCalls() == []


def test_a_file_system_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Each is told after a while; one thread is all that it has; it is asked again when that comes back."""
    reactor = Reactor()
    bridge = _bridge(tmp_path, reactor)
    first = asked(bridge)
    reactor.advance(PATIENCE + 0.1)
    second = asked(bridge)
    reactor.advance(PATIENCE + 0.1)
    for found in (first, second):
        assert isinstance(found[0].value, Unavailable)
    assert len(reactor.pool.waiting) == 1
    reactor.pool.go()
    third = asked(bridge)
    reactor.pool.go()
    assert third == [[]]
