"""Records of homes: no two of them are the same."""

from __future__ import annotations

from iot_mqtt.cluster.channels import Channels, read
from iot_mqtt.cluster.roster import Life
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.unit.broker.harness import run


def test_a_record_that_was_removed_and_made_anew_is_another_one() -> None:
    """Whoever read the old one and replaces it now does not get what is at home again (simulation, seed 342)."""
    grid, clock = MemoryGrid(), ManualClock()
    run(grid.open())
    home, other = (Channels(grid, clock, Life(number, 1), 100, 10) for number in (1, 2))
    assert run(home.take("c", None))
    old = run(other.get("c"))
    gone = WriteBatch()
    gone.remove(CacheName.CHANNELS, b"c")
    run(grid.commit(gone))
    assert run(home.take("c", None))
    assert not run(other.take("c", old))
    present = run(other.get("c"))
    assert present is not None and read(present).life == Life(1, 1)
    assert run(other.take("c", present))


def test_nobody_lets_go_of_another_nodes_client() -> None:
    """Only a record that names this life is removed, and only if nobody uses it."""
    grid, clock = MemoryGrid(), ManualClock()
    run(grid.open())
    home, other = (Channels(grid, clock, Life(number, 1), 100, 10) for number in (1, 2))
    assert run(home.take("c", None))
    run(other.let_go("c", lambda: True))
    run(home.let_go("c", lambda: False))
    assert run(home.get("c")) is not None
    run(home.let_go("c", lambda: True))
    assert run(home.get("c")) is None
