"""The embedded grid against the contract, kill -9 and a spoilt log included."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.syncing import Syncing
from tests.contract.driving import Pump, ReactorPump
from tests.contract.persistent_suite import PersistentGridSuite


def make(directory: Path, pump: Pump) -> EmbeddedGrid:
    syncing = Syncing(pump.reactor) if isinstance(pump, ReactorPump) else None
    return EmbeddedGrid(Engine(directory), pump.cross, syncing=syncing)


class TestEmbeddedGrid(PersistentGridSuite):
    """Over a real directory."""

    factory = "tests.contract.test_embedded:make"

    def make(self, directory: Path, pump: Pump) -> EmbeddedGrid:
        return make(directory, pump)


class TestEmbeddedGridOfANode(TestEmbeddedGrid):
    """With a reactor, as nodes have it: small commits are written in its thread."""

    def pump(self) -> Pump:
        return ReactorPump()
