"""The real mosquitto, as a peer that is asked."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port

BINARY = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
needed = pytest.mark.skipif(not os.path.exists(BINARY), reason="mosquitto is not installed")


@contextmanager
def mosquitto(folder: Path, *further: str) -> Iterator[int]:
    """One that lets everybody in, with further lines of configuration: its port."""
    number = free_port()
    lines = (f"listener {number} 127.0.0.1", "allow_anonymous true", "user root", *further)
    (folder / "conf").write_text("".join(f"{line}\n" for line in lines))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([BINARY, "-c", str(folder / "conf")], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", number), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield number
    finally:
        process.terminate()
        process.wait(60)
