"""Which files a report reads, held against what the jobs themselves read: the rule is said in both places."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iot_mqtt.app.pipeline.report.files import files_of

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

sources = pytest.importorskip("iot_spark.sources")

RUNS = ("aaaaaaaa", "bbbbbbbb")
DAYS = ("2026-11-20", "2026-11-21")
NUMBERS = st.integers(0, 3)
#: Query, run and number.
Batch = tuple[str, str, int]
BATCHES = st.tuples(st.sampled_from(["clean", "alarm", "with-dash"]), st.sampled_from(RUNS), NUMBERS)


def named(batch: Batch) -> str:
    query, run, number = batch
    return f"batch={query}-{run}-{number:012d}"


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").touch()


def build(
    tables: Path,
    shown: dict[str, tuple[str, int]],
    batches: Iterable[tuple[str, Batch]],
    versions: Iterable[tuple[str, int]],
    held: Iterable[Batch],
) -> None:
    """Tables as jobs may leave them at any moment."""
    (tables / ".state").mkdir()
    for query, (run, number) in shown.items():
        said = {"run": run, "batch": number, "totals": {}, "offsets": ""}
        (tables / ".state" / f"{query}.json").write_text(json.dumps(said))
    for day, batch in batches:
        put(tables / "clean" / f"dt={day}" / named(batch))
    for day, number in versions:
        folder = tables / "daily" / f"dt={day}" / f"version={number:012d}"
        put(folder)
        (folder / "_holds.json").write_text(json.dumps({"batches": [named(batch) for batch in held]}))


@settings(deadline=None)
@given(
    shown=st.dictionaries(
        st.sampled_from(["clean", "alarm"]), st.tuples(st.sampled_from(RUNS), st.integers(-1, 3)), max_size=2
    ),
    batches=st.sets(st.tuples(st.sampled_from(DAYS), BATCHES), max_size=8),
    versions=st.sets(st.tuples(st.sampled_from(DAYS), NUMBERS), max_size=3),
    held=st.sets(BATCHES, max_size=3),
    first=st.sampled_from(["", *DAYS]),
)
def test_a_report_reads_what_the_jobs_read(
    shown: dict[str, tuple[str, int]],
    batches: set[tuple[str, Batch]],
    versions: set[tuple[str, int]],
    held: set[Batch],
    first: str,
) -> None:
    """Whatever was shown, folded or is half done."""
    with TemporaryDirectory() as folder:
        tables = Path(folder)
        build(tables, shown, batches, versions, held)
        since = date.fromisoformat(first) if first else date.min
        read = [path.parent for path in files_of(tables, "clean", since, date.max)]
        assert read == sources.table_paths(tables, "clean", first)
