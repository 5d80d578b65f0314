"""``iot-mqtt cluster`` as a person runs it, on a directory of its own that is cleared away whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.enginekit.watchdog import at_the_end

COMMAND = (sys.executable, "-m", "iot_mqtt", "cluster")


class CommandLine:
    """The commands on one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker_file = folder / "broker.yaml"

    def arguments(self, command: str, *options: str) -> list[str]:
        return [*COMMAND, command, "--dir", str(self.folder), *options]

    def run(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run to the end, whatever comes of it."""
        arguments = self.arguments(command, *options)
        return subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=110)

    def __call__(self, command: str, *options: str) -> str:
        """What a command prints; it must work."""
        done = self.run(command, *options)
        assert done.returncode == 0, f"{command} {' '.join(options)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, dict[str, Any]]:
        """``status --json`` by the name of the server."""
        return {item["name"]: item for item in json.loads(self("status", "--json"))}

    def pids(self) -> dict[str, int | None]:
        return {name: item["pid"] for name, item in self.status().items()}


@contextmanager
def command_line(folder: Path) -> Iterator[CommandLine]:
    """A directory for one cluster; what runs in it ends with the block, or with the test session."""
    there = CommandLine(folder)
    with at_the_end(*there.arguments("down", "--purge")):
        yield there
