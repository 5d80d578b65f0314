"""``--watch``, what a terminal gets, and what a shell completes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from itertools import count
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.ctl.cli import ctl as ctl_group
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.watching import watch
from iot_mqtt.app.progress import Bar, going_on
from iot_mqtt.app.terminal import field, number, print_form, print_items, table
from tests.unit.app.ctl.ctlkit import Ctl


class Terminal(io.StringIO):
    """A terminal of eighty columns."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "6")
    return made


def _times(turns: int) -> Callable[[float], None]:
    """A sleep that is interrupted after so many turns."""
    left = iter(range(turns - 1))

    def sleep(_seconds: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return sleep


def test_watching_shows_what_is_there_each_time(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is interrupted, which is no failure."""
    sleep = _times(3)

    def wait(seconds: float) -> None:
        assert seconds == 7
        ctl.view.connect(f"c{next(numbers)}")
        sleep(seconds)

    numbers = count()
    monkeypatch.setattr("iot_mqtt.app.ctl.watching.watch", partial(watch, sleep=wait))
    result = ctl.run("clients", "list", "--json", "--watch=7")
    assert (result.exit_code, [len(json.loads(line)) for line in result.stdout.splitlines()]) == (0, [0, 1, 2])


def test_what_changes_something_is_not_watched(ctl: Ctl) -> None:
    """Nor done even once."""
    ctl.view.connect("c")
    result = ctl.run("clients", "kick", "c", "--watch")
    assert (result.exit_code, "only looks" in result.stderr) == (1, True)
    assert ctl.run("clients", "show", "c").exit_code == 0


@pytest.mark.parametrize("seconds", ["nan", "inf", "0.1"])
def test_it_is_watched_at_intervals_that_there_are(ctl: Ctl, seconds: str) -> None:
    result = ctl.run("status", f"--watch={seconds}")
    assert result.exit_code == 2 and "range" in result.output


def test_a_failure_ends_the_first_look_and_no_later_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A node that restarts is looked at again."""
    turns = iter((None, CtlError("away"), None))

    def command() -> None:
        if (error := next(turns)) is not None:
            raise error
        click.echo("here")

    watch(command, 1, as_json=False, sleep=_times(3), now=lambda: 0.0)
    shown = capsys.readouterr()
    assert (shown.out.count("here"), shown.err) == (2, "Error: away\n")
    with pytest.raises(CtlError):
        watch(lambda: (_ for _ in ()).throw(CtlError("never there")), 1, as_json=False, sleep=_times(1))


def test_a_terminal_shows_it_in_one_place_and_no_more_than_fits(terminal: Terminal) -> None:
    """From the top, each line to its end; the rest is counted."""
    with redirect_stdout(terminal):
        watch(lambda: print_form((str(n), n) for n in range(9)), 2, as_json=False, sleep=_times(1), now=lambda: 0.0)
    text = terminal.getvalue()
    assert text.startswith("\x1b[H\x1b[Jevery 2 s: 1970-01-01 00:00:00Z\x1b[K\n0  0\x1b[K\n")
    assert "2  2\x1b[K\nand 6 lines more\x1b[K\n\x1b[J" in text


_COLUMNS = (field("name", "NAME"), field("text", "TEXT"), number("n", "N"))


def test_a_table_is_cut_to_the_width_of_a_terminal() -> None:
    """The widest columns first, and none below its title."""
    items = [{"name": "x" * 30, "text": "y" * 60, "n": 12345}, {"name": "a", "text": "b", "n": 1}]
    lines = list(table(_COLUMNS, items, 40))
    assert {len(line) for line in lines} == {40}
    assert lines[1] == f"{'x' * 14}…  {'y' * 15}…  12345"
    assert list(table(_COLUMNS, items))[1] == f"{'x' * 30}  {'y' * 60}  12345"
    assert max(map(len, table(_COLUMNS, items, 5))) == 6 + 2 + 6 + 2 + 5


def test_headings_and_alarms_stand_out_on_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless NO_COLOR says no."""
    item = {"name": "a", "text": "b", "n": 1}
    with redirect_stdout(terminal):
        print_items(_COLUMNS, [item], as_json=False)
        print_form([("state", "ALARM")])
    assert terminal.getvalue().startswith("\x1b[1mNAME")
    assert "\x1b[31m\x1b[1mALARM\x1b[0m" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    with redirect_stdout(plain):
        print_items(_COLUMNS, [item], as_json=False)
    assert plain.getvalue() == "NAME  TEXT  N\na     b     1\n"


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it in a file; on a terminal a bar with numbers."""
    bar = Bar("leaving", 10)
    bar.at(5)
    bar.end()
    with going_on(lambda: "working"):
        pass
    assert capsys.readouterr().err == ""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    bar = Bar("leaving", 10)
    bar.at(5)
    bar.at(99)
    bar.end()
    assert "10/10" in made.getvalue()


def _completed(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    *arguments, incomplete = words
    found = ShellComplete(ctl_group, {}, "ctl", "_X").get_completions(arguments, incomplete)
    return [item.value for item in found]


def test_names_of_a_node_are_completed(ctl: Ctl) -> None:
    """Clients of clients, sessions of sessions and of why; commands and options as they are."""
    ctl.view.connect("plc-1")
    ctl.view.keep_session("plc-2")
    ctl.view.connect("other\x1b")
    assert _completed("clients", "kick", "plc") == ["plc-1"]
    assert _completed("sessions", "show", "") == ["plc-2"]
    assert _completed("why", "plc-") == ["plc-2"]
    assert _completed("clients", "ki") == ["kick"]
    assert ctl.node.patience <= 1.0


def test_a_node_that_is_away_completes_nothing(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says nothing between the keys."""

    def connect(_target: Any) -> None:
        raise CtlError("nobody is there")

    monkeypatch.setattr("iot_mqtt.app.ctl.target.Target.connect", connect)
    assert (_completed("why", "plc-"), _completed("why", "--on", "n")) == ([], [])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_lines(shell: str) -> None:
    """They name the variable that click looks at."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert (result.exit_code, f"_IOT_MQTT_COMPLETE={shell}_complete" in result.stdout) == (0, True)
    assert os.environ.get("_IOT_MQTT_COMPLETE") is None
