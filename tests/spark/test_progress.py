"""What the status file says of a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from iot_spark.progress import Progress, of_batch
from iot_spark.sinks import State

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
