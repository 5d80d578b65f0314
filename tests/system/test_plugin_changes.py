"""What an operator changes about a plugin while a broker runs, and what a codec says that it did not declare."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit.forking import clean_environment
from systemkit.listener import Listener
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import brokers
from systemkit.vendors import Device, environment, installed, listeners, project_of, reload
from systemkit.waiting import wait_until

from tests.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no plugins")

CODEC = """
import importlib.util
from dataclasses import dataclass
from typing import Literal
from iot_mqtt.sdk import *


@dataclass(frozen=True)
class Settings:
    unit: Literal["kWh", "MWh"] = "kWh"


class Device(Codec):
    framing = Line()
    Config = Settings
    schema = Schema(version=1, tags={"n": Tag("int"), "unit": Tag("string"), "old": Tag("bool")}, open=False)

    def decode(self, frame):
        word, _, rest = frame.decode().partition(" ")
        if word == "login":
            self.host.log.warning("a warning of %s", rest)
            return [Login(rest)]
        if word == "tag":
            return [Readings("d", {rest: 1})]
        old = importlib.util.find_spec(__name__ + ".old") is not None
        value = int(rest) if word == "r" else rest
        return [Readings("d", {"n": value, "unit": self.host.config.unit, "old": old})]

    def welcome(self):
        return b"hello"

    def safe(self, token):
        return b"safe"
"""
CODECS = ("meter", "meter-inline", "brought")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the place where pip leaves things, and the broker's own."""
    folder = tmp_path_factory.mktemp("changes")
    for name in CODECS[:2]:
        installed(folder / "site", project_of(folder / name, name, CODEC))
    configured(folder, "kWh")
    return folder


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[BrokerProcess]:
    settings = listeners({codec: free_port() for codec in CODECS})
    with environment(folder / "site"), brokers(folder) as start:
        yield start(settings=settings)


def configured(folder: Path, unit: str) -> None:
    """Write the file that the broker reads."""
    file = folder / "broker-1" / "application.yaml"
    file.parent.mkdir(exist_ok=True)
    entries = "".join(
        f"  {name}:\n    isolation: {isolation}\n    config:\n      unit: {unit}\n"
        for name, isolation in (("meter", "process"), ("meter-inline", "inline"))
    )
    file.write_text(f"plugins:\n{entries}")


def replaced(folder: Path, name: str, version: str, *changes: tuple[str, str]) -> None:
    """As after ``pip install`` of another version."""
    source = CODEC
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    for info in (folder / "site").glob(f"{name.replace('-', '_')}-*.dist-info"):
        shutil.rmtree(info)
    installed(folder / "site", project_of(folder / name, name, source, version))


def ctl(broker: BrokerProcess, *words: str) -> None:
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), "plugins", *words]
    subprocess.run(command, env=clean_environment(), check=True, capture_output=True, timeout=120)


def reading(broker: BrokerProcess, codec: str) -> dict[str, object]:
    """What a new connection's reading says."""
    listener = Listener(broker, f"up/{codec}-g/#")
    device = Device(broker, codec)
    device.say(f"login {codec}-g\nr 5\n".encode())
    wait_until(lambda: listener.of("up/"), 10)
    listener.close()
    device.close()
    values: dict[str, object] = listener.of("up/")[0]["values"]
    return values


def test_a_project_is_installed_as_it_is_now(folder: Path, broker: BrokerProcess) -> None:
    """What was deleted in it is not brought from what an earlier build has left there, and nothing is left there."""
    project = project_of(folder / "brought", "brought", CODEC)
    (project / "src" / "brought" / "old.py").write_text("")
    for stale in (project / "build" / "lib" / "brought", project / "src" / "brought.egg-info"):
        stale.mkdir(parents=True)
    (project / "build" / "lib" / "brought" / "old.py").write_text("")
    (project / "src" / "brought" / "old.py").unlink()
    before = sorted(project.rglob("*"))
    ctl(broker, "install", str(project))
    ctl(broker, "enable", "brought")
    assert reading(broker, "brought")["old"] is False
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize("codec", CODECS[:2])
def test_reload_reads_the_configuration_again(codec: str, folder: Path, broker: BrokerProcess) -> None:
    """A wrong one is refused with its place, and the old one stays."""
    assert reading(broker, codec)["unit"] == "kWh"
    configured(folder, "MWh")
    assert reload(broker, codec)["state"] == "ready"
    assert reading(broker, codec)["unit"] == "MWh"
    configured(folder, "kwh")
    assert "unit: must be one of kWh, MWh, not 'kwh'; did you mean kWh?" in reload(broker, codec)
    configured(folder, "[")
    assert "application.yaml" in reload(broker, codec)
    assert reading(broker, codec)["unit"] == "MWh"
    configured(folder, "kWh")
    assert reload(broker, codec)["state"] == "ready"
    assert reading(broker, codec)["unit"] == "kWh"


@pytest.mark.parametrize("codec", CODECS[:2])
def test_a_version_that_means_something_else_by_a_tag_is_refused(
    codec: str, folder: Path, broker: BrokerProcess
) -> None:
    """Also one with other tags and the number of before, and one whose hook is misspelt; a good one is taken."""
    replaced(folder, codec, "2.0", ('"n": Tag("int")', '"n": Tag("string")'), ("version=1", "version=2"))
    assert "'n' was int and would be string" in reload(broker, codec)
    replaced(folder, codec, "2.1", ('"n": Tag("int")', '"n": Tag("int"), "more": Tag("int")'))
    assert "Schema.version" in reload(broker, codec)
    replaced(folder, codec, "2.2", ("def safe", "def saef"))
    assert "did you mean `safe`?" in reload(broker, codec)
    assert reading(broker, codec)["n"] == 5
    replaced(
        folder, codec, "2.3", ('"n": Tag("int")', '"n": Tag("int"), "more": Tag("int")'), ("version=1", "version=2")
    )
    assert reload(broker, codec)["schema_version"] == 2


@pytest.mark.parametrize("codec", CODECS[:2])
@pytest.mark.parametrize("wrong", ["tag undeclared", "text five"])
def test_readings_are_those_that_were_declared(codec: str, wrong: str, broker: BrokerProcess) -> None:
    """A tag that a closed schema has not, and a value of another type, are the codec's fault."""
    listener = Listener(broker, "up/wrong/#")
    device = Device(broker, codec)
    device.say(f"login wrong\n{wrong}\n".encode())
    device.until_closed()
    assert not listener.of("up/")
    listener.close()
    words = "not in the schema" if "tag" in wrong else "the schema says int"
    wait_until(lambda: words in broker.log_text())


@pytest.mark.parametrize("codec", CODECS[:2])
def test_a_warning_of_a_codec_is_a_warning(codec: str, broker: BrokerProcess) -> None:
    """In both isolations."""
    device = Device(broker, codec)
    device.say(f"login warned-{codec}\n".encode())
    wait_until(lambda: f"a warning of warned-{codec}" in broker.log_text())
    (line,) = (line for line in broker.log_text().splitlines() if f"a warning of warned-{codec}" in line)
    assert "[warning" in line
