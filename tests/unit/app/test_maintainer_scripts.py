"""The maintainer scripts of the Debian package, through what dpkg does with them (Debian policy 6.5 to 6.8).

dpkg itself wants a machine of its own. The scripts run in a folder (``DPKG_ROOT``), with stand-ins for what would
change this machine. ``deb-systemd-helper`` is a stand-in everywhere, and then the one of Debian where there is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "packaging" / "debian"
UNIT = ROOT / "packaging" / "systemd" / "iot-mqtt.service"
#: A line with a folder that is not below DPKG_ROOT. Tests may be run by root, and a purge deletes.
OUTSIDE = re.compile(r"^[^#\n]*(?<!\$DPKG_ROOT)(?<!\w)/(?:bin|etc|lib|run|usr|var)\b.*$", re.MULTILINE)
REAL_HELPER = shutil.which("deb-systemd-helper")
#: Ours do with files what Debian's do: links of an enabled unit, a note of the links there were, a unit that runs.
STAND_INS = {
    "systemctl": "",
    "systemd-sysusers": "",
    "systemd-tmpfiles": "",
    "mountpoint": 'grep -qx "$2" "$DPKG_ROOT/mounts"',
    "deb-systemd-helper": """
        [ "$1" != --quiet ] || shift
        case $1 in
            was-enabled) [ ! -f "$DPKG_ROOT/noted" ] || [ -L "$LINK" ] ;;
            enable) touch "$DPKG_ROOT/noted"; ln -sf /lib/systemd/system/iot-mqtt.service "$LINK" ;;
            update-state) touch "$DPKG_ROOT/noted" ;;
            purge) rm -f "$DPKG_ROOT/noted" "$LINK" ;;
            *) exit 2 ;;
        esac""",
    "deb-systemd-invoke": """
        case $1 in
            stop) rm -f "$DPKG_ROOT/running" ;;
            start | restart) [ ! -L "$LINK" ] || touch "$DPKG_ROOT/running" ;;
            *) exit 2 ;;
        esac""",
}


class Machine:
    """A folder that the package is installed to, with systemd running."""

    def __init__(self, folder: Path, *, real_helper: bool) -> None:
        self.root = folder / "root"
        self.link = self.root / "etc/systemd/system/multi-user.target.wants/iot-mqtt.service"
        self.calls = folder / "calls"
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name, does in STAND_INS.items():
            if name == "deb-systemd-helper" and real_helper:
                assert REAL_HELPER is not None
                does = f'exec {REAL_HELPER} "$@"'
            self._stand_in(name, does)
        for made in ("run/systemd/system", "lib/systemd/system", "var/lib/iot-mqtt/log", "etc/iot-mqtt"):
            (self.root / made).mkdir(parents=True)
        self.link.parent.mkdir(parents=True)
        shutil.copy(UNIT, self.root / "lib/systemd/system")
        (self.root / "mounts").touch()
        for kept in ("var/lib/iot-mqtt/log/1", "var/lib/iot-mqtt/.lock", "etc/iot-mqtt/users"):
            (self.root / kept).touch()

    def _stand_in(self, name: str, does: str) -> None:
        script = self._bin / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.calls}"\n{does}\n')
        script.chmod(0o755)

    def run(self, script: str, *words: str) -> None:
        """As dpkg does: what fails is an error of the package. One that names a folder of this machine is not run."""
        assert not OUTSIDE.findall((SCRIPTS / script).read_text())
        environment = {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "DPKG_MAINTSCRIPT_PACKAGE": "iot-mqtt",
            "DPKG_ROOT": str(self.root),
            "LINK": str(self.link),
        }
        subprocess.run(["sh", str(SCRIPTS / script), *words], env=environment, check=True)

    @property
    def enabled(self) -> bool:
        return self.link.is_symlink()

    @property
    def running(self) -> bool:
        return (self.root / "running").exists()

    def disable(self) -> None:
        """What an administrator does, with ``systemctl disable --now``."""
        self.link.unlink()
        (self.root / "running").unlink()

    def install(self, *, before: str = "") -> None:
        """For the first time, or with the configuration of an earlier one there."""
        self.run("postinst", "configure", before)

    def upgrade(self) -> None:
        self.run("prerm", "upgrade", "0.2.0")
        self.run("postrm", "upgrade", "0.2.0")
        self.run("postinst", "configure", "0.1.0")

    def remove(self) -> None:
        self.run("prerm", "remove")
        self.run("postrm", "remove")

    def purge(self) -> None:
        self.remove()
        self.run("postrm", "purge")


@pytest.fixture(params=[False, True], ids=["stand-in", "of-debian"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """With either helper."""
    if request.param and REAL_HELPER is None:
        pytest.skip("needs deb-systemd-helper; the stand-in was asked")
    return Machine(tmp_path, real_helper=request.param)


def test_an_installation_begins_to_serve(machine: Machine) -> None:
    """And does so after each start of the machine."""
    machine.install()
    assert (machine.enabled, machine.running) == (True, True)


def test_an_installation_after_a_removal_serves_again(machine: Machine) -> None:
    """The configuration is still there: dpkg says which version it is of."""
    machine.install()
    machine.remove()
    assert not machine.running
    machine.install(before="0.1.0")
    assert (machine.enabled, machine.running) == (True, True)


def test_an_upgrade_serves_again(machine: Machine) -> None:
    """It is stopped in between."""
    machine.install()
    machine.upgrade()
    assert (machine.enabled, machine.running) == (True, True)
    assert "deb-systemd-invoke stop iot-mqtt.service" in machine.calls.read_text().splitlines()


@pytest.mark.parametrize("step", ["upgrade", "removal"])
def test_what_an_administrator_disabled_stays_disabled(machine: Machine, step: str) -> None:
    """After an upgrade, and after a removal that was undone."""
    machine.install()
    machine.disable()
    if step == "upgrade":
        machine.upgrade()
    else:
        machine.remove()
        machine.install(before="0.1.0")
    assert (machine.enabled, machine.running) == (False, False)


@pytest.mark.parametrize(
    ("began", "undone"),
    [
        (["upgrade", "0.2.0"], ["abort-upgrade", "0.2.0"]),
        (["remove"], ["abort-remove"]),
        (
            ["deconfigure", "in-favour", "other", "1", "removing", "one", "1"],
            ["abort-deconfigure", "in-favour", "other", "1", "removing", "one", "1"],
        ),
    ],
    ids=["upgrade", "remove", "deconfigure"],
)
def test_what_was_stopped_for_a_step_that_failed_runs_again(
    machine: Machine, began: list[str], undone: list[str]
) -> None:
    """As when the disk was full while the new version was unpacked."""
    machine.install()
    machine.run("prerm", *began)
    assert not machine.running
    machine.run("postinst", *undone)
    assert (machine.enabled, machine.running) == (True, True)


def test_a_removal_keeps_the_data_and_a_purge_nothing(machine: Machine) -> None:
    """Of the package: neither data nor configuration nor links."""
    machine.install()
    machine.remove()
    assert (machine.root / "var/lib/iot-mqtt/log/1").exists() and (machine.root / "etc/iot-mqtt/users").exists()
    machine.purge()
    assert not (machine.root / "var/lib/iot-mqtt").exists() and not (machine.root / "etc/iot-mqtt").exists()
    assert not machine.enabled
    machine.run("postrm", "purge")


@pytest.mark.parametrize("mounted", ["var/lib/iot-mqtt", "var/lib/iot-mqtt/log"])
def test_a_purge_keeps_a_mount_point_and_nothing_in_it(machine: Machine, mounted: str) -> None:
    """The disk is the administrator's."""
    (machine.root / "mounts").write_text(f"{machine.root / mounted}\n")
    machine.install()
    machine.purge()
    assert (machine.root / mounted).is_dir()
    assert not [path for path in (machine.root / "var/lib/iot-mqtt").rglob("*") if not path.is_dir()]
    assert not list((machine.root / mounted).iterdir())


