"""Records that others have removed are told, and an audit log that cannot be written is an alarm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.audit_chain import paths
from iot_mqtt.admin.audit_files import Room
from iot_mqtt.ports.alarms import AlarmKind
from tests.unit.auth.authkit import AtOnce, outcome, start

LOST = "records of changes are gone, and it was not the node that removed them"


class Node:
    """A node's audit log, with room for some dozens of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "audit"
        self.start()

    def start(self) -> None:
        """As after a restart."""
        self.log = AuditLog(self.folder, AtOnce(), lambda call: call(), 16_000)

    def write(self, count: int, room: Room = Room.CHANGES) -> None:
        for number in range(count):
            outcome(start(self.log.write(room, {"who": "ann", "path": f"tokens/{number}", "time": "now"})))

    @property
    def fault(self) -> str:
        found = outcome(start(self.log.verify()))
        assert found.whole is (found.fault == "")
        return str(found.fault)

    @property
    def complete(self) -> list[bool]:
        return [one.complete for one in outcome(start(self.log.latest(None, 1))).kept]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("accident", ["moved", "truncated", "directory"])
def test_records_that_others_have_removed_are_told(node: Node, accident: str, *, restarted: bool) -> None:
    """Whatever took them, and whether or not something was written since; not as removed to make room."""
    node.write(3)
    (path,) = paths(node.folder)
    if accident == "moved":
        path.rename(path.with_suffix(".1"))
    elif accident == "truncated":
        os.truncate(path, 0)
    else:
        shutil.rmtree(node.folder)
    if restarted:
        node.start()
    assert node.fault == LOST
    node.folder.mkdir(exist_ok=True)
    node.write(3)
    assert node.fault == LOST
    assert node.complete == [True]


def test_the_oldest_file_that_others_have_removed_is_told(node: Node) -> None:
    """Until the node would have removed it by now."""
    node.write(20)
    first, *_, last = paths(node.folder)
    assert first != last
    first.unlink()
    assert node.fault == LOST
    node.write(100)
    assert (node.fault, node.complete) == ("", [False])


def test_what_the_node_removes_itself_is_no_fault(node: Node) -> None:
    """Over restarts, and of each chain."""
    for room in Room:
        node.write(150, room)
        node.start()
    assert (node.fault, node.complete) == ("", [False, False, False])


def test_a_file_that_a_power_cut_has_left_is_no_fault(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to go is noted first."""
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda path, missing_ok=False: None)
        node.write(150)
    node.start()
    assert node.fault == ""
    node.write(150)
    assert node.fault == ""


def test_a_log_of_a_release_before_has_lost_nothing(node: Node) -> None:
    """It noted nothing: what it has at the first start is what there was."""
    node.write(150)
    node.folder.with_suffix(".json").unlink()
    node.start()
    assert (node.fault, node.complete) == ("", [False])
    paths(node.folder)[0].unlink()
    assert node.fault == LOST


def test_a_log_that_cannot_be_written_is_an_alarm_until_it_can(node: Node) -> None:
    """Before anybody has tried to change something."""
    node.write(1)
    assert not node.log.alarms
    moved = node.folder.rename(node.folder.with_name("away"))
    outcome(start(node.log.look()))
    (alarm,) = node.log.alarms
    assert alarm.kind is AlarmKind.AUDIT
    assert alarm.text.startswith("nothing is changed by the API until the audit log can be written: ")
    assert str(node.folder) in alarm.text
    moved.rename(node.folder)
    outcome(start(node.log.look()))
    assert not node.log.alarms
    assert node.fault == ""
