"""The log on the reference grid."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.memory import MemoryGrid
from tests.contract.driving import Pump
from tests.contract.log_following_suite import LogFollowingSuite
from tests.contract.log_lives_suite import LogLivesSuite
from tests.contract.log_suite import LogSuite


class InMemory:
    """Lives share one grid."""

    def make(self, directory: Path, pump: Pump) -> MemoryGrid:
        return MemoryGrid()


class TestLogInMemory(InMemory, LogSuite):
    """Of the sole writer of a grid."""


class TestLogOfTheLastWriter(InMemory, LogLivesSuite):
    """Of one among many."""

    writer = 255


class TestFollowingInMemory(InMemory, LogFollowingSuite):
    """Writer and followers share one grid."""
