"""The unit of systemd, held against what a node does; it ran under systemd 252, with a required sandbox of a plugin."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.ending import NOT_AGAIN
from iot_mqtt.plugins.process.sandbox import confining

ROOT = Path(__file__).parents[3]
PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "systemd" / "iot-mqtt.service"


@pytest.fixture(scope="module")
def unit() -> dict[str, list[str]]:
    """What it says, by key."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key].append(value)
    return found


def test_a_plugin_may_be_locked_up(unit: dict[str, list[str]]) -> None:
    """Its worker becomes nobody in namespaces of its own, with Landlock and seccomp; the unit forbids none of it."""
    kinds = {
        "user": confining._NEW_USER,
        "net": confining._NEW_NET,
        "ipc": confining._NEW_IPC,
        "uts": confining._NEW_UTS,
    }
    assert set(unit["RestrictNamespaces"][0].split()) == set(kinds)
    calls = set(" ".join(unit["SystemCallFilter"]).split())
    assert {"unshare", "capset", "seccomp", "landlock_restrict_self", "sched_setaffinity", "prlimit64"} <= calls


def test_it_has_time_to_drain_and_says_so_to_systemd(unit: dict[str, list[str]]) -> None:
    """And what it keeps is where the unit lets it write."""
    assert float(unit["TimeoutStopSec"][0]) > Config().node.drain_seconds
    assert unit["Type"] == ["notify"] and int(unit["WatchdogSec"][0]) >= 30
    assert f"IOT_MQTT__NODE__DATA_DIR=/var/lib/{unit['StateDirectory'][0]}" in unit["Environment"]
    assert unit["StateDirectoryMode"] == ["0700"]


def test_a_node_whose_directory_was_taken_away_is_not_begun_anew(unit: dict[str, list[str]]) -> None:
    """Whoever looks for it is to find no new, empty one in its place."""
    assert unit["Restart"] == ["on-failure"]
    assert unit["RestartPreventExitStatus"] == [str(int(NOT_AGAIN))]


def test_the_package_installs_what_the_unit_names(unit: dict[str, list[str]]) -> None:
    """The program, the user, the configuration."""
    script = (ROOT / "scripts" / "deb.sh").read_text()
    program = unit["ExecStart"][0].split()[0]
    assert f"#!{Path(program).parent}/python3" in script
    assert unit["ExecStart"][0].split()[-1] == "/etc/iot-mqtt/application.yaml"
    user = (PACKAGING / "systemd" / "sysusers.conf").read_text().split()
    assert user[:2] == ["u", unit["User"][0]]
    for name in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", str(PACKAGING / "debian" / name)], check=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_reads_it_without_a_complaint(tmp_path: Path) -> None:
    """With the program in the place of one that is here."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/lib/iot-mqtt/bin/iot-mqtt", "/bin/true"))
    said = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert not [line for line in said.stderr.splitlines() if UNIT.name in line], said.stderr
