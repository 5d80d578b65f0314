"""``pipeline report``: what is drawn, from which files, and what a page may never do."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.report import limits
from iot_mqtt.app.pipeline.report.files import days_of, files_of
from iot_mqtt.app.pipeline.report.page import page
from iot_mqtt.app.pipeline.report.series import Bucket, Gap, drawn, gaps_of, usual_interval
from iot_mqtt.app.pipeline.report.tables import Found, read

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

duckdb = pytest.importorskip("duckdb")

DAY = date(2026, 11, 21)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLEAN = (
    "gateway VARCHAR, device VARCHAR, tag VARCHAR, ts TIMESTAMPTZ, ingest_ts TIMESTAMPTZ, value DOUBLE, text VARCHAR"
)
EVIL = "</script><script>alert('x')</script>\"><img src=x onerror=alert(1)>\u202e"

Row = tuple[Any, ...]


class Tables:
    """Tables as the jobs leave them, in few rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.show("clean", "aaaaaaaa", 99)
        self.show("alarm", "aaaaaaaa", 99)

    def show(self, query: str, run: str, batch: int) -> None:
        state = self.folder / ".state"
        state.mkdir(parents=True, exist_ok=True)
        (state / f"{query}.json").write_text(json.dumps({"run": run, "batch": batch, "totals": {}}))

    def put(self, place: str, columns: str, rows: Sequence[Row]) -> Path:
        folder = self.folder / place
        folder.mkdir(parents=True)
        marks = ", ".join(f"({', '.join('?' for _ in rows[0])})" for _ in rows)
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            # One statement: a statement a row takes a millisecond each.
            connection.execute(f"INSERT INTO t VALUES {marks}", [value for row in rows for value in row])
            connection.execute(f"COPY t TO '{folder}/part-0.parquet' (FORMAT parquet)")
        return folder

    def clean(self, rows: Sequence[Row], name: str = "batch=clean-aaaaaaaa-000000000001", table: str = "clean") -> Path:
        return self.put(f"{table}/dt={DAY}/{name}", f"{CLEAN}, quality VARCHAR, unit VARCHAR", rows)

    def read(self, **more: Any) -> Found:
        found = read(self.folder, more.get("days", 1), more.get("device"))
        assert found is not None
        return found


def row(value: float | None, at: float = 0, device: str = "press", tag: str = "t", text: str | None = None) -> Row:
    """A reading at noon and some seconds, that took 100 ms."""
    moment = NOON + timedelta(seconds=at)
    return ("gw", device, tag, moment, moment + timedelta(milliseconds=100), value, text, "good", None)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path / "tables")


def buckets(*times: int, step: int = 0) -> list[Bucket]:
    return [Bucket(at, at + step, 2 if step else 1, 0, 1, 0, 1) for at in times]


# What is a gap.


def test_regular_readings_have_no_gap() -> None:
    """Whatever their interval is."""
    for interval in (10, 1000, 100_000):
        assert gaps_of(buckets(*range(0, interval * 50, interval)), 10, interval * 50) == []


def test_a_silence_is_a_gap_and_breaks_the_line() -> None:
    """From the last reading before to the first one after."""
    times = [*range(0, 1000, 10), *range(3000, 4000, 10)]
    found = gaps_of(buckets(*times), 10, 4000)
    assert found == [Gap(990, 3000)]
    assert [len(run) for run in drawn(buckets(*times), found)] == [100, 100]


def test_a_device_that_went_silent_has_a_gap_to_the_end() -> None:
    """So that its chart does not look as if it were cut."""
    assert gaps_of(buckets(*range(0, 1000, 10)), 10, 5000) == [Gap(990, 5000)]


def test_what_a_stretch_hides_is_no_gap() -> None:
    """With many readings in each, one empty stretch is needed at least."""
    many = [Bucket(at, at + 90, 10, 0, 1, 0, 1) for at in range(0, 10_000, 100)]
    assert usual_interval(many) == 10
    assert gaps_of(many, 100, 10_000) == []
    assert gaps_of([*many[:50], *many[52:]], 100, 10_000) == [Gap(4990, 5200)]


