"""The jobs ``alarm`` and ``aggregate`` as programs: killed in the middle, with Kafka, where a command cannot leave."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from iot_spark.alarm_rules import read_alarms
from iot_spark.kept import Kept
from iot_spark.running import DONE
from iot_spark.settings import settings_of
from iot_spark.sinks import TableSink
from iot_spark.watch import Watch
from pyspark.sql import SparkSession

from tests.enginekit.kafka import KafkaServer
from tests.spark.alarm_reference import Reading, changes
from tests.spark.jobs import KILLS, running
from tests.spark.records import written
from tests.spark.test_aggregate import begun, planned
from tests.spark.test_alarm import START, at, frame, milliseconds

SPARK = Path(__file__).parents[2] / "spark"
DAY = "2026-11-21"
RULES: list[dict[str, Any]] = [
    {
        "name": "hot",
        "kind": "threshold",
        "above": 70,
        "clear": 50,
        "command": {"target": "{gateway}/{device}", "body": {"speed": 0}},
    },
    {"name": "silent", "kind": "missing", "missing": 20},
]


def once(job: str, root: Path, told: Mapping[str, Any]) -> None:
    """Run a job over what is there."""
    with running(job, root, told, "--once") as child:
        assert child.wait(timeout=250) == DONE, (root / "log").read_text()[-3000:]


def cleaned(spark: SparkSession, root: Path, number: int, readings: Sequence[Reading]) -> None:
    """A batch of the table ``clean``, as that job would show it."""
    hidden = root / "tables" / ".staging" / str(number)
    frame(spark, readings).drop("dt").coalesce(1).write.parquet(str(hidden))
    place = root / "tables" / "clean" / f"dt={DAY}" / f"batch=clean-0a0a0a0a-{number:012d}"
    place.parent.mkdir(parents=True, exist_ok=True)
    hidden.rename(place)


def until_batch(job: str, root: Path, more: int, seconds: float = 200) -> None:
    """So many files more were planned in a batch of the job, which is now being done."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(list((root / "checkpoints" / job / "sources" / "0").glob("[0-9]*"))) >= more:
            return
        time.sleep(0.02)
    raise AssertionError(f"{job} never planned {more} batches:\n{(root / 'log').read_text()[-3000:]}")


