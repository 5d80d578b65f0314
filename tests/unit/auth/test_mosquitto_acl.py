"""Importing ACL files of mosquitto: their forms, and what cannot be said. A system test asks mosquitto."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.app.tools.acl import acl_group
from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.mosquitto_acl import import_acl


def test_denied_topics_come_first_and_patterns_last() -> None:
    """As mosquitto asks them."""
    text = "pattern read p/%c\ntopic a\ntopic deny a/b\nuser ann\ntopic write x y\n"
    found = import_acl(text, "m")
    assert found.text.split("\n\n")[1:] == [
        "[user ann]\nallow publish x y",
        "[anonymous]\ndeny all a/b\nallow publish a\nallow read a",
        "[client *+*]\ndeny all #",
        "[client *#*]\ndeny all #",
        "[all]\nallow read p/%c\n",
    ]
    assert len(found.notes) == 3


@pytest.mark.parametrize(
    ("line", "said", "note"),
    [
        ("topic deny a/%u/b", "deny all a/+/b", "more"),
        ("topic a/%u/b", None, "left out"),
        ("pattern read a/x-%c/b", None, "left out"),
        ("pattern deny a/x-%c/b", "deny all a/+/b", "more"),
        ("topic write retain x/y", None, "left out"),
        ("topic deny retain x/y", "deny all +/y", "more"),
        ("topic read $share/g/a", None, "left out"),
    ],
)
def test_what_cannot_be_said_gets_narrower(line: str, said: str | None, note: str) -> None:
    """Nothing is allowed that mosquitto denies; the note names the line."""
    found = import_acl(f"# first\n{line}\n", "m.acl")
    assert (said is None) or said in found.text.split("\n")
    assert "allow" not in found.text
    assert found.notes[0].startswith("m.acl:2: ")
    assert note in found.notes[0]
    parse_rules(found.text, "ours")


@pytest.mark.parametrize(
    "line", ["topics a", "topic", "user", "pattern", "topic write a b/#/c", "topic rw a", "topic a b"]
)
def test_what_mosquitto_does_not_take(line: str) -> None:
    """Its line is named."""
    with pytest.raises(FileError) as caught:
        import_acl(f"topic a\n{line}\n", "m.acl")
    assert caught.value.line == 2


def test_the_command_writes_a_file_that_it_takes_itself(tmp_path: Path) -> None:
    """`import`, `check` and `explain`, without a node."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.write_text("user ann\ntopic write up/#\ntopic deny up/x\ntopic read a/%c/b\n")
    run = CliRunner().invoke
    done = run(acl_group, ["import", str(theirs), "-o", str(ours), "--strict"])
    assert (done.exit_code, ours.exists()) == (1, False)
    done = run(acl_group, ["import", str(theirs), "-o", str(ours)])
    assert done.exit_code == 0
    assert "theirs:4: " in done.output
    assert "2 rules in 1 sections" in run(acl_group, ["check", str(ours)]).output
    done = run(acl_group, ["explain", str(ours), "publish", "up/1", "--user", "ann"])
    assert (done.exit_code, done.output.split()[0]) == (0, "yes:")
    assert f"{ours}:5: allow publish up/#" in done.output
    done = run(acl_group, ["explain", str(ours), "publish", "up/x", "--user", "ann", "--json"])
    assert done.exit_code == 1
    assert '"line": 4' in done.output
    theirs.write_text("nonsense\n")
    assert run(acl_group, ["import", str(theirs)]).exit_code == 1
    assert run(acl_group, ["check", str(theirs)]).exit_code == 1


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("user bob\ntopic read plant/1/#\n", "lines 2:"),
        ("user eve\ntopic readwrite #\ntopic deny eve/secret\n", "lines 3:"),
        ("pattern read a/b\ntopic a\n", "lines 1, 2:"),
        ("".join(f"topic read {number}\n" for number in range(12)), "9, 10 and 2 more:"),
        ("user eve\ntopic readwrite #\n", None),
        ("topic write up/#\ntopic deny up/1\n", None),
    ],
)
def test_subscriptions_that_mosquitto_would_accept_are_told(text: str, lines: str | None) -> None:
    """Where a rule lets a client read less than it may ask for; who may read nothing has nothing to lose."""
    notes = [note for note in import_acl(text, "m.acl").notes if "subscription" in note]
    assert (lines is None and not notes) or (lines is not None and len(notes) == 1 and lines in notes[0])


def test_names_that_are_no_level_are_told() -> None:
    """A client id with a slash has nothing of a pattern with %c."""
    assert any("lines 2: a client id" in note for note in import_acl("topic #\npattern write up/%c/#\n", "m").notes)
    assert not any("a client id" in note for note in import_acl("topic #\npattern write up/x\n", "m").notes)