@pytest.mark.parametrize("times", [(), (5,), (5, 5000)])
def test_of_few_readings_nobody_knows(times: tuple[int, ...]) -> None:
    """They are drawn as they are."""
    assert gaps_of(buckets(*times), 10, 100_000) == []


# Which files.


def test_a_batch_counts_when_it_was_shown(tables: Tables) -> None:
    """A half-finished one does not; all of an earlier run do; so do those of a table that came without its state."""
    tables.show("clean", "bbbbbbbb", 5)
    for name in ("bbbbbbbb-000000000005", "bbbbbbbb-000000000006", "aaaaaaaa-000000000999"):
        tables.clean([row(1)], f"batch=clean-{name}")
    tables.clean([row(1)], "batch=other-bbbbbbbb-000000000001")
    found = [path.parent.name for path in files_of(tables.folder, "clean", DAY, DAY)]
    assert found == [
        *("batch=clean-aaaaaaaa-000000000999", "batch=clean-bbbbbbbb-000000000005"),
        "batch=other-bbbbbbbb-000000000001",
    ]


def test_a_row_that_was_folded_is_there_once(tables: Tables) -> None:
    """In the newest version, not in the batches that it holds, nor in the version before."""
    held = tables.clean([row(1, 0)], "batch=clean-aaaaaaaa-000000000001")
    tables.clean([row(2, 1)], "batch=clean-aaaaaaaa-000000000002")
    for number, rows in ((1, [row(1, 0)]), (2, [row(1, 0)])):
        folder = tables.clean(rows, f"version={number:012d}", "daily")
        (folder / "_holds.json").write_text(json.dumps({"batches": [held.name]}))
    assert sum(one.rows for one in tables.read().series) == 2


def test_days_are_those_of_both_places(tables: Tables) -> None:
    """Other names are passed over."""
    tables.put("daily/dt=2026-11-20/version=000000000001", "a INT", [(1,)])
    tables.clean([row(1)])
    (tables.folder / "clean" / "dt=nonsense").mkdir()
    (tables.folder / "clean" / "x").mkdir()
    assert days_of(tables.folder, "clean") == [date(2026, 11, 20), DAY]


