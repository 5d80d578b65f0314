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
    # A name twice: nobody knows which of the values was meant.
    *(
        (line(wrapped(None)).replace("null", payload), reason)
        for payload, reason in (
            ('{"t": 1, "t": 2}', "a name twice"),
            ('{"t": 1, "\\u0074": 1}', "a name twice"),
            ('{"t": {"a": 1, "a": 2}}', "a name twice"),
            ('{"t": 1, "seq": 1, "seq": 2}', "a name twice"),
            ('{"t": 1, "t": 2', "broken JSON"),
            ('{"t": 1, "t": NaN}', "broken JSON"),
            ('{"t": 1, "T": 2}', None),
        )
    ),
    (line(reading(values={"temp": 1})).replace('{"temp": 1}', '{"temp": 1, "temp": 1}'), "a name twice"),
    (line(reading(values={"temp": 1})).replace("1}", '{"a": 1, "a": 2}}'), "a name twice"),
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
    # Times and numbers of a client's own JSON: what means one thing is taken, what may mean several is told.
    *((wrapped({"t": 1, "ts": ts}), None) for ts in (None, NOON, float(NOON), str(NOON), "2026-09-21T13:33:20Z")),
    *((wrapped({"t": 1, "seq": seq}), None) for seq in (None, 0, -1, "5", " 007 ", 5.0, 2**63 - 1)),
    (wrapped({"t": 1, "ts": "2026-09-21T13:33:20"}), "ts has no time zone"),
    (wrapped({"t": 1, "ts": "2026-09-21"}), "ts has no time zone"),
    *(
        (wrapped({"t": 1, "ts": ts}), "ts is not a time")
        for ts in ("then", "", True, {"at": 1}, [NOON], "2026-13-21T13:33:20Z", "2026-09-21T13:33:20+99:00", "13:33Z")
    ),
    (wrapped({"t": 1, "ts": "1790000000"}), "ts before 2000"),
    (wrapped({"t": 1, "ts": "2126-09-21T13:33:20Z"}), "ts in the future"),
    *(
        (wrapped({"t": 1, "seq": seq}), "seq is not a whole number")
        for seq in ("five", "", "5.5", 5.5, False, [5], {"n": 5}, 2**63, 1e300)
    ),
    (wrapped([1]), "payload is neither an object nor a value"),
    # Half a character: the engine would make it a question mark, and of two names one.
    *(
        (line(wrapped(None)).replace("null", payload), "half a character")
        for payload in (
            '{"t": "\\ud83d"}',
            '{"t": "a\\uDC00b"}',
            '{"t": "\\udc00\\ud83d"}',
            '{"t": "\\ud83d\\ud83d\\ude00"}',
            '{"t": "\\\\\\ud83d"}',
            '{"t": "\\\\ud83d\\udc00"}',
            '{"\\ud83d": 1, "\\ud83e": 2}',
            '"\\ud83d"',
        )
    ),
    *(
        (line(wrapped(None)).replace("null", payload), None)
        for payload in (
            '{"t": "\\ud83d\\ude00"}',
            '{"t": "\\\\ud83d"}',
            '{"t": "\\\\\\ud83d\\ude00"}',
            '{"t": "\\ud83d\\ude00\\uD83D\\uDE00"}',
            '{"t": "\\u00e9\\ud7ff\\ue000"}',
        )
    ),
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
    # Whole numbers that ``value`` may not hold: the digits are beside it.
    (
        reading(
            values={
                "last": 2**53,
                "first": 2**53 + 1,
                "least": -(2**53) - 1,
                "u64": 2**64 - 1,
                "n": 2**60,
                "raw_1": 2**60,
                "tenth": 0.1,
                "large": 1e300,
            },
            quality={"n": "uncertain", "u64": "good"},
        ),
        [
            ("last", 2.0**53, None, "good", None),
            ("first", 2.0**53, "9007199254740993", "rounded", None),
            ("least", -(2.0**53), "-9007199254740993", "rounded", None),
            ("u64", 2.0**64, "18446744073709551615", "rounded", None),
            ("n", 2.0**60, "1152921504606846976", "uncertain", None),
            ("raw_1", 0.1 * 2.0**60 - 1, "1152921504606846976", "out_of_range", "bar"),
            ("tenth", 0.1, None, "good", None),
            ("large", 1e300, None, "good", None),
        ],
    ),
    (wrapped({"t": 1.5, "seq": "5", "ts": "2026-09-21T13:33:20Z"}), [("t", 1.5, None, "good", None)]),
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


