"""A test session in a process of its own, for the test that kills it: ``main`` starts a server and waits."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.enginekit.servers import running


def main(folder: str) -> None:
    with running(Path(folder), zookeeper=1):
        print("up", flush=True)
        signal.pause()
