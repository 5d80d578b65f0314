"""What a wheel brings beside Python: the sources of the cluster's jars and of the jobs, as a checkout has them.

``iot_mqtt/shipped`` is there only in what was installed from a wheel (``setup.py``). Jars are not in it: Maven makes
them when somebody asks, below ``~/.local/share/iot-mqtt``, or what ``IOT_MQTT_SHARE`` names, in a folder for each
state of the sources, so that a newer version never runs on older jars.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from iot_mqtt.app.engines.errors import EngineError

SHIPPED: Final = Path(__file__).parents[2] / "shipped"
#: Where jars are made, instead of the user's own folder.
SHARE: Final = "IOT_MQTT_SHARE"
_LINES_OF_A_FAILURE: Final = 30


def target(source: Path) -> Path:
    """Where Maven leaves what it makes of ``source``: beside it in a checkout, else in a folder of the user's."""
    if not source.is_relative_to(SHIPPED):
        return source / "target"
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    share = Path(os.environ.get(SHARE) or data / "iot-mqtt")
    return share / f"{source.name}-{_digest(source)}"


def make(source: Path) -> Path:
    """Have Maven make the jars of ``source``, and return their folder. All of them are there then, or none."""
    if shutil.which("mvn") is None:
        raise EngineError("there is no mvn: the jars need Maven and a JDK 17 (Debian: maven, openjdk-17-jdk-headless)")
    made = target(source)
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=made.parent, prefix="making-") as folder:
            work = Path(folder) / source.name
            shutil.copytree(source, work, ignore=shutil.ignore_patterns("target", "__pycache__"))
            _maven(work)
            shutil.rmtree(made, ignore_errors=True)
            (work / "target").replace(made)
    except OSError as error:
        raise EngineError(f"cannot make the jars in {made}: {error.strerror or error}") from error
    return made / "jars"


def _maven(folder: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", "pom.xml", "package", "-Dmaven.test.skip=true"]
    ran = subprocess.run(  # noqa: S603
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if ran.returncode:
        said = ran.stdout.decode(errors="replace").splitlines()
        raise EngineError("\n".join(["Maven failed:", *said[-_LINES_OF_A_FAILURE:]]))


def _digest(source: Path) -> str:
    found = sha256()
    for file in sorted(path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        found.update(f"{file.relative_to(source)} {sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:12]
