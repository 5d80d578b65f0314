"""A vendor's way: a project is written or taken, installed with pip, found, checked, and its own tests pass."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "vendor-plugin"


class Machine:
    """A directory that pip installs into, and processes that see it."""

    def __init__(self, folder: Path) -> None:
        self.target = folder / "installed"
        self.folder = folder
        path = os.pathsep.join((str(self.target), str(ROOT)))
        self.environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *arguments: str, at: Path | None = None, code: int = 0) -> str:
        """Run a Python module; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=at or self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def install(self, project: Path) -> None:
        """As a vendor's customer does it, without a network."""
        options = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
        self.run("pip", "install", *options, "--target", str(self.target), str(project))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A fresh one."""
    return Machine(tmp_path)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example, where a build may leave what it likes."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


@pytest.fixture
def scaffold(machine: Machine) -> Path:
    """A project as ``plugin new`` writes it."""
    machine.run("iot_mqtt", "plugin", "new", "acme-meter")
    return machine.folder / "acme-meter"


@pytest.mark.parametrize(("kind", "name"), [("scaffold", "acme-meter"), ("example", "acme-scale")])
def test_a_plugin_is_installed_found_and_passes_the_kit(
    kind: str, name: str, machine: Machine, request: pytest.FixtureRequest
) -> None:
    """Away from its sources: with its vectors, and by its name."""
    assert name not in machine.run("iot_mqtt", "plugin", "list")
    machine.install(request.getfixturevalue(kind))
    listed = {one["name"]: one for one in json.loads(machine.run("iot_mqtt", "plugin", "list", "--json"))}
    assert (listed[name]["state"], listed[name]["distribution"].split()[0]) == ("ok", name)
    card = json.loads(machine.run("iot_mqtt", "plugin", "check", name, "--frames", "1000", "--seconds", "5", "--json"))
    assert card["ok"]
    verdicts = {one["name"]: one["verdict"] for one in card["checks"]}
    assert verdicts.pop("decode_many") == "none"
    assert set(verdicts.values()) == {"pass"}


@pytest.mark.parametrize("kind", ["scaffold", "example"])
def test_its_own_tests_pass_at_once(kind: str, machine: Machine, request: pytest.FixtureRequest) -> None:
    """Nothing is to be done before them."""
    project: Path = request.getfixturevalue(kind)
    output = machine.run("pytest", "-q", "-p", "no:cacheprovider", at=project)
    assert " passed" in output and "failed" not in output


@pytest.mark.parametrize("kind", ["scaffold", "example"])
def test_it_is_typed_and_tidy(kind: str, machine: Machine, request: pytest.FixtureRequest) -> None:
    """As strictly as the broker itself."""
    project: Path = request.getfixturevalue(kind)
    options = ("--strict", "--no-incremental", "--cache-dir", os.devnull)
    machine.environment["MYPYPATH"] = os.pathsep.join((str(project / "src"), str(ROOT)))
    assert "Success" in machine.run("mypy", *options, "src", at=project)
    machine.run(
        "ruff", "check", "--no-cache", "--isolated", "--line-length", "120", "--select", "E,F,I,B,UP", "src", at=project
    )
    machine.run("ruff", "format", "--no-cache", "--isolated", "--line-length", "120", "--check", ".", at=project)


def test_a_plugin_that_cannot_be_imported_is_listed_with_the_reason(machine: Machine, example: Path) -> None:
    """And does not keep others from being found."""
    codec = example / "src" / "acme_scale" / "codec.py"
    codec.write_text(codec.read_text().replace("import re\n", "import re\n\nimport no_such_library\n", 1))
    machine.install(example)
    (found,) = (
        one for one in json.loads(machine.run("iot_mqtt", "plugin", "list", "--json")) if "scale" in one["name"]
    )
    assert "no_such_library" in found["state"]
    assert "no_such_library" in machine.run("iot_mqtt", "plugin", "check", "acme-scale", code=1)


BYTEWISE = """
from iot_mqtt.sdk import *


class Device(Codec):
    framing = Fixed(size=1)

    def __init__(self, host):
        super().__init__(host)
        self.rest = b""

    @classmethod
    def vectors(cls):
        reading = {"event": "readings", "device": "1", "values": {"a": 1, "b": 2}}
        return {"vectors": [{"name": "two", "frames": ["c0 de 03 01 02 03"], "events": [reading]}]}

    def opened(self):
        return [Login("g")]

    def decode(self, frame):
        self.rest += frame
        if not b"\\xc0\\xde".startswith(self.rest[:2]):
            raise BadFrame("magic")
        if len(self.rest) < 3 or len(self.rest) < 3 + self.rest[2]:
            return []
        telegram, self.rest = self.rest[3:], b""
        return [Readings("1", {"a": telegram[0], "b": telegram[1]})]
"""


def test_the_kit_sees_behind_frames_of_one_byte(machine: Machine) -> None:
    """A codec that cuts its frames itself, and fails on telegrams with one byte."""
    (machine.folder / "bytewise.py").write_text(BYTEWISE)
    options = ("--only", "golden", "--only", "mutated", "--frames", "1000", "--json")
    card = json.loads(machine.run("iot_mqtt", "plugin", "check", "bytewise:Device", *options, code=1))
    golden, mutated = card["checks"]
    assert golden["verdict"] == "pass" and any("IndexError" in text for text in mutated["complaints"]), card
