"""How a job runs: the same for all that are a stream.

    spark-submit … spark/jobs/clean.py --settings settings.json [--once]

``--once`` takes what is there and ends. SIGTERM and SIGINT let the batch that runs finish. Exit codes: 0 done, or
told to end; 1 the query failed; 2 the settings or rules are wrong; 3 another process runs this job. What keeps it from
going on is its last line on standard error, and ``error`` of its status: the innermost cause, in a sentence. One that
ends in order says what it has done.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from iot_spark.causes import FAILURES, root_cause
from iot_spark.kafka_admin import TopicMissing
from iot_spark.progress import Progress
from iot_spark.rules import BadRule
from iot_spark.session import connector, session
from iot_spark.settings import BadSettings, Settings, load
from iot_spark.sinks import TableSink, Taken
from iot_spark.source_topics import TopicReplaced

DONE, FAILED, WRONG, TAKEN = 0, 1, 2, 3
#: Seconds between two looks at a query.
LOOK = 1
#: A batch that runs when the job is told to end may take this long to finish.
GRACE_SECONDS = 60.0
#: What ``foreachBatch`` calls.
OnBatch = Callable[[DataFrame, int], None]
#: From a session, settings and the sink: the stream that is read, and what takes its batches.
Begin = Callable[[SparkSession, Settings, TableSink], tuple[DataFrame, OnBatch]]


def main(job: str, begin: Begin, arguments: Sequence[str] | None = None) -> int:
    """Run a job as a program."""
    options = _parser(job).parse_args(arguments)
    try:
        settings = load(options.settings)
    except BadSettings as error:
        return _say(job, error, WRONG)
    progress = Progress(settings.status, job)
    stop = Stop()
    jars = connector() if settings.source.kind == "kafka" else []
    try:
        spark = session(f"iot-mqtt {job}", settings.master, jars=jars)
    except FAILURES as error:
        return fail(job, progress, root_cause(error), error)
    sink = TableSink(spark, settings.tables, job, settings.checkpoint(job))
    try:
        sink.open()
        progress.write()
        before = dict(sink.state.totals)
        run(spark, settings, sink, begin, progress, stop, once=options.once)
    except Taken as error:
        # The status file belongs to the other one.
        return _say(job, error, TAKEN)
    except (BadRule, BadSettings) as error:
        progress.write(running=False, error=str(error))
        return _say(job, error, WRONG)
    except (*FAILURES, OSError, TopicMissing, TopicReplaced) as error:
        return fail(job, progress, root_cause(stop.error or error), error)
    except Exception as error:
        progress.write(running=False, error=_explained(root_cause(error), error))
        raise
    else:
        progress.write(running=False)
        sys.stdout.write(f"{job}: {summary(job, before, sink.state.totals)}\n")
        return DONE
    finally:
        sink.close()
        spark.stop()


def _parser(job: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=job, description=f"The job {job!r} of the pipeline.")
    parser.add_argument("--settings", type=Path, required=True, help="made by: iot-mqtt pipeline settings")
    parser.add_argument("--once", action="store_true", help="take what is there and end")
    return parser


def _say(job: str, error: Exception, code: int) -> int:
    sys.stderr.write(f"{job}: {error}\n")
    return code


def fail(job: str, progress: Progress, why: str, error: Exception) -> int:
    """Say why the job ends: as its last line, and in its status."""
    progress.write(running=False, error=_explained(why, error))
    sys.stderr.write(f"{_first(error)}\n{job}: {why}\n")
    return FAILED


def _explained(why: str, error: Exception) -> str:
    """The cause first, alone on its line."""
    return f"{why}\n{_first(error)}"


#: Totals as a person reads them; others are told by their names.
_WORDS = {"in": "read", "out": "written"}
#: What a job tells of even if there was none.
_ALWAYS: Mapping[str, Sequence[str]] = {"clean": ("in", "out", "invalid", "duplicate", "late")}


def summary(job: str, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """What was done from one state of the totals to another."""
    told = dict.fromkeys([*_ALWAYS.get(job, ()), *after])
    counts = {name: after.get(name, 0) - before.get(name, 0) for name in told}
    return ", ".join(f"{_WORDS.get(name, name)} {count}" for name, count in counts.items()) or "there was nothing to do"


def _first(error: Exception) -> str:
    """An error of Spark without the pages that follow it."""
    text = str(error)
    return text if len(text) <= 2000 else text[:2000] + " …"


class Stop:
    """That somebody has asked for the end, and whether a batch runs."""

    def __init__(self) -> None:
        self.asked = False
        self.in_batch = False
        #: What a batch has failed with, as it was raised.
        self.error: Exception | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def watching(self, call: OnBatch) -> OnBatch:
        """The same call, which says that it runs; none begins when the end was asked for."""

        def watched(frame: DataFrame, number: int) -> None:
            while self.asked:
                # The query is about to be stopped, which interrupts this; the batch comes again next time.
                time.sleep(LOOK)  # noqa: TID251 - a thread of Spark's waits for its end
            self.in_batch = True
            try:
                call(frame, number)
            except Exception as error:
                self.error = error
                raise
            finally:
                self.in_batch = False

        return watched


def run(
    spark: SparkSession,
    settings: Settings,
    sink: TableSink,
    begin: Begin,
    progress: Progress,
    stop: Stop,
    *,
    once: bool,
) -> None:
    """Run the query until it has ended, or the end was asked for."""
    frame, on_batch = begin(spark, settings, sink)
    writer = (
        frame.writeStream.queryName(sink.query)
        .option("checkpointLocation", str(settings.checkpoint(sink.query)))
        .foreachBatch(stop.watching(on_batch))
    )
    query = _triggered(writer, settings, once=once).start()
    try:
        while not stop.asked and not query.awaitTermination(LOOK):
            progress.look(_last(query), sink.state)
        _let_finish(query, stop)
    finally:
        query.stop()
        progress.look(_last(query), sink.state)


def _triggered(writer: DataStreamWriter, settings: Settings, *, once: bool) -> DataStreamWriter:
    if once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{int(settings.trigger_seconds * 1000)} milliseconds")


def _let_finish(query: StreamingQuery, stop: Stop) -> None:
    until = time.monotonic() + GRACE_SECONDS
    while query.isActive and stop.in_batch and time.monotonic() < until:
        query.awaitTermination(LOOK)


def _last(query: StreamingQuery) -> dict[str, object] | None:
    found = query.lastProgress
    return None if found is None else dict(found)