def test_too_many_files_are_refused_with_the_way_out(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not read for an hour."""
    tables.clean([row(1)])
    tables.clean([row(2)], "batch=clean-aaaaaaaa-000000000002")
    monkeypatch.setattr(limits, "FILES", 1)
    with pytest.raises(PipelineError, match="run compact"):
        tables.read()


def test_a_path_may_have_any_name(tmp_path: Path) -> None:
    """Stars, brackets and quotes in it are no pattern and end nothing."""
    tables = Tables(tmp_path / "it's [a] *table?")
    folder = tmp_path / "plain"
    plain = Tables(folder)
    plain.clean([row(1)])
    (folder / "clean").rename(tables.folder / "clean")
    assert len(tables.read().series) == 1


def test_a_broken_file_is_an_error_in_words(tables: Tables) -> None:
    """With its name."""
    (tables.clean([row(1)]) / "part-0.parquet").write_bytes(b"PAR1 not at all")
    with pytest.raises(PipelineError, match=r"part-0\.parquet"):
        tables.read()


# What is read.


def test_a_spike_of_one_reading_stays(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand readings in sixty stretches."""
    monkeypatch.setattr(limits, "ALL_BUCKETS", 60)
    tables.clean([row(9999.0 if number == 5000 else 1.0, number) for number in range(4500, 5500)])
    ((series, found),) = tables.read().buckets.items()
    assert series == 0
    assert len(found) <= 61
    assert [one.high for one in found].count(9999.0) == 1
    assert sum(one.number for one in found) == 1000


def test_the_days_end_at_the_newest_reading(tables: Tables) -> None:
    """A plant that stands still has its last day on the page."""
    tables.clean([row(1, -3600 * 30), row(2, -3600), row(3, 0)])
    found = tables.read()
    assert [one.rows for one in found.series] == [2]
    assert found.end == int(NOON.timestamp() * 1000)
    assert tables.read(days=2).series[0].rows == 3


def test_one_device_can_be_chosen_by_any_name(tables: Tables) -> None:
    """Its name never becomes part of a statement."""
    tables.clean([row(1), row(2, device=EVIL), row(3, device="x' OR '1'='1")])
    for name in (EVIL, "x' OR '1'='1"):
        assert [one.device for one in tables.read(device=name).series] == [name]
    assert read(tables.folder, 1, "nobody") is None


def test_texts_have_no_chart_and_figures_that_are_none_do_no_harm(tables: Tables) -> None:
    """NaN and infinity come from a sensor at some time."""
    tables.clean([row(None, text="open", tag="door"), row(float("nan"), 0), row(float("inf"), 1), row(5, 2)])
    found = tables.read()
    assert [(one.tag, one.last_text) for one in found.series] == [("door", "open"), ("t", None)]
    assert {place: len(runs) for place, runs in found.buckets.items()} == {1: 1}
    assert "open" in page(found, found.end, "")


def test_the_digits_of_a_rounded_number_are_no_text(tables: Tables) -> None:
    """They would stand for the last value when that has long been another one."""
    tables.clean([row(2.0**53, 0, text="9007199254740993"), row(5, 1)])
    assert [(one.last, one.last_text) for one in tables.read().series] == [(5, None)]


def test_limits_hold_and_are_told(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million devices are a page, too."""
    monkeypatch.setattr(limits, "DEVICES", 3)
    monkeypatch.setattr(limits, "CHARTS", 2)
    tables.clean([row(1, device=f"d{number}") for number in range(10)])
    found = tables.read()
    assert (len(found.series), len(found.buckets), found.more_devices, found.more_series) == (3, 2, 7, 1)
    text = page(found, found.end, "")
    assert "7 more devices" in text
    assert "1 tags have no chart" in text


ALARMS = (
    "alarm_id VARCHAR, state VARCHAR, rule VARCHAR, kind VARCHAR, severity VARCHAR, gateway VARCHAR, device VARCHAR,"
    ' tag VARCHAR, value DOUBLE, threshold DOUBLE, "at" TIMESTAMPTZ'
)


def alarm(number: str, state: str, at: float, severity: str = "critical", tag: str = "t") -> Row:
    moment = NOON + timedelta(seconds=at)
    return (number, state, "too hot", "threshold", severity, "gw", "press", tag, 91.0, 90.0, moment)


def test_alarms_are_those_of_the_days_and_those_that_go_on(tables: Tables) -> None:
    """One that is told twice is one; one that ended long ago is none."""
    tables.clean([row(1, -100), row(2)])
    told = [
        *(alarm("a", "raised", -50), alarm("a", "raised", -50), alarm("a", "cleared", -20)),
        *(alarm("b", "raised", -90_000_000), alarm("c", "raised", -90_000_000), alarm("c", "cleared", -80_000_000)),
    ]
    tables.put(f"alarms/dt={DAY}/batch=alarm-aaaaaaaa-000000000001", ALARMS, told)
    found = tables.read()
    assert [(one.since - found.end, one.until and one.until - found.end) for one in found.alarms] == [
        (-90_000_000_000, None),
        (-50_000, -20_000),
    ]
    text = page(found, found.end, "")
    assert "1 of 2" in text
    assert "is 91, limit 90" in text


def test_dead_letters_are_counted_by_reason(tables: Tables) -> None:
    """With the newest of each."""
    tables.clean([row(1)])
    letters = [(f"raw {number}", "broken JSON" if number < 3 else EVIL, NOON) for number in range(4)]
    place = f"invalid/dt={DAY}/batch=clean-aaaaaaaa-000000000001"
    tables.put(place, "raw VARCHAR, reason VARCHAR, ingest_ts TIMESTAMPTZ", letters)
    found = tables.read()
    assert [(one.reason[:6], one.records) for one in found.reasons] == [("broken", 3), ("</scri", 1)]
    assert found.invalid == 4


def test_duplicates_are_told_by_device(tables: Tables) -> None:
    """The largest first; names stay text."""
    tables.clean([row(1)])
    state = tables.folder / ".state" / "clean.json"
    named = {"duplicate": {"gw/press": 3, EVIL: 70, "mill": 1}}
    state.write_text(json.dumps({"run": "aaaaaaaa", "batch": 99, "totals": {}, "named": named}))
    assert tables.read().duplicates == [(EVIL, 70), ("gw/press", 3), ("mill", 1)]
    assert tables.read(device="press").duplicates == [("gw/press", 3)]
    text = page(tables.read(), 0, "tables")
    assert "gw/press<td class=number>3<" in text and EVIL not in text


# What a page is.


class Elements(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.contents: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.contents.append(data)
            self._inside = ""


def evil_page(tables: Tables) -> str:
    """Every name and text is hostile."""
    tables.clean(
        [
            (EVIL, EVIL, EVIL, NOON, NOON, 1.0, None, EVIL, EVIL),
            (EVIL, EVIL, f"{EVIL}2", NOON, NOON, None, EVIL, EVIL, EVIL),
        ]
    )
    told = ("x", "raised", EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, 1.0, 1.0, NOON)
    tables.put(f"alarms/dt={DAY}/batch=alarm-aaaaaaaa-000000000001", ALARMS, [told])
    place = f"invalid/dt={DAY}/batch=clean-aaaaaaaa-000000000001"
    tables.put(place, "raw VARCHAR, reason VARCHAR, ingest_ts TIMESTAMPTZ", [(EVIL, EVIL, NOON)])
    found = tables.read()
    return page(found, found.end, EVIL)


def test_names_of_devices_stay_text(tables: Tables) -> None:
    """There are three scripts and styles, all ours, no image, no handler, no address."""
    found = Elements(evil_page(tables))
    assert [tag for tag, _ in found.tags if tag in ("script", "style", "img", "link", "iframe")] == [
        *("style", "script", "script"),
    ]
    for tag, attributes in found.tags:
        names = set(attributes)
        assert not [name for name in names if name.startswith("on") or name in ("src", "href", "style")], tag
        assert not [name for name in names if "<" in name or '"' in name], tag
    assert "\u202e" not in evil_page.__doc__ + "".join(str(one) for one in found.tags)  # type: ignore[operator]


def test_the_policy_allows_our_script_and_style_and_nothing_else(tables: Tables) -> None:
    """By their digests, so that what gets in all the same does not run."""
    text = evil_page(tables)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    style, _, script = Elements(text).contents
    for content in (style, script):
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]


def test_the_data_of_the_charts_is_json_that_ends_nothing(tables: Tables) -> None:
    """Short figures, times from the beginning on, and the alarm of the device on its chart."""
    tables.clean([row(value, value) for value in range(100)])
    tables.put(
        f"alarms/dt={DAY}/batch=alarm-aaaaaaaa-000000000001",
        ALARMS,
        [alarm("a", "raised", 50, severity=EVIL), alarm("b", "raised", 60, tag="")],
    )
    found = tables.read()
    data = json.loads(Elements(page(found, found.end, "")).contents[1])
    chart = data["series"]["0"]
    assert sorted(chart["alarms"]) == [0, 1]
    assert {one["severity"] for one in data["alarms"]} == {"warning", "critical"}
    assert chart["runs"][0][0][2:] == [0.0, 99.0, 0.0, 99.0] or len(chart["runs"][0]) > 1
    assert chart["steps"] is False
    assert "<" not in Elements(page(found, found.end, "")).contents[1]


def test_the_command_writes_a_page_also_of_nothing(tmp_path: Path) -> None:
    """Which says how to get something."""
    sets = ["--set", f"pipeline.dir={tmp_path}", "--out", str(tmp_path / "r.html")]
    result = CliRunner().invoke(main, ["pipeline", "report", *sets])
    assert (result.exit_code, result.output) == (0, f"wrote {tmp_path / 'r.html'}\n")
    assert "There are no readings" in (tmp_path / "r.html").read_text()
    Tables(tmp_path / "tables").clean([row(1)])
    assert CliRunner().invoke(main, ["pipeline", "report", *sets]).exit_code == 0
    assert "press" in (tmp_path / "r.html").read_text()
