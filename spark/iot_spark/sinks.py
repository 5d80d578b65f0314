"""Batches of a query written to tables exactly once, whatever is killed when; and sent to Kafka at least once.

::

    write        tables/.staging/<batch>.<attempt>.writing/<table>/dt=…        may be half; nobody looks
    decide       … renamed to tables/.staging/<batch>.ready                    from here on it is this and nothing else
    send         to Kafka, from what was decided; what it refuses joins the table ``invalid`` of the batch
    sent         _sent.json is there, with what was refused: nothing is sent again
    move         tables/<table>/dt=…/batch=<batch>                             each by a rename
    show         tables/.state/<query>.json says <batch>                       readers take it from here on; with totals
    clear        .ready is removed

A driver that begins again is told a batch again that it had not finished for Spark. If it was shown, it is passed over;
if it was decided, the steps after that are done again; else it is written again. A batch is named by the query, the
*run* (one life of its checkpoint) and Spark's number. If the checkpoint is removed while the tables stay, the new run
goes on beside the old one; it is for the job to know again what it reads again (``clean`` does: see
``transforms.clean``).

The tables lie in a directory that the driver and all executors see, local or shared.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from iot_spark.folding import BATCH

STAGING = ".staging"
STATE = ".state"
READY = ".ready"
WRITING = ".writing"
TOTALS = "_decided.json"
SENT = "_sent.json"
#: The table of dead letters, and the files in a batch of it that hold what Kafka has refused.
LETTERS = "invalid"
REFUSED = "refused-"
#: Names that are counted one by one, such as devices; all others together are ``OTHERS``.
MOST_NAMES = 100
OTHERS = "(others)"
#: Another driver of the same job may be about to end.
LOCK_SECONDS = 20.0


class Taken(Exception):
    """Another process runs this job."""


class SetBack(Exception):
    """The checkpoint is older than the tables, so its numbers mean other records than those that were written."""


class State(NamedTuple):
    """What a query has shown."""

    run: str
    #: Spark's number of its last batch; -1: none yet.
    batch: int
    totals: Mapping[str, int]
    #: What Spark says of the records of that batch, digested.
    offsets: str = ""
    #: Totals by name: of devices (``duplicate``, ``commands_too_late``), reasons (``invalid``), rules (``raised``).
    named: Mapping[str, Mapping[str, int]] = {}


#: Of one batch, and totals.
Named = Mapping[str, Mapping[str, int]]
#: Sends rows, and gives back those that were refused for good, as dead letters.
Out = Callable[[DataFrame], DataFrame | None]


def states(tables: Path) -> dict[str, State]:
    """Of all queries, by name. Read it before listing a table, then ask ``is_visible``."""
    found = {}
    for path in (tables / STATE).glob("*.json"):
        said = json.loads(path.read_text())
        found[path.stem] = State(said["run"], said["batch"], said["totals"], said["offsets"], said.get("named", {}))
    return found


def is_visible(name: str, known: Mapping[str, State]) -> bool:
    """Whether ``batch=<query>-<run>-<number>`` is whole; anything else is."""
    if not name.startswith(BATCH):
        return True
    query, run, number = name.removeprefix(BATCH).rsplit("-", 2)
    state = known.get(query)
    # A table that came without its state is as it was when it was copied.
    if state is None:
        return True
    # Of an earlier run, everything was finished before this one began.
    return state.run != run or int(number) <= state.batch


class TableSink:
    """Where one query writes. One process at a time: ``open`` takes a lock that ends with the process."""

    def __init__(self, spark: SparkSession, tables: Path, query: str, checkpoint: Path) -> None:
        self._spark = spark
        self.tables = tables
        self.query = query
        self._checkpoint = checkpoint
        self._lock: int | None = None
        self.state = State("", -1, {})

    def open(self, patience: float = LOCK_SECONDS) -> None:
        """Begin: take the lock, finish what an earlier process had decided for good. Before the query starts."""
        (self.tables / STAGING).mkdir(parents=True, exist_ok=True)
        (self.tables / STATE).mkdir(parents=True, exist_ok=True)
        self._take_lock(patience)
        self.state = states(self.tables).get(self.query, self.state)

    def close(self) -> None:
        """Let another process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self, patience: float) -> None:
        lock = os.open(self.tables / STATE / f"{self.query}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    os.close(lock)
                    raise Taken(f"another process runs {self.query!r} on {self.tables}; end that one first") from None
                time.sleep(0.2)  # noqa: TID251 - a process waits for another to end; there is no clock to pass
            else:
                self._lock = lock
                return

    def batch(self, number: int) -> Batch:
        """What Spark's batch of this number writes; use it with ``with``."""
        run = self._run()
        offsets = self._offsets(number)
        if number < self.state.batch or (number == self.state.batch and offsets != self.state.offsets):
            raise SetBack(
                f"{self._checkpoint} is older than {self.tables}: batch {number} begins, {self.state.batch} was "
                "written already. Remove the checkpoint to begin anew, or put the right one back."
            )
        return Batch(self, run, number, offsets)

    def _offsets(self, number: int) -> str:
        """Which records Spark has planned for a batch: the same when it is run again."""
        return hashlib.sha256((self._checkpoint / "offsets" / str(number)).read_bytes()).hexdigest()[:16]

    def _run(self) -> str:
        """The life of the checkpoint. A new one shows itself before it has written anything."""
        said = json.loads((self._checkpoint / "metadata").read_text().splitlines()[0])
        run = said["id"].replace("-", "")[:8]
        if run != self.state.run:
            self._finish_earlier(run)
            self.show(State(run, -1, self.state.totals, named=self.state.named))
        return str(run)

    def _finish_earlier(self, run: str) -> None:
        """A run that is over had perhaps decided a batch; it counts, or nobody could tell what of it was sent."""
        for ready in self.tables.joinpath(STAGING).glob(f"{self.query}-*{READY}"):
            name = ready.name.removesuffix(READY)
            if name.rsplit("-", 2)[1] != run:
                number = int(name.rsplit("-", 1)[1])
                move(ready, self.tables, name)
                self.show(_decided(ready, name.rsplit("-", 2)[1], number))
                shutil.rmtree(ready)

    def show(self, state: State) -> None:
        """Let readers see it."""
        replace_json(self.tables / STATE / f"{self.query}.json", state._asdict())
        self.state = state


class Batch:
    """One batch. Leaving the ``with`` without an error makes it visible; with one, nothing of it is.

    ``is_done``: it was finished by an earlier life; there is nothing to do. ``is_decided``: ``table`` does nothing, and
    what is sent comes from what an earlier life wrote.
    """

    def __init__(self, sink: TableSink, run: str, number: int, offsets: str) -> None:
        self._sink = sink
        self._offsets = offsets
        self._number = number
        self._run = run
        self.name = f"{sink.query}-{run}-{number:012d}"
        staging = sink.tables / STAGING
        self._ready = staging / f"{self.name}{READY}"
        self._writing = staging / f"{self.name}.{uuid4().hex[:8]}{WRITING}"
        self.is_done = number <= sink.state.batch
        self.is_decided = self._ready.exists()
        self._counts: dict[str, int] = {}
        self._named: dict[str, dict[str, int]] = {}
        self._sends: list[tuple[str, Out]] = []

    def __enter__(self) -> Self:
        staging = self._sink.tables / STAGING
        for left in staging.glob(f"{self._sink.query}-*{WRITING}"):
            shutil.rmtree(left, ignore_errors=True)
        if self.is_done:
            shutil.rmtree(self._ready, ignore_errors=True)
        elif not self.is_decided:
            self._writing.mkdir(parents=True)
        return self

    def table(self, name: str, rows: DataFrame, by: str = "dt") -> None:
        """Rows of a table; ``by`` is the column that names the directory."""
        if not (self.is_done or self.is_decided):
            rows.write.mode("overwrite").partitionBy(by).parquet(str(self._writing / name))

    def count(self, **counts: int) -> None:
        """Added to the query's totals when the batch is shown."""
        for name, more in counts.items():
            self._counts[name] = self._counts.get(name, 0) + more

    def count_named(self, what: str, names: Mapping[str, int]) -> None:
        """Added to the query's totals by name when the batch is shown."""
        self._named[what] = added(self._named.get(what, {}), names)

    def written(self, name: str) -> DataFrame:
        """The rows of a table that this batch has written, to be looked at."""
        return self._sink._spark.read.parquet(str(self._writing / name))

    def send(self, name: str, out: Out) -> None:
        """When the batch is decided, call ``out`` with its rows of a table, as they were written. At least once.

        Those that it gives back join the batch's dead letters; a table that is sent later has them.
        """
        self._sends.append((name, out))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_done:
            return
        if kind is not None:
            shutil.rmtree(self._writing, ignore_errors=True)
            return
        if not self.is_decided:
            self._decide()
        if self._sends and not (self._ready / SENT).exists():
            self._send()
        move(self._ready, self._sink.tables, self.name)
        self._sink.show(_decided(self._ready, self._run, self._number))
        shutil.rmtree(self._ready, ignore_errors=True)

    def _decide(self) -> None:
        state = self._sink.state
        decided = {
            "totals": added(state.totals, self._counts),
            "offsets": self._offsets,
            "named": added_named(state.named, self._named),
        }
        (self._writing / TOTALS).write_text(json.dumps(decided))
        self._writing.rename(self._ready)

    def _send(self) -> None:
        # An earlier life may have come as far as here, and not to the end.
        for left in self._ready.glob(f"{LETTERS}/*/{REFUSED}*"):
            left.unlink()
        refused: Counter[str] = Counter()
        for index, (name, out) in enumerate(self._sends):
            written = sorted(str(path) for path in (self._ready / name).rglob("*.parquet"))
            letters = out(self._read(name)) if written else None
            if letters is not None:
                refused += self._keep_refused(letters, f"{REFUSED}{index}")
        count = refused.total()
        replace_json(
            self._ready / SENT,
            {"totals": {"refused": count, "invalid": count} if count else {}, "named": {"invalid": refused}},
        )

    def _read(self, name: str) -> DataFrame:
        return self._sink._spark.read.parquet(str(self._ready / name))

    def _keep_refused(self, letters: DataFrame, prefix: str) -> Counter[str]:
        """Put rows into the decided batch, under names that are the same when it is done again. How many, by reason."""
        beside = self._writing.with_name(f"{self.name}.{uuid4().hex[:8]}{WRITING}")
        letters.coalesce(1).write.partitionBy("dt").parquet(str(beside))
        files = sorted(beside.glob("dt=*/*.parquet"))
        counts: Counter[str] = Counter()
        if files:
            rows = self._sink._spark.read.parquet(str(beside)).groupBy("reason").count().collect()
            counts.update({row["reason"]: row["count"] for row in rows})
        for number, file in enumerate(files):
            day = self._ready / LETTERS / file.parent.name
            day.mkdir(parents=True, exist_ok=True)
            file.rename(day / f"{prefix}-{number}.parquet")
        shutil.rmtree(beside, ignore_errors=True)
        return counts


def move(ready: Path, tables: Path, name: str) -> None:
    """Give each directory of a decided batch its place; those that have it already are not there any more."""
    for part in sorted(ready.glob("*/*=*")):
        target = tables / part.parent.name / part.name / f"{BATCH}{name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        part.rename(target)


def _decided(ready: Path, run: str, number: int) -> State:
    found = json.loads((ready / TOTALS).read_text())
    sent = json.loads((ready / SENT).read_text()) if (ready / SENT).exists() else {"totals": {}, "named": {}}
    totals, named = added(found["totals"], sent["totals"]), added_named(found.get("named", {}), sent["named"])
    return State(run, number, totals, found["offsets"], named)


def added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Both together."""
    return {name: counts.get(name, 0) + more.get(name, 0) for name in dict.fromkeys([*counts, *more])}


def added_named(counts: Named, more: Named) -> dict[str, dict[str, int]]:
    """Both together, bounded."""
    names = dict.fromkeys([*counts, *more])
    return {name: _bounded(added(counts.get(name, {}), more.get(name, {}))) for name in names}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """The largest by their names, the others as one."""
    if len(counts) <= MOST_NAMES:
        return dict(counts)
    kept = sorted((one for one in counts if one != OTHERS), key=lambda name: (-counts[name], name))[: MOST_NAMES - 1]
    found = {name: counts[name] for name in kept}
    return found | {OTHERS: sum(counts.values()) - sum(found.values())}


def replace_json(path: Path, value: object) -> None:
    """Write a file whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.write_text(json.dumps(value))
    written.replace(path)
