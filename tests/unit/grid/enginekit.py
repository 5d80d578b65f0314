"""Engines over real files, and directories as a killed process leaves them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from iot_mqtt.grid.engine import Engine


def engine(directory: Path) -> Engine:
    return Engine(directory, pause=lambda seconds: None)


def left_by_a_kill(live: Path, copy: Path, values: Iterable[bytes]) -> Path:
    """``copy`` of a directory to which each value was written in a batch of its own: everything in one segment."""
    subject = engine(live)
    subject.open()
    for number, value in enumerate(values):
        subject.write({b"\x07%03d" % number: value})
    shutil.copytree(live, copy)
    subject.close()
    return copy
