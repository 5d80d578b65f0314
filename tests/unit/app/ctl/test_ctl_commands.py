"""``ctl commands send``: its exit code says what is known of the command's end."""

from __future__ import annotations

import pytest

from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.devices.devicekit import DeviceNode


@pytest.fixture
def node() -> DeviceNode:
    return DeviceNode()


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch, node: DeviceNode) -> Ctl:
    return Ctl(monkeypatch, make_browser(FakeView(), devices=node.accompanied))


@pytest.mark.parametrize("more", [(), ("--wait", "0")])
def test_one_that_has_failed_is_an_error_whether_or_not_somebody_waits(ctl: Ctl, more: tuple[str, ...]) -> None:
    """It is shown all the same, with why."""
    done = ctl.run("commands", "send", "nobody", "x", *more)
    assert (done.exit_code, "has no session here" in done.stdout) == (1, True)
    assert "the command is failed" in done.stderr


def test_one_that_goes_on_is_an_error_to_whoever_waits_for_its_end(ctl: Ctl, node: DeviceNode) -> None:
    """Its end is not known; without --wait that it was accepted is all that was asked for."""
    node.device()
    assert ctl.run("commands", "send", "d1", "x").exit_code == 0
    done = ctl.run("commands", "send", "d1", "y", "--wait", "0")
    assert (done.exit_code, "the command is sent" in done.stderr or "the command is queued" in done.stderr) == (1, True)


def test_the_help_says_what_the_exit_code_means(ctl: Ctl) -> None:
    assert "Exit code 0: it was accepted" in ctl.run("commands", "send", "--help").output
