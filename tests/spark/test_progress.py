"""What the status file says of a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from iot_spark import running
from iot_spark.progress import Progress, of_batch
from iot_spark.sinks import State
from jobs import compact
from jobs.clean import begin
from pyspark.errors import PySparkRuntimeError

from tests.spark.records import written

END = '{"raw":{"0":10,"1":20}}'


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([{"endOffset": END, "latestOffset": '{"raw":{"0":15,"1":20}}'}], 5),
        ([{"endOffset": END, "latestOffset": '{"raw":{"0":15,"1":20,"2":7}}'}], 12),
        ([{"endOffset": END, "latestOffset": "null", "metrics": {"avgOffsetsBehindLatest": "2.5"}}], 5),
        ([{"endOffset": END, "latestOffset": "null", "metrics": {}}], None),
        ([{"endOffset": '{"logOffset":3}', "latestOffset": "null"}], None),
        ([{"endOffset": None, "latestOffset": None}], None),
        ([], None),
    ],
)
def test_the_lag_is_what_kafka_has_and_was_not_read(sources: list[dict[str, Any]], lag: int | None) -> None:
    """Over all partitions, new ones too; of files nobody knows."""
    assert of_batch({"sources": sources})["lag"] == lag


def test_the_file_has_what_was_told_and_when(tmp_path: Path) -> None:
    """Rates, watermark and totals, with the time of the clock that is passed in."""
    progress = Progress(tmp_path, "clean", now=lambda: 12.5)
    last = {
        "inputRowsPerSecond": 7.0,
        "processedRowsPerSecond": 8.0,
        "durationMs": {"triggerExecution": 1500},
        "eventTime": {"watermark": "2026-09-21T12:00:00.000Z"},
    }
    progress.look(last, State("11111111", 4, {"in": 9}))
    found = json.loads((tmp_path / "clean.json").read_text())
    assert found["running"] is True and found["updated_at"] == found["started_at"] == 12_500
    assert found["input_rows_per_second"] == 7.0 and found["batch_seconds"] == 1.5
    assert found["watermark"] == "2026-09-21T12:00:00.000Z" and found["batch"] == 4 and found["totals"] == {"in": 9}
    progress.write(running=False, error="why")
    found = json.loads((tmp_path / "clean.json").read_text())
    assert found["running"] is False and found["error"] == "why" and found["batch"] == 4


def test_what_has_no_line_of_its_own_is_told_as_one(tmp_path: Path) -> None:
    """So the reasons add up to their total."""
    names = {f"reason {number:02d}": 100 - number for number in range(12)}
    Progress(tmp_path, "clean").look(None, State("11111111", 4, {}, named={"invalid": names | {"(others)": 99}}))
    found = json.loads((tmp_path / "clean.json").read_text())["named"]["invalid"]
    assert list(found)[:10] == list(names)[:10] and list(found)[10:] == ["(others)"]
    assert found["(others)"] == 99 + 90 + 89
    Progress(tmp_path, "clean").look(None, State("11111111", 4, {}, named={"invalid": dict([*names.items()][:10])}))
    assert "(others)" not in json.loads((tmp_path / "clean.json").read_text())["named"]["invalid"]


@pytest.mark.parametrize("job", ["clean", "compact"])
def test_what_ends_a_job_before_its_session_is_told(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the last line, and in the status file."""

    def no_session(*_: object, **__: object) -> None:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited\n  and pages of it")

    monkeypatch.setattr(f"{'iot_spark.running' if job == 'clean' else 'jobs.compact'}.session", no_session)
    # It takes the signals of the process.
    monkeypatch.setattr(running, "Stop", lambda: None)
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(written(tmp_path)))
    arguments = ["--settings", str(path)]
    code = running.main("clean", begin, arguments) if job == "clean" else compact.main(arguments)
    why = "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited"
    assert code == running.FAILED
    assert capsys.readouterr().err.splitlines()[-1] == f"{job}: {why}"
    said = json.loads((tmp_path / "status" / f"{job}.json").read_text())
    assert (said["running"], said["error"].splitlines()[0]) == (False, why)
