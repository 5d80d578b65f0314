"""The log on RocksDB."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from tests.contract.driving import Pump
from tests.contract.log_following_suite import LogFollowingSuite
from tests.contract.log_suite import LogSuite


class OnDisk:
    """Over a real directory."""

    courses = 3

    def make(self, directory: Path, pump: Pump) -> EmbeddedGrid:
        return EmbeddedGrid(Engine(directory), pump.cross)


class TestLogOnDisk(OnDisk, LogSuite):
    """As one process has it."""


class TestFollowingOnDisk(OnDisk, LogFollowingSuite):
    """Writer and followers share one grid, for the embedded one has no other processes; the number fills its byte."""

    writer = 254
