"""What alarm rules find in cleaned rows, whatever batches these come in."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pytest
from iot_spark.alarm_rules import read_alarms
from iot_spark.schema import CLEAN
from iot_spark.transforms.alarm import LEVELS, Known, judge
from iot_spark.transforms.alarm_output import (
    ALARMS,
    OVER,
    TOO_LATE,
    alarm_records,
    command_records,
    with_commands,
)
from iot_spark.transforms.alarm_readings import RECENT
from pyspark.sql import DataFrame, Row, SparkSession

from tests.spark.alarm_reference import Change, Reading, changes

#: 2026-11-21 00:00 UTC, in ms.
START = 1_795_219_200_000
HOT = {"name": "hot", "match": {"tag": "t"}, "kind": "threshold", "above": 90, "clear": 80}


def at(second: float, value: float | None, **more: Any) -> Reading:
    """A reading so many seconds after the start; ``came`` is when it arrived, in seconds too."""
    came = more.pop("came", None)
    ingest = None if came is None else START + int(came * 1000)
    return Reading(START + int(second * 1000), value, ingest=ingest, **more)


def frame(spark: SparkSession, readings: Sequence[Reading]) -> DataFrame:
    """The cleaned rows of readings."""
    rows = [
        (
            one.gateway,
            one.device,
            one.tag,
            _time(one.ts),
            _time(one.arrived),
            number,
            None if one.value is None else float(one.value),
            None if one.value is not None else "text",
            one.quality,
            None,
            f"{one.gateway}-{one.device}-{one.ts}-{number}",
            f"n1-{number}",
            "plain",
            "n1",
            _time(one.ts).date(),
        )
        for number, one in enumerate(readings)
    ]
    return spark.createDataFrame(rows, CLEAN)


def _time(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


class Job:
    """Judges one batch after the other, as the job does, and collects what has changed."""

    def __init__(self, spark: SparkSession, *rules: Mapping[str, Any]) -> None:
        self.spark = spark
        self.rules = read_alarms(list(rules))
        self.skipped = 0
        self.rows: list[Row] = []
        self._levels: list[Row] = []
        self._recent: list[Row] = []

    def batch(self, readings: Sequence[Reading], clock: int | None = None) -> list[Change]:
        """What a batch changes; its clock is the newest arrival unless told."""
        now = max(one.arrived for one in readings) if clock is None else clock
        judged = judge(frame(self.spark, readings), self._known(), self.rules, now)
        runs = judged.runs.persist()
        found = with_commands(judged.changes, self.rules, now).collect()
        self.skipped += sum(row["skipped"] or 0 for row in runs.collect())
        self._levels, self._recent = judged.known.levels.collect(), judged.known.recent.collect()
        runs.unpersist()
        self.rows += found
        return _changes(found)

    def _known(self) -> Known:
        return Known(self.spark.createDataFrame(self._levels, LEVELS), self.spark.createDataFrame(self._recent, RECENT))


def _changes(rows: Sequence[Row]) -> list[Change]:
    found = [
        Change(
            row["rule"],
            row["device"],
            row["tag"],
            row["state"],
            milliseconds(row["at"]),
            milliseconds(row["started"]),
            row["value"],
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: (one.rule, one.device, one.tag, one.started, one.state != "raised"))


def milliseconds(naive: dt.datetime) -> int:
    # collect() gives local time without a zone.
    return round(naive.astimezone(dt.UTC).timestamp() * 1000)


def told(found: Sequence[Change]) -> list[tuple[str, float, float | None]]:
    """State, seconds after the start, value."""
    return [(one.state, (one.at - START) / 1000, one.value) for one in found]


RATE = {"name": "fast", "kind": "rate", "above": 2, "clear": 1, "per": 10}
SILENT = {"name": "silent", "kind": "missing", "missing": 30}

CASES: Mapping[str, tuple[Mapping[str, Any], list[Reading], float, list[tuple[str, float, float | None]]]] = {
    "above is raised at once": (HOT, [at(0, 50), at(1, 91), at(2, 95)], 2, [("raised", 1, 91)]),
    "the threshold itself is well": (HOT, [at(0, 90)], 0, []),
    "between clear and above nothing changes": (
        HOT,
        [at(0, 91), at(1, 85), at(2, 89), at(3, 91), at(4, 80), at(5, 85)],
        5,
        [("raised", 0, 91), ("cleared", 4, 80)],
    ),
    "without clear the threshold clears": (
        {**HOT, "clear": None},
        [at(0, 91), at(1, 90), at(2, 91)],
        2,
        [("raised", 0, 91), ("cleared", 1, 90), ("raised", 2, 91)],
    ),
    "below is the other way round": (
        {"name": "low", "kind": "threshold", "below": 5, "clear": 10},
        [at(0, 5), at(1, 4), at(2, 9), at(3, 10)],
        3,
        [("raised", 1, 4), ("cleared", 3, 10)],
    ),
    "a hold that is not reached is no alarm": ({**HOT, "hold": 5}, [at(0, 91), at(4.9, 70), at(5, 91)], 5, []),
    "a hold that is reached is one, from then on": (
        {**HOT, "hold": 5},
        [at(0, 91), at(3, 85), at(6, 92), at(7, 20)],
        7,
        [("raised", 5, 91), ("cleared", 7, 20)],
    ),
    "a value is held until the next one comes": ({**HOT, "hold": 5}, [at(0, 91)], 5, [("raised", 5, 91)]),
    "a doubtful value says nothing": (
        HOT,
        [at(0, 91, quality="bad"), at(1, 92, quality="stale"), at(2, 93, quality="uncertain")],
        2,
        [("raised", 2, 93)],
    ),
    "a text says nothing": (HOT, [at(0, 91), at(1, None), at(2, 10)], 2, [("raised", 0, 91), ("cleared", 2, 10)]),
    "another tag is not looked at": (HOT, [at(0, 91, tag="u")], 0, []),
    "a batch is put in order": (HOT, [at(2, 70), at(0, 50), at(1, 91)], 2, [("raised", 1, 91), ("cleared", 2, 70)]),
    "a rise is measured over its span": (
        RATE,
        [at(0, 0), at(5, 100), at(10, 10), at(11, 26), at(20, 20)],
        20,
        [("raised", 11, 26 / 11), ("cleared", 20, 1)],
    ),
    "silence between two readings": (
        SILENT,
        [at(0, 1), at(29, 1), at(60, 1)],
        60,
        [("raised", 59, None), ("cleared", 60, None)],
    ),
    "silence that lasts": (SILENT, [at(0, 1), at(5, 1, tag="u")], 35, [("raised", 35, None)]),
    "silence is counted from the arrival": (SILENT, [at(0, 1, came=20)], 49.9, []),
    "a doubtful value breaks silence": (SILENT, [at(0, 1), at(29, None), at(58, 1, quality="bad")], 60, []),
    "silence of each tag": (
        {**SILENT, "match": {"tag": ["t", "u*"]}},
        [at(0, 1), at(25, 1, tag="u2")],
        31,
        [("raised", 30, None)],
    ),
}


#: All cases end here; each has a device and a rule of its own, so all of them are one run of the job.
END = START + 3_600_000


def _of_case(name: str) -> tuple[Mapping[str, Any], list[Reading], int]:
    """The rule and readings of a case, moved so that it ends at ``END``; and by how much."""
    rule, readings, seconds, _ = CASES[name]
    moved = END - START - int(seconds * 1000)
    own = [
        one._replace(device=name, ts=one.ts + moved, ingest=None if one.ingest is None else one.ingest + moved)
        for one in readings
    ]
    return {**rule, "name": name, "match": {**rule.get("match", {}), "device": name}}, own, moved


def _told(found: Sequence[Change], name: str) -> list[tuple[str, float, float | None]]:
    moved = _of_case(name)[2]
    return [(one.state, (one.at - START - moved) / 1000, one.value) for one in found if one.rule == name]


@pytest.fixture(scope="module")
def at_once(spark: SparkSession) -> list[Change]:
    """What is found if all comes in one batch."""
    cases = [_of_case(name) for name in CASES]
    job = Job(spark, *(rule for rule, _, _ in cases))
    return job.batch([one for _, readings, _ in cases for one in readings], END)


@pytest.fixture(scope="module")
def one_by_one(spark: SparkSession) -> list[Change]:
    """What is found if every reading comes in a batch of its own, in order."""
    cases = [_of_case(name) for name in CASES]
    job = Job(spark, *(rule for rule, _, _ in cases))
    ordered = [sorted(readings, key=lambda one: one.ts) for _, readings, _ in cases]
    for turn in zip_longest(*ordered):
        job.batch([one for one in turn if one is not None], START)
    job.batch([], END)
    assert job.skipped == 0
    return _changes(job.rows)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_finds(at_once: list[Change], name: str) -> None:
    """One case of the table, all of it in one batch."""
    assert _told(at_once, name) == CASES[name][3]


@pytest.mark.parametrize("name", CASES)
def test_a_rule_finds_the_same_if_each_reading_is_a_batch(one_by_one: list[Change], name: str) -> None:
    """One case of the table, reading by reading."""
    assert _told(one_by_one, name) == CASES[name][3]


@pytest.mark.parametrize("name", CASES)
def test_the_reference_finds_the_same(name: str) -> None:
    """What random readings are compared with agrees with the table."""
    rule, readings, _ = _of_case(name)
    ordered = sorted(readings, key=lambda one: one.ts)
    assert _told(changes(ordered, read_alarms([rule]), END), name) == CASES[name][3]


def _walk(chance: random.Random, device: str) -> list[Reading]:
    """A random walk that crosses thresholds, some of it at the same time or doubtful."""
    found, second, value = [], 0.0, 50.0
    for _ in range(40):
        second += chance.choice([0, 0.5, 1, 3, 20])
        value = min(100, max(0, value + chance.uniform(-30, 30)))
        quality = chance.choice(["good"] * 8 + ["bad", "out_of_range"])
        found.append(at(second, round(value, 1), device=device, quality=quality))
    return found


def test_random_readings_in_random_batches_find_what_the_reference_finds(spark: SparkSession) -> None:
    """Twelve devices, four rules each, three batches that are cut anywhere."""
    chance = random.Random(7)
    rules = [
        {"name": "high", "kind": "threshold", "above": 70, "clear": 60},
        {"name": "low for long", "kind": "threshold", "below": 40, "clear": 45, "hold": 2},
        {"name": "falling", "kind": "rate", "below": -5, "clear": -1, "per": 1},
        {"name": "silent", "kind": "missing", "missing": 15},
    ]
    devices = {f"d{number}": _walk(chance, f"d{number}") for number in range(12)}
    job = Job(spark, *rules)
    # A rule must not depend on which series come together, but each must come in order.
    cuts = {name: sorted(chance.sample(range(41), 2)) for name in devices}
    for turn in range(3):
        batch = []
        for name, readings in devices.items():
            begin, end = ([0, *cuts[name]])[turn], ([*cuts[name], 40])[turn]
            batch += readings[begin:end]
        job.batch(batch, START)
    job.batch([], START + 60_000)
    expected: list[Change] = []
    for readings in devices.values():
        expected += changes(readings, job.rules, START + 60_000)
    expected.sort(key=lambda one: (one.rule, one.device, one.tag, one.started, one.state != "raised"))
    found = _changes(job.rows)
    assert [one[:6] for one in found] == [one[:6] for one in expected]
    # Sums of the same numbers in another order.
    assert [round(one.value or 0, 6) for one in found] == [round(one.value or 0, 6) for one in expected]
    assert len({(row["alarm_id"], row["state"]) for row in job.rows}) == len(job.rows) > 100
    assert job.skipped == 0


def test_what_is_late_changes_nothing_and_is_counted_unless_a_clock_was_set_back(spark: SparkSession) -> None:
    """A reading older than what was judged is passed over; after ten minutes of nothing newer it is believed."""
    job = Job(spark, HOT)
    assert told(job.batch([at(10, 91)])) == [("raised", 10, 91)]
    assert told(job.batch([at(9, 20, came=11), at(10, 85, came=12)])) == [] and job.skipped == 1
    assert told(job.batch([at(-9000, 20, came=700)])) == [("cleared", -9000, 20)]
    assert job.skipped == 1


def test_a_clock_that_is_ahead_does_not_make_what_follows_late(spark: SparkSession) -> None:
    """Its readings count from their arrival."""
    job = Job(spark, HOT)
    assert told(job.batch([at(3600, 91, came=1)])) == [("raised", 1, 91)]
    assert told(job.batch([at(2, 20, came=2)])) == [("cleared", 2, 20)] and job.skipped == 0


def test_an_alarm_whose_rule_is_gone_is_cleared(spark: SparkSession) -> None:
    """With a detail that says so, and no command."""
    job = Job(spark, {**HOT, "clear_command": {"target": "lamp"}})
    job.batch([at(0, 91)])
    job.rules = read_alarms([{**HOT, "match": {"tag": "another"}}])
    [gone] = job.batch([], START + 5000)
    assert told([gone]) == [("cleared", 5, 91)]
    assert "its rule is gone" in job.rows[-1]["detail"] and job.rows[-1]["command"] is None
    assert job.batch([], START + 6000) == []


def commands(spark: SparkSession, rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """Key and body of the records that rows of the table make."""
    found = command_records(spark.createDataFrame(rows, ALARMS)).collect()
    return [(row["key"], json.loads(row["value"])) for row in found]


def test_a_command_says_what_the_rule_says_until_its_time_is_over(spark: SparkSession) -> None:
    """Target, body and id, and when it ends; one that would come too late is not sent, and the row tells."""
    body = {"speed": 0, "why": 'it\'s "hot" at {device}'}
    rule = {
        **HOT,
        "command": {"target": "{gateway}/{device}", "body": body, "expires_in": 30, "retry": True},
        "clear_command": {"target": "lamp/{tag}"},
    }
    job = Job(spark, rule)
    job.batch([at(0, 91), at(12, 10), at(20, 92), at(20, 93, device='"{tag}"')], START + 40_000)
    sent = commands(spark, job.rows)
    ids = {(row["device"], milliseconds(row["at"]), row["state"]): row["alarm_id"] for row in job.rows}
    plain = {"retry": False, "wants_reply": False}
    again = {"retry": True, "wants_reply": False}
    assert sent == [
        (
            "lamp/t",
            {"id": f"{ids['press', START + 12_000, 'cleared']}-cleared", "target": "lamp/t", **plain, "body": None},
        ),
        *(
            (
                f"gw/{device}",
                {
                    "id": f"{ids[device, START + 20_000, 'raised']}-raised",
                    "target": f"gw/{device}",
                    "deadline": START / 1000 + 50,
                    **again,
                    "body": {"speed": 0, "why": f'it\'s "hot" at {device}'},
                },
            )
            for device in [one[1]["target"].removeprefix("gw/") for one in sent[1:]]
        ),
    ]
    assert {key for key, _ in sent[1:]} == {"gw/press", 'gw/"{tag}"'}
    first = next(row for row in job.rows if milliseconds(row["at"]) == START)
    assert first["command"] is None and first["detail"] == TOO_LATE
    records = [json.loads(row["value"]) for row in alarm_records(spark.createDataFrame(job.rows, ALARMS)).collect()]
    assert [(one["state"], one["at"], one["value"], one["threshold"]) for one in records[:2]] == [
        ("raised", START, 91.0, 90.0),
        ("cleared", START + 12_000, 10.0, 90.0),
    ]


#: Of a rule whose commands are good for ten minutes: when which reading came, and what became of each command.
SENDINGS: Mapping[str, tuple[list[Reading], dict[str, str | None]]] = {
    "a reading of now": ([at(0, 91)], {"raised": None}),
    "a reading that comes hours after the change": ([at(-10_800, 91, came=0)], {"raised": TOO_LATE}),
    "an alarm that was over hours ago": (
        [at(-10_800, 91, came=0), at(-10_200, 50, came=0)],
        {"raised": TOO_LATE, "cleared": TOO_LATE},
    ),
    "a clock that is years behind": ([at(-3e8, 91, came=0)], {"raised": TOO_LATE}),
    "a clock that is ahead": ([at(3000, 91, came=0)], {"raised": None}),
    "an alarm that is over when it is found": ([at(-9, 91), at(-5, 50)], {"raised": OVER, "cleared": None}),
}


def test_a_command_counts_from_the_change_and_is_not_sent_for_what_is_over(spark: SparkSession) -> None:
    """What becomes of each: its detail, or None if it is sent, and then it ends ten minutes after the change."""
    command = {"target": "{device}", "expires_in": 600}
    job = Job(spark, {**HOT, "command": command, "clear_command": command})
    job.batch([one._replace(device=name) for name, (readings, _) in SENDINGS.items() for one in readings], START)
    assert {name: {row["state"]: row["detail"] for row in job.rows if row["device"] == name} for name in SENDINGS} == {
        name: details for name, (_, details) in SENDINGS.items()
    }
    sent = {(key, said["deadline"]) for key, said in commands(spark, job.rows)}
    assert sent == {(row["device"], milliseconds(row["at"]) / 1000 + 600) for row in job.rows if row["detail"] is None}


def test_what_an_earlier_release_has_decided_gets_no_more_time(spark: SparkSession) -> None:
    """Its text says what was left then; that is counted from the change. A body is left alone."""
    job = Job(spark, {**HOT, "command": {"target": 'a"b', "body": {"expires_in": 5, "retry": 1}, "expires_in": 60}})
    job.batch([at(0, 91)])
    [row] = job.rows
    told = json.loads(row["command"])
    ended = told.pop("deadline")
    bare = Row(**{**row.asDict(), "command": json.dumps(told, separators=(",", ":"))})
    old = {"id": told["id"], "target": told["target"], "expires_in": 59.5, **told}
    earlier = Row(**{**row.asDict(), "command": json.dumps(old, separators=(",", ":"))})
    [(_, first), (_, second)] = commands(spark, [bare, earlier])
    assert first == told
    assert second == {**told, "deadline": ended - 0.5}
