"""The embedded grid against the contract, kill -9 and a spoilt log included."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.embedded import EmbeddedGrid
from tests.contract.driving import Pump
from tests.contract.persistent_suite import PersistentGridSuite


def make(directory: Path, pump: Pump) -> EmbeddedGrid:
    return EmbeddedGrid(directory, pump.cross)


class TestEmbeddedGrid(PersistentGridSuite):
    """Over a real directory."""

    factory = "tests.contract.test_embedded:make"

    def make(self, directory: Path, pump: Pump) -> EmbeddedGrid:
        return make(directory, pump)
