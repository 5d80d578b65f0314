"""Single alarms and dead letters: which rows, in which order, page by page, and what is shown of them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from twisted.internet import reactor

from iot_mqtt.admin.pipeline_tables import DeadLetter, PipelineTableResources, PlantAlarm, RowsWanted
from iot_mqtt.app.pipeline.report.rows import EXCERPT, Row, Wanted, alarms, dead_letters
from iot_mqtt.app.pipeline.table_rows import TableRows
from iot_mqtt.errors import Unavailable
from tests.reactor import run
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.app.pipeline.test_pipeline_report import ALARMS, DAY, EVIL, NOON, Tables, alarm, tables

__all__ = ["tables"]

INVALID = "raw VARCHAR, reason VARCHAR, tag VARCHAR, tags BIGINT, topic VARCHAR, ingest_ts TIMESTAMPTZ"

Found = TypeVar("Found")


def letter(at: float, raw: str, reason: str = "payload is not JSON") -> tuple[Any, ...]:
    return (raw, reason, None, None, "iot.readings", NOON + timedelta(seconds=at))


def put_letters(tables: Tables, *letters: tuple[Any, ...], days: int = 0) -> Path:
    return tables.put(f"invalid/dt={DAY + timedelta(days)}/batch=clean-aaaaaaaa-000000000001", INVALID, letters)


def pages(read: Callable[[Path, Wanted], list[Row]], folder: Path, wanted: Wanted, at: str) -> Iterator[list[Row]]:
    """Each page, as somebody asks who pages on."""
    while rows := read(folder, wanted):
        yield rows
        wanted = wanted._replace(before=(round(rows[-1][at] * 1000), rows[-1]["id"]))


def test_alarms_are_one_row_each_the_newest_first(tables: Tables) -> None:
    """Whether they go on; one that is told twice is one."""
    told = [
        *(alarm("a", "raised", -50), alarm("a", "raised", -50), alarm("a", "cleared", -20)),
        *(alarm("b", "raised", -10, tag=EVIL), alarm("c", "raised", -50)),
    ]
    tables.put(f"alarms/dt={DAY}/batch=alarm-aaaaaaaa-000000000001", ALARMS, told)
    noon = NOON.timestamp()
    found = alarms(tables.folder, Wanted(10))
    assert [(one["id"], one["raised_at"] - noon, one["cleared_at"]) for one in found] == [
        ("b", -10, None),
        ("a", -50, noon - 20),
        ("c", -50, None),
    ]
    assert (found[0]["tag"], found[0]["value"], found[0]["threshold"]) == (EVIL, 91, 90)
    assert [one["id"] for one in alarms(tables.folder, Wanted(10, active=True))] == ["b", "c"]
    assert [one["id"] for one in alarms(tables.folder, Wanted(10, active=False))] == ["a"]
    assert [one["id"] for one in alarms(tables.folder, Wanted(10, part="GW/PRESS"))] == ["b", "a", "c"]
    assert [one["id"] for one in alarms(tables.folder, Wanted(10, part="onerror"))] == ["b"]
    by_one = [[one["id"] for one in page] for page in pages(alarms, tables.folder, Wanted(1), "raised_at")]
    assert by_one == [["b"], ["a"], ["c"]]


def test_dead_letters_are_paged_over_days(tables: Tables) -> None:
    """Each once, whatever has the same time, the newest day first."""
    put_letters(tables, *(letter(number // 3, f"today {number}") for number in range(7)))
    put_letters(tables, *(letter(-86_400, f"before {number}") for number in range(4)), days=-1)
    found = [row["payload"] for page in pages(dead_letters, tables.folder, Wanted(2), "at") for row in page]
    assert len(found) == 11 == len(set(found))
    assert found[0] == "today 6"
    assert {one.split()[0] for one in found[-4:]} == {"before"}
    assert [row["payload"] for row in dead_letters(tables.folder, Wanted(9, part="BEFORE 2"))] == ["before 2"]


LONG = '{"id":"1","client":"p","topic":"t","payload":{"a":"' + "y" * 50_000 + '"}}'


@pytest.mark.parametrize(
    ("raw", "device", "payload"),
    [
        ('{"client": "press-7", "topic": "up/press-7/t", "payload": {"t": null}}', "press-7", '{"t": null}'),
        ('{"gateway": "hall", "device": "plc-3", "values": {"t": 1}}', "hall/plc-3", '{"t": 1}'),
        (json.dumps({"client": "p", "payload_b64": b64encode(b"\x02 21.5").decode()}), "p", "\x02 21.5"),
        ('{"client": "p", "payload_b64": "/yE="}', "p", r"\xff!"),
        (json.dumps({"client": EVIL, "payload": EVIL}), EVIL, json.dumps(EVIL, ensure_ascii=False)),
        ("{broken", None, "{broken"),
        ("[" * 30_000, None, "[" * EXCERPT),
        (LONG, "p", LONG.partition('"payload":')[2][:EXCERPT]),
    ],
    ids=["wrapped", "of a gateway", "text", "bytes", "markup", "broken", "deep", "long"],
)
def test_what_is_shown_of_a_dead_letter(tables: Tables, raw: str, device: str | None, payload: str) -> None:
    """Its sender and the beginning of what was published, as far as the record tells."""
    put_letters(tables, letter(0, raw))
    (found,) = dead_letters(tables.folder, Wanted(1))
    assert (found["device"], found["payload"], found["size"]) == (device, payload, len(raw.encode()))


async def soon(outcome: Awaitable[Found]) -> Found:
    return await outcome


def test_a_process_of_its_own_reads_them(tables: Tables) -> None:
    """With what it says when it can't; where there are no tables, there is none."""
    folder = put_letters(tables, letter(0, EVIL), letter(1, "later"))
    rows = TableRows(tables.folder, reactor)
    (found,) = run(soon(rows.dead_letters(RowsWanted(1))))
    assert (found.payload, found.at - NOON.timestamp()) == ("later", 1)
    (other,) = run(soon(rows.dead_letters(RowsWanted(5, (round(found.at * 1000), found.id)))))
    assert other.payload == EVIL
    assert run(soon(rows.alarms(RowsWanted(5)))) == []
    (folder / "part-0.parquet").write_bytes(b"no Parquet")
    with pytest.raises(Unavailable, match="cannot be read"):
        run(soon(rows.dead_letters(RowsWanted(5))))