def test_a_purge_follows_no_link(machine: Machine, tmp_path: Path) -> None:
    """What was moved elsewhere is for whoever moved it."""
    data, elsewhere = machine.root / "var/lib/iot-mqtt", tmp_path / "elsewhere"
    data.rename(elsewhere)
    data.symlink_to(elsewhere)
    machine.purge()
    assert not data.is_symlink() and (elsewhere / "log/1").exists()


def test_nothing_is_started_where_no_systemd_runs(machine: Machine) -> None:
    """As in a container; it is enabled for when one does."""
    (machine.root / "run/systemd/system").rmdir()
    machine.install()
    machine.upgrade()
    machine.purge()
    calls = {line.split()[0] for line in machine.calls.read_text().splitlines()}
    assert calls == {"systemd-sysusers", "systemd-tmpfiles", "deb-systemd-helper", "mountpoint"}


def test_the_package_depends_on_what_the_scripts_call() -> None:
    """Without systemd its parts of the same names will do; everything else is in every Debian."""
    depends = re.search(r"^Depends: (.*)$", (ROOT / "scripts" / "deb.sh").read_text(), re.MULTILINE)
    assert depends is not None
    called = set(re.findall(r"^\s*systemd-(\w+)", (SCRIPTS / "postinst").read_text(), re.MULTILINE))
    assert called == {"sysusers", "tmpfiles"}
    assert {f"systemd | systemd-standalone-{name}" for name in called} <= set(depends[1].split(", "))
