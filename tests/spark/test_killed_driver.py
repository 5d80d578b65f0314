"""The job as a program: however often it is killed (``SPARK_KILLS``), the table holds each good message once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from iot_spark.running import DONE, WRONG
from iot_spark.schema import INVALID
from iot_spark.sources import read_table
from pyspark.sql import SparkSession

from tests.spark.jobs import KILLS, SPARK, running
from tests.spark.records import NOON, put, reading, written

#: A batch for each kill, one behind each, and the last.
FILES, EACH = 2 * KILLS + 1, 400


def job(root: Path, *more: str, **changes: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """``clean``, with some settings changed."""
    return running("clean", root, written(root, **changes), *more)


def status(root: Path) -> dict[str, Any]:
    path = root / "status" / "clean.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def until(root: Path, batch: int, seconds: float = 300) -> None:
    """A batch of at least this number is being written, or was."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        here = [path.name for path in (root / "tables" / ".staging").glob("clean-*")]
        shown = root / "tables" / ".state" / "clean.json"
        last = json.loads(shown.read_text())["batch"] if shown.exists() else -1
        if last >= batch or any(int(name.split("-")[2].split(".")[0]) >= batch for name in here):
            return
        time.sleep(0.02)
    raise AssertionError(f"batch {batch} never came:\n{(root / 'log').read_text()[-3000:]}")


@pytest.mark.timeout(1200)
def test_each_good_message_is_there_once_however_often_the_driver_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each time in the middle of a batch, in which there are duplicates, late ones and broken ones."""
    chance = random.Random(5)
    good: list[dict[str, Any]] = [
        reading(seq, id=f"r{seq}", ts=NOON + seq - (90_000_000 if seq % 20 == 0 else 0), ingest_ts=NOON + seq)
        for seq in range(FILES * EACH)
    ]
    for number in range(FILES):
        mine: list[dict[str, Any] | str] = list(good[number * EACH : (number + 1) * EACH])
        mine += chance.sample(good[: (number + 1) * EACH], EACH // 20)
        mine += [f"broken {number} {index}" for index in range(EACH // 50)]
        chance.shuffle(mine)
        put(tmp_path / "uplink", f"{number:03d}", mine)
    for batch in range(0, 2 * KILLS, 2):
        with job(tmp_path):
            until(tmp_path, batch)
            time.sleep(chance.uniform(0, 0.6))
    with job(tmp_path, "--once") as child:
        assert child.wait(timeout=400) == DONE, (tmp_path / "log").read_text()[-3000:]
    found = sorted(row.id for row in read_table(spark, tmp_path / "tables", "clean").select("id").collect())
    assert found == sorted(one["id"] for one in good)
    letters = [row.raw for row in read_table(spark, tmp_path / "tables", "invalid", INVALID).collect()]
    assert sorted(letters) == sorted(f"broken {n} {index}" for n in range(FILES) for index in range(EACH // 50))
    told = status(tmp_path)
    assert told["running"] is False and told["error"] is None and told["batch"] == FILES - 1
    totals = told["totals"]
    assert totals["in"] == FILES * (EACH + EACH // 20 + EACH // 50)
    assert totals["valid"] == totals["out"] == FILES * EACH and totals["dead"] == len(letters)
    assert totals["duplicate"] == FILES * EACH // 20 and totals["late"] >= FILES * EACH // 20


@pytest.mark.timeout(300)
def test_sigterm_ends_a_running_job_in_order(tmp_path: Path) -> None:
    """It says that it has ended, and with what."""
    put(tmp_path / "uplink", "000", [reading(1)])
    with job(tmp_path) as child:
        until(tmp_path, 0)
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=120) == DONE
    told = status(tmp_path)
    assert told["running"] is False and told["totals"]["out"] == 1 and told["batch"] == 0
    assert told["updated_at"] >= told["started_at"] and told["lag"] is None


def test_wrong_settings_end_it_before_spark_begins(tmp_path: Path) -> None:
    """With the code that says so, and the key."""
    (tmp_path / "settings.json").write_text('{"sauce": 1}')
    command = [sys.executable, str(SPARK / "jobs" / "clean.py"), "--settings", str(tmp_path / "settings.json")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(SPARK)}, capture_output=True, timeout=100, text=True, check=False
    )
    assert done.returncode == WRONG and "sauce is not known" in done.stderr
