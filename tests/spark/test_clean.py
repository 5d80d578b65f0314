"""``clean``: what becomes of each kind of record, with the reasons; and each message once, whatever its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from iot_spark.cleaning import FOLD_AT, Cleaning, judged
from iot_spark.rules import clean_rules
from iot_spark.schema import CLEAN, INVALID
from iot_spark.sinks import TableSink
from iot_spark.sources import read_table
from iot_spark.transforms import clean, dedup
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.spark.records import NOON, line, reading, settings, wrapped

HOUR = 3_600_000
RULES = clean_rules(
    [
        {"match": {"gateway": "gw-1", "tag": "temp*"}, "unit": "°C", "min": -40, "max": 400},
        {"match": {"tag": "raw_?"}, "unit": "bar", "scale": 0.1, "offset": -1, "max": 9, "outside": "quality"},
        {"match": {"device": "press", "tag": "temp*"}, "unit": "never, the first one counts"},
    ]
)


def frame(spark: SparkSession, records: Sequence[Mapping[str, Any] | str]) -> DataFrame:
    """Records as a source gives them, a minute after noon."""
    rows = [(line(one), "iot.readings", NOON // 1000 + 60) for one in records]
    return spark.createDataFrame(rows, "raw string, topic string, at long").selectExpr(
        "raw", "topic", "timestamp_seconds(at) arrived"
    )


#: A record, and why it is a dead letter as a whole; None: it is not.
WHOLE: list[tuple[Mapping[str, Any] | str, str | None]] = [
    (reading(), None),
    (reading(seq=None, id="gw-1/press/5-5"), None),
    (reading(more="and a field nobody knows"), None),
    (wrapped({"t": 71.3}), None),
    (wrapped(71.3), None),
    (wrapped({"t": 1, "seq": 5, "ts": NOON - 1}), None),
    ("", "empty"),
    ("   ", "empty"),
    ("nope", "broken JSON"),
    (line(reading())[:-2], "broken JSON"),
    (line(reading()) + " {}", "broken JSON"),
    (line(reading()) + "," + line(reading(2)), "broken JSON"),
    ("[" + line(reading()) + "]", "a field has the wrong type"),
    ('{"id":"x","values":{"a":NaN}}', "broken JSON"),
    (reading(ts="now"), "a field has the wrong type"),
    (reading(ts=1.5), "a field has the wrong type"),
    (reading() | {"seq": "7"}, "a field has the wrong type"),
    (reading(values=[1]), "a field has the wrong type"),
    (reading(ts=10**19), "a field has the wrong type"),
    ({name: value for name, value in reading().items() if name != "id"}, "no id"),
    ({name: value for name, value in reading().items() if name != "gateway"}, "no gateway"),
    (reading(device=""), "no device"),
    (reading(ts=None), "no ts"),
    (reading(ingest_ts=None), "no ingest_ts"),
    (reading(ingest_ts=9 * 10**18), "ingest_ts out of range"),
    (reading(ts=1_790_000_000), "ts before 2000"),
    (reading(ts=-9 * 10**18), "ts before 2000"),
    (reading(ts=NOON + 5 + HOUR), None),
    (reading(ts=NOON + 6 + HOUR), "ts in the future"),
    (reading(ts=9 * 10**18), "ts in the future"),
    (reading(ts=NOON - 8760 * HOUR), None),
    (reading(values={}), "no values"),
    (reading(values=None), "no values"),
    (wrapped([1]), "payload is neither an object nor a value"),
    (wrapped(None), "payload is neither an object nor a value"),
    (wrapped({"seq": 1}), "no values"),
    ({**{n: v for n, v in wrapped(1).items() if n != "payload"}, "payload_b64": "/w=="}, "payload is not JSON"),
]


def test_each_record_is_good_or_has_its_reason(spark: SparkSession) -> None:
    """A table of records; nothing is left out and nothing stops the rest."""
    judged = clean.messages(frame(spark, [record for record, _ in WHOLE]), 3600)
    found = [(row.raw, row.problem) for row in judged.select("raw", "problem").collect()]
    assert found == [(line(record), problem) for record, problem in WHOLE]


#: A record, and what its tags become: (tag, value, text, quality, unit), or (tag, the reason).
TAGS: list[tuple[Mapping[str, Any], list[tuple[object, ...]]]] = [
    (
        reading(values={"temp": 21.5, "on": True, "off": False, "state": "12", "n": 3}, quality={"n": "uncertain"}),
        [
            ("temp", 21.5, None, "good", "°C"),
            ("on", 1.0, None, "good", None),
            ("off", 0.0, None, "good", None),
            ("state", None, "12", "good", None),
            ("n", 3.0, None, "uncertain", None),
        ],
    ),
    # One bad tag goes, the rest stays.
    (
        reading(values={"temp": 400.1, "temp_2": -40.1, "temp_3": 400, "x": None, "y": {"z": 1}, "z": [1]}),
        [
            ("temp", "value above max"),
            ("temp_2", "value below min"),
            ("temp_3", 400.0, None, "good", "°C"),
            ("x", "value is null"),
            ("y", "value is not a scalar"),
            ("z", "value is not a scalar"),
        ],
    ),
    # Scaled first, and only marked.
    (
        reading(values={"raw_1": 20, "raw_2": 101, "raw_33": 101, "raw_t": "open"}),
        [
            ("raw_1", 1.0, None, "good", "bar"),
            ("raw_2", 9.1, None, "out_of_range", "bar"),
            ("raw_33", 101.0, None, "good", None),
            ("raw_t", None, "open", "good", "bar"),
        ],
    ),
    # Of another gateway: the third rule.
    (reading(gateway="gw-2", values={"temp": 500}), [("temp", 500.0, None, "good", "never, the first one counts")]),
    (reading(values={"wide": 12345678901234567890}), [("wide", 12345678901234567890.0, None, "good", None)]),
    (wrapped({"t": 1.5, "seq": "5", "ts": "then"}), [
        ("t", 1.5, None, "good", None),
        ("seq", None, "5", "good", None),
        ("ts", None, "then", "good", None),
    ]),
    (wrapped({"t": 1.5, "seq": 5, "ts": NOON - 1}), [("t", 1.5, None, "good", None)]),
    (wrapped("open"), [("up/press-7/t", None, "open", "good", None)]),
]  # fmt: skip


#: A record, and whose it is. What looks like a reading of somebody else's is inside of the payload.
WHOSE: list[tuple[Mapping[str, Any], tuple[str, str]]] = [
    (reading(), ("gw-1", "press")),
    (wrapped({"t": 1}), ("$mqtt", "press-7")),
    (wrapped({"t": 1}, client="gw-1", topic="up/gw-1"), ("$mqtt", "gw-1")),
    (wrapped({"t": 1}, client="gw-1", topic="up/own/x"), ("$mqtt", "up/own/x")),
    (wrapped(reading(), client="gw-1", topic="up/own/x", user="bob"), ("$mqtt", "up/own/x")),
    (wrapped(reading(), client="press", topic="up/gw-1/press"), ("$mqtt", "up/gw-1/press")),
    (wrapped(1, client="t", topic="t"), ("$mqtt", "t")),
]


def test_nobody_speaks_for_another(spark: SparkSession) -> None:
    """A reading names its gateway and device; a client is none of these, whatever it is called and writes."""
    judged = clean.messages(frame(spark, [record for record, _ in WHOSE]), 3600)
    found = [(row.gateway, row.device) for row in judged.select("gateway", "device").collect()]
    assert found == [whose for _, whose in WHOSE]


def test_two_clients_of_one_topic_do_not_repeat_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """The same number of another client is another message."""
    bench = Bench(spark, tmp_path)
    twice = {"t": 1, "seq": 5}
    bench.take(0, *(wrapped(twice, id=f"s-{one}", client=one, topic="up/hall") for one in ("a", "b")))
    assert bench.ids() == ["s-a", "s-b"]
    bench.sink.close()


def test_each_tag_becomes_a_row_or_has_its_reason(spark: SparkSession) -> None:
    """Numbers, bools, texts, rules: judged tag by tag."""
    records = [{**record, "node": str(index)} for index, (record, _) in enumerate(TAGS)]
    valued = clean.values(clean.messages(frame(spark, records), 3600), RULES)
    found: list[list[tuple[object, ...]]] = [[] for _ in TAGS]
    for row in valued.collect():
        told: tuple[object, ...] = (row.tag, row.tag_problem)
        if row.tag_problem is None:
            told = (row.tag, None if row.value is None else round(row.value, 9), row.text, row.quality, row.unit)
        found[int(row.node)].append(told)
    # Of a payload, a VARIANT keeps its keys in their order.
    assert [sorted(one, key=str) for one in found] == [sorted(one, key=str) for _, one in TAGS]
    assert clean.good(valued).schema.names == CLEAN.names and clean.bad(valued).schema.names == INVALID.names


class Bench:
    """``clean`` without a stream: batches are handed in, with the checkpoint that Spark would have written."""

    def __init__(self, spark: SparkSession, root: Path, run: str = "11111111") -> None:
        self.spark = spark
        self.settings = settings(root)
        checkpoint = self.settings.checkpoint("clean")
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(f'{{"id":"{run}-2222-3333"}}')
        self._offsets = checkpoint / "offsets"
        self.sink = TableSink(spark, self.settings.tables, "clean", checkpoint)
        self.sink.open(patience=0)
        self.cleaning = Cleaning(spark, self.settings, self.sink)

    def take(self, number: int, *records: Mapping[str, Any] | str) -> None:
        (self._offsets / str(number)).write_text(f"v1\n{records!r}")
        self.cleaning(judged(frame(self.spark, records), self.settings), number)

    def rows(self, name: str = "clean") -> list[Row]:
        return read_table(self.spark, self.settings.tables, name, CLEAN if name == "clean" else INVALID).collect()

    def ids(self) -> list[str]:
        return sorted(row.id for row in self.rows())


def test_a_message_is_written_once_whatever_the_order(spark: SparkSession, tmp_path: Path) -> None:
    """Within a batch, over batches, late, read again by a new run; and nothing late is lost."""
    bench = Bench(spark, tmp_path)
    bench.take(0, reading(1), reading(1, ingest_ts=NOON + 900), reading(2), "nope", "nope")
    assert bench.ids() == ["gw-1/press/1", "gw-1/press/2"]
    # The same again; another gateway, another device, no number but an id; a device's clock that is hours behind.
    bench.take(
        1,
        reading(2, ingest_ts=NOON + HOUR // 2),
        reading(2, gateway="gw-2", id="a"),
        reading(2, device="mill", id="b"),
        reading(None, id="c"),
        reading(None, id="c"),
        reading(3, ts=NOON - 30 * HOUR, ingest_ts=NOON - 10),
    )
    expected = ["a", "b", "c", "gw-1/press/1", "gw-1/press/2", "gw-1/press/3"]
    assert bench.ids() == expected
    # A spool that drains now: it came three hours before, and was never seen; of another, half was.
    bench.take(2, reading(9, ts=NOON - 3 * HOUR, ingest_ts=NOON - 3 * HOUR), reading(1), reading(None, id="c"), "nope")
    assert bench.ids() == sorted([*expected, "gw-1/press/9"])
    # Two hours later the number may begin again.
    bench.take(3, reading(1, id="next life", ts=NOON + 2 * HOUR, ingest_ts=NOON + 2 * HOUR))
    assert bench.ids() == sorted([*expected, "gw-1/press/9", "next life"])
    totals = dict(bench.sink.state.totals)
    assert totals["in"] == totals["valid"] + totals["dead"] + totals["duplicate"] == 16
    assert totals["out"] == 8 and totals["invalid"] == 1 and totals["late"] == 1
    assert [row.reason for row in bench.rows("invalid")] == ["broken JSON"]
    # The checkpoint is removed and everything is read again: each row is known.
    bench.sink.close()
    again = Bench(spark, tmp_path, run="99999999")
    again.take(0, reading(1), reading(2), reading(9, ts=NOON - 3 * HOUR, ingest_ts=NOON - 3 * HOUR), reading(4), "nope")
    assert again.ids() == sorted([*expected, "gw-1/press/9", "gw-1/press/4", "next life"])
    assert len(again.rows("invalid")) == 1
    again.sink.close()


def test_a_dead_letter_does_not_take_the_number_of_a_good_message(spark: SparkSession, tmp_path: Path) -> None:
    """A device that sends it again with its clock put right is heard."""
    bench = Bench(spark, tmp_path)
    bench.take(0, reading(1, ts=1000), reading(1))
    assert bench.ids() == ["gw-1/press/1"]
    assert [row.reason for row in bench.rows("invalid")] == ["ts before 2000"]
    bench.sink.close()


def test_keys_that_share_a_hash_are_told_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key gets the same hash here, and still nothing is taken for something else."""
    monkeypatch.setattr(F, "xxhash64", lambda *_: F.lit(7).cast("bigint"))
    bench = Bench(spark, tmp_path)
    bench.take(0, reading(1), reading(2), reading(2))
    bench.take(1, reading(2), reading(3), wrapped({"t": 1}))
    assert bench.ids() == ["0.9f-1", "gw-1/press/1", "gw-1/press/2", "gw-1/press/3"]
    bench.sink.close()


def test_keys_in_many_files_are_folded_and_still_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a batch opens stays few."""
    assert FOLD_AT > 1
    monkeypatch.setattr("iot_spark.cleaning.FOLD_AT", 2)
    bench = Bench(spark, tmp_path)
    for number in range(3):
        bench.take(number, reading(number), reading(max(0, number - 1)))
    hour = tmp_path / "tables" / "keys" / f"hour={NOON // HOUR}"
    assert sorted(path.name.split("=")[0] for path in hour.iterdir()) == ["batch", "version"]
    bench.take(3, reading(0), reading(1), reading(2))
    assert bench.ids() == [f"gw-1/press/{number}" for number in range(3)]
    bench.sink.close()


def test_the_hours_around_a_batch_are_those_within_the_watermark() -> None:
    """An hour before and after, for sixty minutes."""
    assert dedup.near([100], 60) == {99, 100, 101} == dedup.near([100], 1)
    assert len(dedup.near([100], 61)) == 5
    assert len(dedup.near([100, 101], 1)) == 4
