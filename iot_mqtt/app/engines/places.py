"""Where the launcher finds what it starts: a checkout or what a wheel brings, the jars that Maven made, and a Java.

Nothing is downloaded here. What is missing is named together with the command that makes it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.shipped import SHIPPED, target

#: Makes what ``Places.jars`` looks for, in a checkout, and anywhere else.
MAKE_JARS = "make cluster-jars"
INSTALLED_JARS = "iot-mqtt cluster jars"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one checkout that the servers are started from; a wheel's are laid out as these are.

    ``making``: where servers that are started and end in order leave archives of their classes.
    """

    checkout: Path
    making: Path | None = None

    @classmethod
    def find(cls) -> Places:
        """The checkout that this package runs from, else what its wheel brought, else the checkout around the working
        directory.
        """
        for folder in (*Path(__file__).resolve().parents, SHIPPED, *(Path.cwd() / "here").parents):
            if (folder / "cluster" / "pom.xml").is_file():
                return cls(folder)
        raise EngineError(
            "there is no cluster/pom.xml here: run this inside a checkout of the source, where the jars are made"
        )

    @property
    def state(self) -> Path:
        """Where a cluster is kept that was given no directory."""
        return (Path.cwd() if self.checkout == SHIPPED else self.checkout) / ".cluster"

    @property
    def sources(self) -> Path:
        """What the jars are made of."""
        return self.checkout / "cluster"

    @property
    def config(self) -> Path:
        return self.checkout / "cluster" / "config"

    def jars(self, kind: str) -> list[Path]:
        """The class path of one kind of server, in a fixed order."""
        folder = target(self.sources) / "jars" / kind
        found = sorted(folder.glob("*.jar"))
        if not found:
            command = INSTALLED_JARS if self.checkout == SHIPPED else MAKE_JARS
            raise EngineError(f"there are no jars in {folder}: make them with `{command}` (needs Java 17 and Maven)")
        return found

    def archive(self, kind: str) -> Path:
        """Of the classes of one kind of server; it need not be there (``engines.archives``)."""
        return target(self.sources) / "archives" / f"{kind}.jsa"

    def template(self, name: str) -> str:
        """The text of a file of ``cluster/config``."""
        try:
            return (self.config / name).read_text(encoding="utf-8")
        except OSError as error:
            raise EngineError(f"cannot read {self.config / name}: {error.strerror}") from error


def java() -> str:
    """The Java that is used: ``JAVA_HOME``'s, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(found := f"{home}/bin/java", os.X_OK):
        return found
    if path := shutil.which("java"):
        return path
    raise EngineError("there is no java: install a Java 17 (Debian: openjdk-17-jdk-headless), or set JAVA_HOME")
