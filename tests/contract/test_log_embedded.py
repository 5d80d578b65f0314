"""The log on RocksDB."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.embedded import EmbeddedGrid
from tests.contract.driving import Pump
from tests.contract.log_suite import LogSuite


class TestLogOnDisk(LogSuite):
    """Over a real directory."""

    def make(self, directory: Path, pump: Pump) -> EmbeddedGrid:
        return EmbeddedGrid(directory, pump.cross)
