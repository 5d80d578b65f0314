"""The wheel, where it is installed without a compiler and a checkout: all that the product is has come with it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from systemkit.forking import clean_environment
from systemkit.gateways import Gateway
from systemkit.process import MOSQUITTO, BrokerProcess, Options

pytestmark = [pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no wheel"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
#: Of the commit, as ``scripts/wheel.sh`` has it: 2001-09-09 01:46:40.
EPOCH = 1_000_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as ``make wheel`` makes it; what is compiled in the checkout is up to date, and compiled once."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        ".",
    ]
    told = {"IOT_MQTT_BUILD": "require", "SOURCE_DATE_EPOCH": str(EPOCH), "PYTHONHASHSEED": "0"}
    made = subprocess.run(command, cwd=ROOT, env={**os.environ, **told}, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and the locked dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "-q", "--no-deps"]
    pip += ["--only-binary", ":all:", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--no-compile", "--require-hashes", "-r", str(ROOT / "requirements" / "run.lock")], check=True
    )
    subprocess.run([*pip, str(wheel)], check=True)
    return folder


def environment(venv: Path) -> dict[str, str]:
    """That of a user who has neither a compiler nor Java nor the checkout, and insists on what is compiled."""
    rest = {name: value for name, value in clean_environment().items() if name not in ("PYTHONPATH", "JAVA_HOME")}
    home = venv.parent / "home"
    home.mkdir(exist_ok=True)
    return rest | {"PATH": str(venv / "bin"), "HOME": str(home), "IOT_MQTT_NATIVE": "require"}


class InstalledBroker(BrokerProcess):
    """A broker of a wheel."""

    def __init__(self, folder: Path, venv: Path) -> None:
        super().__init__(folder, Options(settings={"mqtt.sys_interval": 0}))
        self._venv = venv
        #: What it tells whoever started it, as systemd listens to it.
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(folder / "notify"))
        self.notified.settimeout(20)

    def command(self) -> list[str]:
        return [str(self._venv / "bin" / "iot-mqtt"), *super().command()[1:]]

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        told = {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "60000000"}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment(self._venv) | told,
            )

    def heard(self) -> str:
        """What it tells next."""
        return self.notified.recv(4096).decode()


@pytest.fixture(scope="module")
def broker(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledBroker]:
    """One that serves from it."""
    broker = InstalledBroker(tmp_path_factory.mktemp("broker"), installed)
    broker.start()
    try:
        yield broker
    finally:
        broker.close()
        assert "STOPPING=1\nSTATUS=draining" in broker.heard()
        broker.notified.close()


def said(venv: Path, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    command = [str(venv / "bin" / "iot-mqtt"), *arguments]
    ran = subprocess.run(
        command, cwd=venv.parent, env=environment(venv), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_a_wheel_is_of_its_commit_and_of_nothing_else(wheel: Path) -> None:
    """Not of the hour of its build, nor of what lies about in the checkout; what is compiled is all there."""
    with zipfile.ZipFile(wheel) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {2001}
        names = set(archive.namelist())
        digests = archive.read("iot_mqtt/compiled.digests").decode()
    assert not [name for name in names if name.endswith((".pyc", ".c", ".jar", ".class"))]
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "iot_mqtt").rglob("*.py")}
    assert ours == {name for name in names if name.endswith(".py") and "/shipped/" not in name}
    compiled = [line.split()[0] for line in digests.splitlines() if len(line.split()) > 2]
    listed = [*compiled, *(str(path.relative_to(ROOT)) for path in (ROOT / "iot_mqtt" / "native").glob("*.pyx"))]
    libraries = {name.split(".")[0] for name in names if name.endswith(".so")}
    assert {name.split(".")[0] for name in listed} <= libraries
    assert len(listed) > 50


def test_it_brings_what_the_cluster_and_the_jobs_are_made_of(wheel: Path) -> None:
    """The same files as the checkout's."""
    with zipfile.ZipFile(wheel) as archive:
        shipped = {
            name.partition("/shipped/")[2]: archive.read(name) for name in archive.namelist() if "/shipped/" in name
        }
    assert {"cluster/pom.xml", "cluster/config/ignite-server.xml", "spark/pom.xml", "spark/jobs/clean.py"} <= set(
        shipped
    )
    assert all((ROOT / name).read_bytes() == content for name, content in shipped.items())
    in_checkout = {
        str(path.relative_to(ROOT))
        for folder in ("cluster/gateway/src/main", "cluster/engines", "cluster/config", "spark/jobs", "spark/iot_spark")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"target", "__pycache__"} & set(path.parts)
    }
    assert in_checkout <= set(shipped)


def test_a_message_a_frame_and_the_answer_of_a_node(installed: Path, broker: BrokerProcess) -> None:
    """What a newcomer sees first, with what was compiled elsewhere; ``require`` would have refused anything else."""
    assert "runs compiled" in said(installed, "version")
    address = ["-h", "127.0.0.1", "-p", str(broker.ports["mqtt"]), "-q", "1"]
    mosquitto = {name: shutil.which(name) or name for name in ("mosquitto_sub", "mosquitto_pub")}
    subprocess.run([mosquitto["mosquitto_sub"], *address, "-i", "logger", "-c", "-t", "up/#", "-E"], check=True)
    subprocess.run([mosquitto["mosquitto_pub"], *address, "-t", "up/press-7/values", "-m", "71.3"], check=True)
    with Gateway(broker, "line-7", "", "").let_in() as gateway:
        gateway.post(7)
    heard = subprocess.run(
        [mosquitto["mosquitto_sub"], *address, "-i", "logger", "-c", "-t", "up/#", "-C", "2", "-F", "%t %p"],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    ).stdout.splitlines()
    assert heard[0] == "up/press-7/values 71.3"
    assert heard[1].startswith("up/line-7/")
    where = [
        "--url",
        f"http://127.0.0.1:{broker.ports['admin']}",
        "--token",
        (broker.data_dir / "admin.token").read_text().strip(),
    ]
    assert "logger" in said(installed, "ctl", *where, "sessions", "list")


def test_whoever_started_it_hears_how_it_is(broker: InstalledBroker) -> None:
    """As a unit of systemd's hears it: ready, alive, and that a reload begins and ends."""
    ready = broker.heard()
    assert ready.startswith("READY=1\nSTATUS=ready mqtt=")
    assert broker.heard() == "WATCHDOG=1"
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)
    assert broker.heard().startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert broker.heard() == "READY=1"


def test_what_comes_only_when_asked_for_is_named_with_its_command(installed: Path) -> None:
    """Spark, Java, Maven: none of them is here."""
    assert "report" in said(installed, "pipeline", "--help")
    assert "pip install 'iot-mqtt[pipeline]'" in said(installed, "pipeline", "run", "clean", "--once", code=1)
    assert "iot-mqtt cluster jars" in said(installed, "cluster", "up", "--nodes", "1", code=1)
    assert "there is no mvn" in said(installed, "cluster", "jars", code=1)
    assert "there is no mvn" in said(installed, "pipeline", "jars", code=1)