def test_a_row_is_known_by_its_record_and_tag(spark: SparkSession) -> None:
    """Readings of one frame share number, id and perhaps time; what older nodes sent has no record but its id."""
    values = {"temp": 1, "hum": 2}
    records = [
        reading(values=values, record="0.9f-1"),
        reading(values=values | {"hum": 3}, record="0.9f-2"),
        wrapped(values, id="0.9f-3"),
        reading(values=values, id="gw-1/press/9"),
    ]
    rows = clean.good(clean.values(clean.messages(frame(spark, records), 3600), [])).collect()
    told = sorted((row.record, row.tag) for row in rows)
    assert told == sorted((of, tag) for of in ("0.9f-1", "0.9f-2", "0.9f-3", "gw-1/press/9") for tag in values)


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
    assert clean.good(valued).schema.names == CLEAN.names


def test_tags_of_one_message_are_one_dead_letter(spark: SparkSession) -> None:
    """With the same reasons as each of them has, and the message once."""
    records = [{**record, "id": str(index)} for index, (record, _) in enumerate(TAGS)]
    judged = clean.messages(frame(spark, records), 3600)
    letters = clean.bad(judged, RULES)
    assert letters.schema.names == INVALID.names
    [(found)] = letters.collect()
    expected = {(told[0], told[1]) for told in TAGS[1][1] if len(told) == 2}
    assert {(one.tag, one.reason) for one in found.problems} == expected and found.tags == len(expected) == 5
    assert found.raw == line(records[1]) and found.tag == found.problems[0].tag
    assert found.reason == "value above max; value below min; value is not a scalar; value is null"


def test_a_message_of_nulls_does_not_become_thousands_of_itself(spark: SparkSession, tmp_path: Path) -> None:
    """44 kB with 3,000 null tags: one letter that is hardly larger, in the table and on its way to Kafka."""
    bench = Bench(spark, tmp_path)
    nulls = wrapped({"seq": 1} | {f"channel_{number:04d}": None for number in range(3000)})
    long = wrapped({"x" * 5000 + str(number): None for number in range(200)}, id="0.9f-2")
    bench.take(0, nulls, long, wrapped({"t": 1, "u": None}, id="0.9f-3"))
    few, many, names = sorted(bench.rows("invalid"), key=lambda row: len(row.raw))
    assert many.raw == line(nulls) and many.tags == 3000 and len(many.problems) == clean.MOST_TAGS
    assert (few.tags, few.reason, few.tag) == (1, "value is null", "u")
    assert names.tags == 200 and sum(len(one.tag) for one in names.problems) == clean.MOST_TAGS * clean.LONGEST_TAG
    size = sum(path.stat().st_size for path in (tmp_path / "tables" / "invalid").rglob("*.parquet"))
    assert size < 2 * len(line(nulls)) + 2 * len(line(long))
    totals = bench.sink.state.totals
    assert (totals["invalid"], totals["invalid_tags"], totals["valid"], totals["dead"]) == (3, 3201, 3, 0)
    assert bench.sink.state.named["invalid"] == {"value is null": 3}
    bench.sink.close()


#: A time as a client may write it, and what it is in milliseconds.
TIMES = [
    (NOON, NOON),
    (f" {NOON} ", NOON),
    (f"{NOON}.9", NOON),
    (NOON + 0.25, NOON),
    ("2026-09-21T14:13:20Z", NOON),
    ("2026-09-21 14:13:20.000Z", NOON),
    ("2026-09-21t16:13:20,5+02:00", NOON + 500),
    ("2026-09-21T16:13:20.123456789+0200", NOON + 123),
    ("2026-09-21T09:43:20-04:30", NOON),
    ("2026-09-21T16:13+02", NOON - 20_000),
    ("2026-09-21T14:13:20 +00:00", NOON),
]


def test_a_time_is_what_it_says_wherever_it_was_written(spark: SparkSession) -> None:
    """ISO 8601 with its zone, and milliseconds in any form; the number counts as one, too."""
    records = [wrapped({"t": 1, "seq": f"{index}", "ts": text}) for index, (text, _) in enumerate(TIMES)]
    found = clean.messages(frame(spark, records), 3600).select("ts_ms", "seq", "problem").collect()
    assert [(row.ts_ms, row.seq, row.problem) for row in found] == [
        (expected, index, None) for index, (_, expected) in enumerate(TIMES)
    ]


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
        # A batch of a stream is one relation, and not the plan that it comes from.
        self.cleaning(judged(frame(self.spark, records), self.settings).localCheckpoint(), number)

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
