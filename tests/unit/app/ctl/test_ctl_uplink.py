"""``ctl uplink``: whether what goes up arrives, and by which rules."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.target import Target
from tests.unit.admin.adminkit import UPLINK, make_browser
from tests.unit.admin.deskkit import FakeDesk
from tests.unit.app.ctl.ctlkit import Ctl


def form(lines: list[str]) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def test_status_is_a_form(ctl: Ctl) -> None:
    """What waits stands where one looks first."""
    found = form(ctl.lines("uplink", "status"))
    assert found["sink"] == "file: takes messages"
    assert found["state"] == "ok"
    assert found["waiting"] == "40 messages, 4.0 kB, the oldest for 3 s"
    assert found["of these"] == "30 in the log only, 10 with the sink"
    assert found["rejected"] == "1 are dead letters, 0 are nowhere"
    assert "0.0a1b2c3d-7 to iot.readings, 3.0 MB: too large" in ctl.run("uplink", "status").stdout
    assert json.loads(ctl.run("uplink", "status", "--json").stdout)["lag_messages"] == 40


def test_trouble_stands_out(ctl: Ctl) -> None:
    """As the sink said it."""
    ctl.view.uplink_info = replace(UPLINK, state="alarm", alarms=("it is full",), trouble="no space left on device")
    found = form(ctl.lines("uplink", "status"))
    assert (found["sink"], found["state"], found["alarm"]) == ("file: no space left on device", "ALARM", "it is full")


@pytest.fixture
def desk(ctl: Ctl) -> FakeDesk:
    """The rules of the node that ``ctl`` talks to."""
    desk = FakeDesk()
    ctl.at(make_browser(ctl.view, uplink=desk))
    return desk


def test_rules_are_a_table(ctl: Ctl, desk: FakeDesk) -> None:
    """What each asks for, where it leads, and what it did."""
    heading, first, second, *notes = ctl.lines("uplink", "rules")
    assert heading.split() == ["NO", "FILTER", "AND", "TO", "MODE", "KEY", "MATCHED", "SENT"]
    assert "device press-*, when values.t > 80, qos 1" in first
    assert first.split()[-2:] == ["10", "4"]
    assert second.split()[1:] == ["audit/#", "-", "iot.readings", "only", "topic", "6", "6"]
    assert "1 earlier sets of rules" in notes[0]
    assert "3 records went to 'other'" in notes[1]


def test_a_reload_says_what_is_different(ctl: Ctl, desk: FakeDesk) -> None:
    """Line by line; a refusal is an error."""
    assert ctl.lines("uplink", "reload") == [
        "2 rules are in force now",
        '- {"filter": "b"}',
        '+ {"filter": "a"}',
        "the others are in another order",
        "7 messages wait, under the rules of before",
        "note: so",
    ]
    desk.refusal = "entry 1: needs a filter"
    result = ctl.run("uplink", "reload")
    assert (result.exit_code, "entry 1: needs a filter" in result.output) == (1, True)


def test_a_dry_run_on_the_nodes_log(ctl: Ctl, desk: FakeDesk, tmp_path: Path) -> None:
    """With rules of a file: a list, or a configuration."""
    path = tmp_path / "rules.yaml"
    lines: list[str] = []
    for text in ("- {filter: a}", "uplink:\n  rules: [{filter: a}]", '[{"filter": "a"}]'):
        path.write_text(text)
        lines = ctl.lines("uplink", "test", "--rules", str(path), "--messages", "7", "--minutes", "2")
        assert desk.asked.pop() == ([{"filter": "a"}], 7, 2.0)
    assert lines[0].startswith("9 messages, 1970-01-01")
    assert "  5 go up by it, 3 do not meet its conditions" in lines
    assert "    3 to cold" in lines
    assert "4 go up by no rule" in lines
    assert "5 messages would go another way than now" in lines
    assert "  5: now iot.readings, then hot" in lines
    assert lines[-1] == "note: so"
    assert not any("\x1b" in line for line in lines)
    assert json.loads(ctl.run("uplink", "test", "--json").stdout)["messages"] == 9


@pytest.mark.parametrize("text", ["{", "3", "uplink: 3", "- a", "mqtt: {}"])
def test_a_file_that_has_no_rules_is_refused(ctl: Ctl, desk: FakeDesk, tmp_path: Path, text: str) -> None:
    """Before the node is asked."""
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    result = ctl.run("uplink", "test", "--rules", str(path))
    assert (result.exit_code, desk.asked) == (1, [])
    assert str(path) in result.output


RECORDS = [
    {"id": "1", "node": "n", "gateway": "gw", "device": "press-1", "ts": 5, "values": {"t": 90}},
    {"id": "2", "node": "n", "client": "c", "topic": "up/c", "ts": 5, "ingest_ts": 5, "qos": 1, "payload": {"t": 90}},
]


def test_a_dry_run_on_records_of_a_file(ctl: Ctl, desk: FakeDesk, tmp_path: Path) -> None:
    """With the node's rules, and compared with them; lines that are no records are told."""
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join([*map(json.dumps, RECORDS), "nonsense"]))
    lines = ctl.lines("uplink", "test", "--file", str(path))
    assert "  1 go up by it, 1 do not meet its conditions" in lines
    assert "    such as up/gw/press-1 from gw, key gw/press-1: " + json.dumps(RECORDS[0]) in lines
    assert "nothing would be different from now" in lines
    assert "note: line 3 is not a JSON object" in lines
    few = ctl.lines("uplink", "test", "--file", str(path), "--messages", "1")
    assert few[0].startswith("1 messages")


def test_a_dry_run_without_a_node(ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules and records are in files: it is only not known what is different."""

    def nobody(target: Target) -> Node:
        raise CtlError("no node")

    monkeypatch.setattr(Target, "connect", nobody)
    records, rules = tmp_path / "records.jsonl", tmp_path / "rules.yaml"
    records.write_text(json.dumps(RECORDS[1]))
    rules.write_text("- {filter: up/#, when: 'payload.t > 80', to: hot}")
    lines = ctl.lines("uplink", "test", "--file", str(records), "--rules", str(rules))
    assert "    1 to hot" in lines
    assert lines[-1].startswith("note: no node was found")
    rules.write_text("- {filter: up/#, when: 'payload.t >'}")
    result = ctl.run("uplink", "test", "--file", str(records), "--rules", str(rules))
    assert (result.exit_code, "column 12" in result.output) == (1, True)
    assert ctl.run("uplink", "test", "--file", str(records)).exit_code == 1
