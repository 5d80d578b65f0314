"""The broker where nothing can be compiled: it is built, says so if asked, and does all that it does elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, Options
from systemkit.waiting import wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto is native")

ROOT = Path(__file__).parents[2]


class UncompiledBroker(BrokerProcess):
    """A broker from a tree of its own."""

    def __init__(self, folder: Path, tree: Path) -> None:
        settings = {"uplink.file.rotate_seconds": 0.2, "mqtt.sys_interval": 0}
        super().__init__(folder, Options(settings=settings))
        self._tree = tree

    def command(self) -> list[str]:
        return [sys.executable, "-m", "iot_mqtt", *super().command()[1:]]

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment(self._tree)
            )


def environment(tree: Path, **more: str) -> dict[str, str]:
    """That of a user who was given no native code, and asks for none."""
    rest = {name: value for name, value in clean_environment().items() if name != "IOT_MQTT_NATIVE"}
    return rest | {"PYTHONPATH": str(tree)} | more


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, built where the compiler fails."""
    folder = tmp_path_factory.mktemp("tree")
    left_out = shutil.ignore_patterns("*.so", "__pycache__", "*.c")
    shutil.copytree(ROOT / "iot_mqtt", folder / "iot_mqtt", ignore=left_out)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "CC": shutil.which("false") or "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert not list(folder.rglob("*.so"))
    return folder


@pytest.fixture
def broker(tree: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that runs on these."""
    broker = UncompiledBroker(tmp_path / "broker", tree).start()
    try:
        yield broker
    except BaseException:
        broker.reap()
        raise
    broker.close()


def mosquitto(program: str, broker: BrokerProcess, *arguments: str) -> str:
    """What one of mosquitto's programs prints."""
    command = [program, "-h", "127.0.0.1", "-p", str(broker.ports["mqtt"]), "-q", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=True).stdout


def test_everything_goes_on_without_native_code(broker: BrokerProcess) -> None:
    """Sessions over a kill -9, in all versions, retained messages and the uplink's files."""
    mosquitto("mosquitto_sub", broker, "-i", "logger", "-c", "-t", "up/#", "-E")
    versions = ("mqttv31", "mqttv311", "mqttv5")
    for version in versions:
        mosquitto("mosquitto_pub", broker, "-V", version, "-t", f"up/{version}", "-m", '{"t": 1.50}', "-r")
    broker.restart()
    waiting = mosquitto("mosquitto_sub", broker, "-i", "logger", "-c", "-t", "up/#", "-C", "3", "-F", "%t %p")
    assert waiting.split("\n") == [f'up/{version} {{"t": 1.50}}' for version in ("mqttv31", "mqttv311", "mqttv5")] + [
        ""
    ]
    kept = mosquitto("mosquitto_sub", broker, "-t", "up/#", "-C", "3", "-F", "%r %t")
    assert sorted(kept.splitlines()) == sorted(f"1 up/{version}" for version in versions)

    def lines() -> list[bytes]:
        return [line for path in broker.data_dir.glob("uplink/*/*/*.jsonl") for line in path.read_bytes().splitlines()]

    wait_until(lambda: len(lines()) == 3, 10)
    assert all(line.endswith(b'"payload":{"t": 1.50}}') for line in lines())
    with Plain(broker.ports["mqtt"]) as client:
        client.send(bytes(range(256)))
        assert client.until_closed() == []
    assert "runs Python alone: nothing is compiled" in broker.log.read_text()


def test_a_demand_for_native_code_is_refused_with_a_sentence(tree: Path) -> None:
    """``IOT_MQTT_NATIVE=require``, as the tests themselves say."""
    asked = subprocess.run(
        [sys.executable, "-m", "iot_mqtt", "serve"],
        cwd=tree,
        env=environment(tree, IOT_MQTT_NATIVE="require"),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert asked.returncode != 0
    assert "IOT_MQTT_NATIVE=require" in asked.stderr.splitlines()[-1]
