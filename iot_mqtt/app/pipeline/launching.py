"""From a job's name to a running job: what it needs is looked for, and this process becomes its driver.

::

    iot-mqtt pipeline run clean  ──exec──▶  python spark/jobs/clean.py  ──▶  bin/spark-submit … pyspark-shell (JVM)

The driver starts ``spark-submit`` itself, as pyspark does it, with the arguments in PYSPARK_SUBMIT_ARGS. So signals
reach the driver's Python, its exit code is the command's, and the JVM, which reads a pipe from the driver, ends when
the driver does, even by SIGKILL. (``spark-submit job.py`` is the other way round: there the JVM is the parent, gets the
signals and ends without a word to the job.)
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from iot_mqtt.app.engines import EngineError
from iot_mqtt.app.engines.places import java
from iot_mqtt.app.engines.shipped import SHIPPED, target
from iot_mqtt.app.pipeline.errors import PipelineError

JOBS = ("clean", "aggregate", "alarm", "compact")
#: Of a job, instead of the checkout's, or the wheel's.
SPARK_DIR = "IOT_MQTT_SPARK_DIR"
MAKE_JARS = "make spark-jars"
INSTALLED_JARS = "iot-mqtt pipeline jars"
INSTALL = "pip install 'iot-mqtt[pipeline]' (in a checkout: make pipeline)"
#: Where jobs look for what was made for them besides their source.
TARGET = "IOT_MQTT_SPARK_TARGET"
#: Spark's configuration directory: none of the machine's. Java takes no archive of classes where one is in its path.
NO_CONF = "/nonexistent"
OLDEST_JAVA = 17


@dataclass(frozen=True, slots=True)
class Launch:
    """One job that is about to run."""

    job: str
    #: The folder ``spark`` of the source.
    folder: Path
    settings: Path
    master: str
    memory: str
    jars: Sequence[Path] = ()
    once: bool = False
    extra: Sequence[str] = ()

    @property
    def command(self) -> list[str]:
        """The driver."""
        once = ["--once"] if self.once else []
        job = str(self.folder / "jobs" / f"{self.job}.py")
        return [sys.executable, job, "--settings", str(self.settings), *once]

    @property
    def is_local(self) -> bool:
        """Whether nothing but this machine has to reach the driver."""
        return self.master.startswith("local")

    @property
    def submit_arguments(self) -> list[str]:
        """Of ``spark-submit``; what the user adds comes last, and wins."""
        arguments = ["--master", self.master, "--name", f"iot-mqtt {self.job}", "--driver-memory", self.memory]
        loopback = ("driver.bindAddress=127.0.0.1", "driver.host=127.0.0.1") if self.is_local else ()
        for setting in (*loopback, "ui.enabled=false", "ui.showConsoleProgress=false", "sql.session.timeZone=UTC"):
            arguments += ["--conf", f"spark.{setting}"]
        if self.jars:
            arguments += ["--jars", ",".join(map(str, self.jars))]
        return [*arguments, *self.extra]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Of the driver."""
        found = {name: value for name, value in environ.items() if name not in ("SPARK_HOME", "SPARK_CONF_DIR")}
        if not os.access(f"{found.get('JAVA_HOME')}/bin/java", os.X_OK):
            found.pop("JAVA_HOME", None)
        paths = [str(self.folder), *filter(None, [environ.get("PYTHONPATH")])]
        return (
            found
            | {
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONUNBUFFERED": "1",
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_SUBMIT_ARGS": shlex.join([*self.submit_arguments, "pyspark-shell"]),
                "SPARK_CONF_DIR": NO_CONF,
                TARGET: str(target(self.folder)),
            }
            | ({"SPARK_LOCAL_IP": "127.0.0.1"} if self.is_local else {})
        )

    def become(self) -> None:
        """Replace this process by the driver; does not return."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(self.command[0], self.command, self.environment(os.environ))  # noqa: S606


def find_folder(environ: Mapping[str, str]) -> Path:
    """The folder ``spark``: named in the environment, else of the checkout that this package runs from, or of what its
    wheel brought.
    """
    if named := environ.get(SPARK_DIR):
        if not (Path(named) / "jobs").is_dir():
            raise PipelineError(f"{SPARK_DIR}: there is no {named}/jobs")
        return Path(named).absolute()
    for folder in (*Path(__file__).resolve().parents, SHIPPED, *(Path.cwd() / "here").parents):
        if (folder / "spark" / "jobs").is_dir() and (folder / "spark" / "iot_spark").is_dir():
            return folder / "spark"
    raise PipelineError(
        "the jobs are not here: they are in the folder spark of the source, and in wheels; "
        f"run this inside a checkout, or name the folder in {SPARK_DIR}"
    )


def find_jars(folder: Path) -> list[Path]:
    """What Spark needs to speak to Kafka."""
    jars = target(folder) / "jars"
    found = sorted(jars.glob("*.jar"))
    if not found:
        command = INSTALLED_JARS if folder.is_relative_to(SHIPPED) else MAKE_JARS
        raise PipelineError(
            f"there are no jars in {jars}, and Spark needs them for Kafka: make them with `{command}` "
            "(needs Java 17 and Maven)"
        )
    return found


def check_pyspark() -> None:
    """Whether the driver will find pyspark."""
    if find_spec("pyspark") is None:
        raise PipelineError(f"pyspark is not installed: {INSTALL}")


def check_java() -> None:
    """Whether spark-submit will find a Java that Spark runs on."""
    try:
        said = subprocess.run(  # noqa: S603
            [java(), "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except EngineError as error:
        raise PipelineError(str(error)) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipelineError(f"{java()} does not run: {error}") from error
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = said.splitlines()[0] if said else "something else"
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java()} is {found}; set JAVA_HOME")


def make_archive(folder: Path) -> None:
    """Have Spark make the archive of its classes. Jobs run without it, too."""
    command = [sys.executable, "-m", "jobs.archive"]
    environment = {**os.environ, "PYTHONPATH": str(folder), TARGET: str(target(folder))}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if ran.returncode:
        raise PipelineError("\n".join(["the archive of Spark's classes:", *ran.stderr.splitlines()[-5:]]))
