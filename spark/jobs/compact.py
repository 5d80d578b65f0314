"""Days of ``clean`` made into few sorted files: ``compact.py --settings FILE [--older-than-days 1]``.

It takes what is there and ends; run it once a day, beside the others. Exit codes as the other jobs have.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from iot_spark.causes import FAILURES, root_cause
from iot_spark.folding import Lost
from iot_spark.progress import Progress
from iot_spark.running import DONE, TAKEN, WRONG, fail
from iot_spark.session import session
from iot_spark.settings import BadSettings, load
from iot_spark.sinks import TableSink, Taken
from iot_spark.transforms.compact import Which, compact

JOB = "compact"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a program."""
    options = _parser().parse_args(arguments)
    try:
        settings = load(options.settings)
    except BadSettings as error:
        return _say(error, WRONG)
    progress = Progress(settings.status, JOB)
    try:
        spark = session("iot-mqtt compact", settings.master)
    except FAILURES as error:
        return fail(JOB, progress, root_cause(error), error)
    sink = TableSink(spark, settings.tables, JOB, settings.checkpoint(JOB))
    now = time.time()
    which = Which(datetime.fromtimestamp(now, UTC).date(), options.older_than_days, now - 60 * options.settled_minutes)
    try:
        sink.open()
        progress.write()
        done = compact(spark, settings.tables, which)
        progress.write(running=False, totals={"days": len(done), "rows": sum(done.values())})
        sys.stdout.write(f"{JOB}: days {len(done)}, rows {sum(done.values())}\n")
    except Taken as error:
        return _say(error, TAKEN)
    except (*FAILURES, OSError, Lost) as error:
        return fail(JOB, progress, root_cause(error), error)
    finally:
        sink.close()
        spark.stop()
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=JOB, description="Days of the table clean made into few files.")
    parser.add_argument("--settings", type=Path, required=True, help="made by: iot-mqtt pipeline settings")
    parser.add_argument("--once", action="store_true", help="it always ends; taken as other jobs take it")
    parser.add_argument("--older-than-days", type=int, default=1, help="1 (the default): all days before today (UTC)")
    parser.add_argument(
        "--settled-minutes", type=float, default=60.0, help="younger batches stay: other jobs may have to read them"
    )
    return parser


def _say(error: Exception, code: int) -> int:
    sys.stderr.write(f"{JOB}: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
