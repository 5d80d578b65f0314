"""The query of docs/pipeline.md, run as it stands there: each row once, whatever the jobs are doing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

duckdb = pytest.importorskip("duckdb")

PAGE = Path(__file__).parents[4] / "docs" / "pipeline.md"
DAY = "dt=2026-11-21"


def documented() -> str:
    """The lines from the first that mentions the files to the end of their block."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if "pipeline files clean >" in line)
    end = next(number for number in range(begin, len(lines)) if not lines[number].startswith("    "))
    return "\n".join(line[4:] for line in lines[begin:end])


def put(folder: Path, *rows: int) -> None:
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        values = ", ".join(f"('press', 't', TIMESTAMP '2026-11-21 12:00:00' + INTERVAL {row} SECOND)" for row in rows)
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {values}) AS v (device, tag, ts)")
        connection.execute(f"COPY t TO '{folder}/part-0.parquet' (FORMAT parquet)")


def test_the_documented_query_has_each_row_once(tmp_path: Path) -> None:
    """Rows of a day that was compacted, one batch that is folded and not removed yet, one that is being written."""
    tables = tmp_path / "data" / "pipeline" / "tables"
    (tables / ".state").mkdir(parents=True)
    (tables / ".state" / "clean.json").write_text(json.dumps({"run": "aaaaaaaa", "batch": 7, "totals": {}}))
    put(tables / "daily" / DAY / "version=000000000001", 1)
    put(tables / "daily" / DAY / "version=000000000002", 1, 2, 3)
    for number, holds in ((1, []), (2, ["batch=clean-aaaaaaaa-000000000006"])):
        told = tables / "daily" / DAY / f"version={number:012d}" / "_holds.json"
        told.write_text(json.dumps({"batches": holds}))
    put(tables / "clean" / DAY / "batch=clean-aaaaaaaa-000000000006", 3)
    put(tables / "clean" / DAY / "batch=clean-aaaaaaaa-000000000007", 4)
    put(tables / "clean" / DAY / "batch=clean-aaaaaaaa-000000000008", 5)
    put(tables / ".staging" / "clean-aaaaaaaa-000000000009.writing" / "clean" / DAY, 6)
    script = documented().replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = [line.split("\u2502")[1:-1] for line in done.stdout.splitlines() if "press" in line]
    assert [cell.strip() for cell in row] == ["press", "t", "4", "2026-11-21 12:00:04"]


def test_days_can_be_chosen_and_a_table_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Files one on each line, for any program."""
    tables = tmp_path / "data" / "pipeline" / "tables"
    for day in (20, 21, 22):
        put(tables / "clean" / f"dt=2026-11-{day}" / "batch=clean-aaaaaaaa-000000000001", day)

    def files(*options: str) -> list[str]:
        command = [sys.executable, "-m", "iot_mqtt", "pipeline", "files", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        return [Path(line).parents[1].name for line in done.stdout.splitlines()]

    assert files("clean", "--first", "2026-11-21") == ["dt=2026-11-21", "dt=2026-11-22"]
    assert files("clean", "--last", "2026-11-20") == ["dt=2026-11-20"]
    assert files("alarms") == []
