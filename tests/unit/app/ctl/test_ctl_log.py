"""``ctl log`` and ``ctl sessions``: what is kept, who is behind and why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iot_mqtt.ports.log import Damage
from tests.unit.app.ctl.ctlkit import Ctl


def form(lines: list[str]) -> dict[str, str]:
    """Names and values of a form, up to the first empty line."""
    pairs = []
    for line in lines:
        if not line:
            break
        name, _, value = line.partition("  ")
        pairs.append((name, value.strip()))
    return dict(pairs)


def columns(line: str) -> list[str]:
    return line.split()


def test_info_is_a_form(ctl: Ctl) -> None:
    """Sizes are readable, and the alarm stands out."""
    found = form(ctl.lines("log", "info"))
    assert found["holds"] == "100 messages, 12.0 kB"
    assert found["disk"] == "85.0 MB of 100.0 MB (85 %), 15.0 MB free; ALARM"
    assert found["commits"] == "succeed"
    assert json.loads(ctl.run("log", "info", "--json").stdout)["disk_level"] == "alarm"


@pytest.mark.parametrize(
    ("level", "limit", "used", "expected"),
    [
        ("none", 100, 1, "there is room"),
        ("full", 100, 100, "FULL: what would be stored is refused"),
        ("none", 0, 0, "not used"),
        (
            "full",
            0,
            70,
            "70 B, 15.0 MB free, all of it kept by log.disk_reserve; FULL: what would be stored is refused",
        ),
        ("full", 50, 70, "70 B of 50 B, 15.0 MB free; FULL: what would be stored is refused"),
    ],
)
def test_info_says_how_much_room_there_is(ctl: Ctl, level: str, limit: int, used: int, expected: str) -> None:
    """In words; a grid in memory uses none."""
    ctl.view.log.figures = replace(ctl.view.log.figures, disk_level=level, disk_limit=limit, disk_used=used)
    assert form(ctl.lines("log", "info"))["disk"].endswith(expected)


def test_info_says_why_commits_fail(ctl: Ctl) -> None:
    """As the grid said it."""
    ctl.view.log.figures = replace(ctl.view.log.figures, trouble="No space left on device")
    assert form(ctl.lines("log", "info"))["commits"] == "FAIL: No space left on device"


@pytest.mark.parametrize(
    ("command", "heading", "rows"),
    [
        (("shards",), "SHARD STREAMS PAGES MESSAGES BYTES NODE", 2),
        (("generations",), "GENERATION CLASS BEGAN STREAMS MESSAGES BYTES FIRST END CLOSED NODE", 3),
        (("generations", "--limit", "2"), "GENERATION CLASS BEGAN STREAMS MESSAGES BYTES FIRST END CLOSED NODE", 2),
        (("streams",), "GENERATION STREAM SHARD STRUCTURE BUCKET PAGES MESSAGES BYTES NODE", 12),
        (
            ("streams", "--generation", "2"),
            "GENERATION STREAM SHARD STRUCTURE BUCKET PAGES MESSAGES BYTES NODE",
            4,
        ),
    ],
)
def test_the_parts_are_tables(ctl: Ctl, command: tuple[str, ...], heading: str, rows: int) -> None:
    """And lists in JSON."""
    lines = ctl.lines("log", *command)
    assert " ".join(columns(lines[0])) == heading
    assert len(lines) == rows + 1
    assert len(json.loads(ctl.run("log", *command, "--json").stdout)) == rows


def test_verify_waits_for_the_end(ctl: Ctl) -> None:
    """And says that everything is readable."""
    ctl.view.log.patience = 3
    assert ctl.lines("log", "verify") == ["every page is readable (checked in 2 s)"]


def test_verify_names_what_is_damaged_and_fails(ctl: Ctl) -> None:
    """Exit code 1, for scripts."""
    ctl.view.log.damages = [Damage(1, 2, 77, "wrong checksum")]
    result = ctl.run("log", "verify")
    assert result.exit_code == 1
    assert columns(result.stdout.splitlines()[1]) == ["1", "2", "77", "wrong", "checksum"]
    assert "1 pages cannot be read" in result.stderr


def test_verify_that_ended_early_fails(ctl: Ctl) -> None:
    """It proves nothing."""
    ctl.view.log.failure = "the grid cannot read"
    result = ctl.run("log", "verify")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the grid cannot read" in result.stderr


def test_drop_drops_or_says_why_not(ctl: Ctl) -> None:
    """A generation that takes messages stays."""
    assert ctl.lines("log", "drop", "1") == ["dropped 1"]
    for number, expected in (("1", "no generation 1"), ("3", "still takes messages")):
        result = ctl.run("log", "drop", number)
        assert result.exit_code == 1
        assert expected in result.stderr


def test_sessions_list_shows_backlog_and_lag(ctl: Ctl) -> None:
    """Messages that wait in the log, or that they are still being counted."""
    ctl.view.keep_session("a")
    ctl.view.keep_session("b", backlog=None)
    lines = ctl.lines("sessions", "list")
    heading = columns(lines[0])
    assert heading[5:7] == ["BACKLOG", "LAG"]
    assert [columns(line)[5] for line in lines[1:]] == ["8", "counting"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("inflight_full", "has to acknowledge what it was sent"),
        ("outbox_full", "does not read from its connection"),
        ("reading", "reading what it missed"),
        ("committing", "waiting for the store"),
        ("caught_up", "nothing waits"),
    ],
)
def test_show_says_in_words_why_a_session_is_behind(ctl: Ctl, state: str, expected: str) -> None:
    """One sentence for each reason."""
    ctl.view.keep_session("c", connected=True, state=state, disconnected_at=None)
    assert expected in form(ctl.lines("sessions", "show", "c"))["state"]


def test_show_of_an_absent_session(ctl: Ctl) -> None:
    """Since when, how much waits, and for which filters."""
    ctl.view.keep_session("c")
    lines = ctl.lines("sessions", "show", "c")
    found = form(lines)
    assert found["state"].startswith("offline since 1970-01-12 13:46:10Z")
    assert found["waiting"] == "11 messages, 4.5 kB"
    assert found["position"] == "4096, 6 batches behind"
    claims = lines[lines.index("") + 1 :]
    assert columns(claims[0]) == ["FILTER", "KIND", "SINCE", "UNTIL", "POSITION", "LIVE", "MESSAGES"]
    assert columns(claims[1]) == ["a/+", "subscription", "4000", "-", "4096", "no", "8"]
    assert columns(claims[2]) == ["$share/g/b", "shared", "-", "-", "5000", "yes", "counting"]


def test_show_says_what_it_does_not_know(ctl: Ctl) -> None:
    """Messages that are being counted, and bytes that were not read to the end."""
    ctl.view.keep_session("c", backlog=None)
    ctl.view.complete = False
    found = form(ctl.lines("sessions", "show", "c"))
    assert found["state"].endswith("still counting what waits")
    assert found["waiting"] == "messages are being counted, at least 4.5 kB"


def test_show_in_json_has_both_parts(ctl: Ctl) -> None:
    """The session, and what waits for it."""
    ctl.view.keep_session("c")
    found = json.loads(ctl.run("sessions", "show", "c", "--json").stdout)
    assert (found["state"], found["waiting"]["bytes"]) == ("offline", 4500)


def test_kick_closes_the_connection_of_a_session(ctl: Ctl) -> None:
    """The session stays."""
    ctl.view.connect("c")
    ctl.view.keep_session("c")
    assert ctl.lines("sessions", "kick", "c") == ["kicked c"]
    assert (list(ctl.view.by_client), list(ctl.view.by_session)) == ([], ["c"])


def test_why_tells_of_a_publisher_that_is_held_off(ctl: Ctl) -> None:
    """Otherwise nobody would guess."""
    ctl.view.connect("c")
    ctl.view.by_client["c"] = replace(ctl.view.by_client["c"], paused="disk_full")
    ctl.view.keep_session("c", connected=True, state="caught_up")
    text = "\n".join(ctl.lines("why", "c"))
    assert "until the disk has room" in text
    assert "8 messages, 6 batches behind" in text