class Kept:
    """Three alarms and a dead letter."""

    def __init__(self) -> None:
        self.wanted: list[RowsWanted] = []

    async def alarms(self, wanted: RowsWanted) -> list[PlantAlarm]:
        self.wanted.append(wanted)
        one = PlantAlarm("0", 1000.5, None, "hall", "plc-3", "t", "too hot", "threshold", "critical", 91.0, 90.0)
        return [replace(one, id=str(number)) for number in range(3)][: wanted.limit]

    async def dead_letters(self, wanted: RowsWanted) -> list[DeadLetter]:
        self.wanted.append(wanted)
        return [DeadLetter("x", 1000.5, "iot.readings", None, "payload is not JSON", None, None, EVIL, 70)]


def test_the_api_has_them_page_by_page() -> None:
    """What narrows them goes with the question, and so does the place of the page before."""
    kept = Kept()
    browser = make_browser(FakeView(), further=(PipelineTableResources(kept),))
    found = browser.get("/api/v1/pipeline/alarms?limit=2&active=true&contains=plc").json
    assert [one["id"] for one in found["items"]] == ["0", "1"]
    browser.get(f"/api/v1/pipeline/alarms?limit=2&after={quote(found['after'])}")
    assert kept.wanted == [RowsWanted(3, None, "plc", True), RowsWanted(3, (1_000_500, "1"))]
    assert browser.get("/api/v1/pipeline/dead_letters").json["items"][0]["payload"] == EVIL
    for wrong in ("alarms?active=2", "alarms?after=x%2Fy", "dead_letters?contains=" + "x" * 201):
        assert browser.get(f"/api/v1/pipeline/{wrong}").status == 400


def test_ctl_has_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line each."""
    ctl = Ctl(monkeypatch, make_browser(FakeView(), further=(PipelineTableResources(Kept()),)))
    head, *lines = ctl.lines("pipeline", "alarms", "--active")
    assert head.split() == ["RAISED", "LASTED", "DEVICE", "TAG", "RULE", "SEVERITY", "VALUE", "NODE"]
    assert len(lines) == 3
    assert "active hall/plc-3 t too hot critical 91" in " ".join(lines[0].split())
    head, line = ctl.lines("pipeline", "letters")
    assert "payload is not JSON" in line and "img" in line
