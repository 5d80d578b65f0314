"""Spark's classes as an archive: ``python -m jobs.archive`` makes it, ``session`` has Java map it into memory.

A driver reads, checks and links some 15,000 classes before it does anything, which is half of its start. Java keeps
those of a training run as they are in memory then (class data sharing). It takes them again if it is the same Java with
the same jars, and reads the jars otherwise.

The training run is each job once, over a few readings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from iot_spark import running
from iot_spark.progress import Progress
from iot_spark.session import ARCHIVE, end, java_options, session
from iot_spark.settings import Settings, settings_of
from iot_spark.sinks import TableSink
from pyspark.sql import SparkSession

from jobs import aggregate, alarm, clean

MASTER = "local[2]"
_JOBS = {"clean": clean.begin, "aggregate": aggregate.begin, "alarm": alarm.begin}
#: Any moment will do, in milliseconds.
_NOON = 1_790_000_000_000
_RULE = {"name": "hot", "match": {"tag": "t"}, "kind": "threshold", "above": 50, "command": {"target": "{gateway}"}}


def main() -> int:
    """Make it, or again. Nobody sees half of it."""
    # As `iot-mqtt pipeline` starts jobs: Java makes no archive where a folder, such as that of the machine's
    # configuration, is in its path.
    os.environ["SPARK_CONF_DIR"] = "/nonexistent"
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=ARCHIVE.parent, prefix="archive-") as folder:
        made = Path(folder) / ARCHIVE.name
        spark = session("archive", MASTER, {"spark.driver.defaultJavaOptions": " ".join(java_options(made=made))})
        train(spark, Path(folder))
        # Java writes the archive when it ends in order.
        end(spark)
        if not made.exists():
            sys.stderr.write("Java has made no archive\n")
            return 1
        made.replace(ARCHIVE)
    return 0


def train(spark: SparkSession, root: Path) -> None:
    """Every job, over what is below a folder."""
    folder = root / "uplink" / "iot.readings" / "dt=2026-09-21"
    folder.mkdir(parents=True)
    (folder / "1.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in _records()))
    settings = _settings(root)
    stop = running.Stop()
    for job, begin in _JOBS.items():
        sink = TableSink(spark, settings.tables, job, settings.checkpoint(job))
        sink.open()
        try:
            running.run(spark, settings, sink, begin, Progress(settings.status, job), stop, once=True)
        finally:
            sink.close()


def _settings(root: Path) -> Settings:
    return settings_of(
        {
            "source": {"kind": "files", "dir": str(root / "uplink")},
            "tables": str(root / "tables"),
            "checkpoints": str(root / "checkpoints"),
            "status": str(root / "status"),
            "master": MASTER,
            "rules": {"alarms": [_RULE]},
        }
    )


def _records() -> Iterator[dict[str, object]]:
    for number in range(100):
        came = _NOON + 1000 * number
        yield {
            "id": f"gw/press/{number}",
            "node": "node",
            "gateway": "gw",
            "device": "press",
            "ts": came,
            "ingest_ts": came,
            "seq": number,
            "values": {"t": number, "running": True},
            "codec": "gateway",
            "schema": 1,
        }
    yield {"no": "reading"}


if __name__ == "__main__":
    sys.exit(main())