def _walks() -> list[list[Reading]]:
    """Batches of three devices, in order: four for each driver."""
    chance = random.Random(11)
    return [
        [
            at(10 * batch + second + index / 10, round(chance.uniform(0, 100), 1), device=f"d{index}")
            for second in range(0, 10, 2)
            for index in range(3)
            if chance.random() > 0.3 or second == 0
        ]
        for batch in range(4 * KILLS + 4)
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", ["alarm", "aggregate"])
def test_nothing_is_lost_or_there_twice_if_the_driver_is_killed(spark: SparkSession, tmp_path: Path, job: str) -> None:
    """Killed while it works on the first batches, and on others (``SPARK_KILLS``); at the end all is told once."""
    told = written(
        tmp_path,
        trigger_seconds=0.2,
        rules={"alarms": RULES},
        aggregate={"window_seconds": 20, "lateness_seconds": 5},
    )
    batches, chance = _walks(), random.Random(3)
    for turn in range(KILLS):
        for number in range(4 * turn, 4 * turn + 4):
            cleaned(spark, tmp_path, number, batches[number])
        with running(job, tmp_path, told):
            until_batch(job, tmp_path, turn + 1)
            time.sleep(chance.uniform(0, 1.5))
    for number in range(4 * KILLS, 4 * KILLS + 4):
        cleaned(spark, tmp_path, number, batches[number])
    once(job, tmp_path, told)
    readings = [one for batch in batches for one in batch]
    if job == "alarm":
        # Levels only: what is silent depends on when the job has looked.
        rows = [row for row in _rows(spark, tmp_path, "alarms") if row["rule"] == "hot"]
        expected = changes(readings, read_alarms(RULES[:1]), START)
        found = sorted((row["device"], row["state"], milliseconds(row["started"]), row["value"]) for row in rows)
        assert found == sorted((one.device, one.state, one.started, one.value) for one in expected) and found
        lines = [
            line for path in sorted((tmp_path / "commands").glob("*.jsonl")) for line in path.read_text().splitlines()
        ]
        ids = [json.loads(line)["id"] for line in lines]
        sent = [f"{row['alarm_id']}-raised" for row in rows if row["state"] == "raised" and row["detail"] is None]
        assert sorted(ids) == sorted(sent) and len(set(ids)) == len(ids) > 0
    else:
        rows = [*_rows(spark, tmp_path, "aggregate"), *_rows(spark, tmp_path, "aggregate_late")]
        newest = max(one.ts for one in readings) - 5000
        closed = [one for one in readings if one.ts // 20_000 * 20_000 + 20_000 <= newest]
        assert sum(row["count"] for row in rows) == len(closed) > 0
        assert sum(row["sum"] for row in rows) == pytest.approx(sum(one.value or 0 for one in closed))
        assert len({(row["device"], row["window_start"]) for row in rows}) == len(rows)
    totals = json.loads((tmp_path / "status" / f"{job}.json").read_text())["totals"]
    assert totals["rows"] == len(readings)


def _rows(spark: SparkSession, root: Path, table: str) -> list[Any]:
    folder = root / "tables" / table
    return spark.read.parquet(str(folder)).collect() if folder.exists() else []


#: ``hot``, of which a command is good for a minute.
SOON: list[dict[str, Any]] = [{**RULES[0], "command": {**RULES[0]["command"], "expires_in": 60}}, RULES[1]]


def test_a_command_that_could_not_leave_leaves_once_when_it_can(spark: SparkSession, tmp_path: Path) -> None:
    """A day later the batch is told again as it was, with the end of its command; silence is noticed by the clock."""
    now = [START / 1000 + 1]
    settings = settings_of(written(tmp_path, rules={"alarms": SOON}))
    checkpoint = begun(tmp_path)
    sink = TableSink(spark, settings.tables, "alarm", checkpoint)
    sink.open()
    watch = Watch(spark, settings, read_alarms(SOON), Kept(spark, checkpoint), sink, lambda: now[0])
    commands = tmp_path / "commands"
    commands.write_text("in the way")
    rows = frame(spark, [at(0, 71), at(1, 72)])
    planned(tmp_path, 0)
    with pytest.raises(FileExistsError):
        watch(rows, 0)
    assert _rows(spark, tmp_path, "alarms") == []
    commands.unlink()
    now[0] += 86_400
    watch(rows, 0)
    watch(rows, 0)
    assert sink.state.totals["commands_too_late"] == 0
    [path] = commands.glob("*.jsonl")
    [row] = _rows(spark, tmp_path, "alarms")
    assert json.loads(path.read_text()) == json.loads(row["command"])
    assert json.loads(row["command"])["deadline"] == START / 1000 + 60
    nothing = frame(spark, [])
    # 1 s is the last reading, 20 s may be silent, and a reading may take three triggers of half a second.
    for number, second in ((1, 22.4), (2, 22.6), (3, 60)):
        now[0] = START / 1000 + second
        planned(tmp_path, number)
        watch(nothing, number)
        assert sink.state.totals["raised"] == (1 if second < 22.5 else 2)
        assert sum(sink.state.named["raised"].values()) == sink.state.totals["raised"]
    assert set(sink.state.named["raised"]) == {rule["name"] for rule in RULES}
    sink.close()


def test_commands_that_were_not_sent_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Those that were too late also by device: its clock may be wrong."""
    settings = settings_of(written(tmp_path, rules={"alarms": SOON}))
    checkpoint = begun(tmp_path)
    sink = TableSink(spark, settings.tables, "alarm", checkpoint)
    sink.open()
    watch = Watch(spark, settings, read_alarms(SOON), Kept(spark, checkpoint), sink, lambda: START / 1000)
    slow = [at(-900 + second, value, came=0, device="slow") for second, value in ((0, 71), (1, 20), (2, 71))]
    mqtt = [at(-900, 71, came=0, device="alone", gateway="$mqtt")]
    planned(tmp_path, 0)
    watch(frame(spark, [*slow, *mqtt, at(-2, 71, device="over"), at(-1, 20, device="over"), at(-1, 71)]), 0)
    sink.close()
    assert (sink.state.totals["commands_too_late"], sink.state.totals["commands_over"]) == (3, 1)
    assert sink.state.named["commands_too_late"] == {"gw/slow": 2, "alone": 1}
    [path] = (tmp_path / "commands").glob("*.jsonl")
    assert [json.loads(line)["target"] for line in path.read_text().splitlines()] == ["gw/press"]


@pytest.mark.timeout(600)
def test_a_command_is_in_kafka_once(spark: SparkSession, tmp_path: Path, kafka: KafkaServer) -> None:
    """With its target as the key; the alarm is in the alarms' topic, by device."""
    alarms, commands = kafka.make_topic("watch.alarms"), kafka.make_topic("watch.commands", max_message_bytes=2000)
    large = {**RULES[0], "name": "long", "command": {"target": "{device}", "body": {"text": "x" * 3000}}}
    source = {"kind": "kafka", "bootstrap_servers": kafka.address, "topics": ["iot.readings"]}
    told = written(
        tmp_path,
        source=source,
        alarm={"topic": alarms, "commands_topic": commands},
        rules={"alarms": [*RULES[:1], large]},
    )
    cleaned(spark, tmp_path, 0, [at(0, 60), at(1, 71), at(2, 72)])
    once("alarm", tmp_path, told)
    cleaned(spark, tmp_path, 1, [at(3, 40)])
    once("alarm", tmp_path, told)
    [command] = kafka.read_all(commands)
    body = json.loads(command.value or b"")
    assert command.key == b"gw/press" and body["target"] == "gw/press" and body["body"] == {"speed": 0}
    # One that the topic does not take keeps nobody from going on, and is a dead letter.
    [letter] = _rows(spark, tmp_path, "invalid")
    assert letter.reason == f"too large for the topic {commands}" and "x" * 3000 in letter.raw
    events = [json.loads(found.value or b"") for found in kafka.read_all(alarms)]
    events = [one for one in events if one["rule"] == "hot"]
    assert [(one["state"], one["at"] - START, one["value"]) for one in events] == [
        ("raised", 1000, 71.0),
        ("cleared", 3000, 40.0),
    ]
    assert body["id"] == events[0]["command_id"] == f"{events[0]['alarm_id']}-raised"
