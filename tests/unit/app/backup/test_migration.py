"""A migration that is cut off anywhere: at no moment are both sides served, and the next attempt finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.migration import Migrated, copy
from iot_mqtt.app.config import Config
from iot_mqtt.app.migrated import refuse_migrated
from iot_mqtt.cluster.joining import join, known_nodes
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.archive import copying, sums_of
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.records.keys import client_prefix, route_key, session_key, subscription_key
from iot_mqtt.ports.filling import Unfinished, refuse_unfinished
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from tests.contract.driving import Pump
from tests.unit.app.backup.cutkit import Failing

CLIENTS = 60


def all_of(cache: CacheName, key: bytes) -> bool:
    return False


def opened(pump: Pump) -> MemoryGrid:
    grid = MemoryGrid()
    pump.run(grid.open())
    return grid


def filled(pump: Pump) -> MemoryGrid:
    grid, batch = opened(pump), WriteBatch()
    for number in range(CLIENTS):
        client = f"client-{number}"
        batch.put(CacheName.SESSIONS, session_key(client), b"session")
        batch.put(CacheName.SUBSCRIPTIONS, subscription_key(client_prefix(client), f"line/{number % 7}/#"), b"wants")
    batch.put(CacheName.WILLS, session_key("only-a-will"), b"will")
    pump.run(grid.commit(batch))
    return grid


def served(pump: Pump, target: Grid, folder: Path) -> tuple[bool, bool]:
    """Whether a node would serve the source, and whether one would join the target."""
    try:
        refuse_migrated(folder)
        source = True
    except OpenFault:
        source = False
    if pump.run(known_nodes(target)) == []:
        return source, False
    found = pump.run(target.get(CacheName.META, b"migration"))
    return source, found is None


@pytest.mark.parametrize("answers_lost", [False, True])
def test_one_that_is_cut_off_anywhere_is_finished_by_the_next(
    tmp_path: Path, answers_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a write, or before its answer."""
    monkeypatch.setattr(copying, "_BATCH_ENTRIES", 16)
    pump, config = Pump(), Config()
    source, whole = filled(pump), opened(pump)
    before = pump.run(sums_of(source, all_of)).told()
    (tmp_path / "whole").mkdir()
    pump.run(copy(source, whole, config, tmp_path / "whole", Migrated()))
    wanted = pump.run(sums_of(whole, all_of)).told()
    cuts = 0
    while True:
        folder = tmp_path / str(cuts)
        folder.mkdir()
        target = opened(pump)
        failing = Failing(target)
        failing.left, failing.answers_lost = cuts, answers_lost
        try:
            pump.run(copy(source, failing, config, folder, Migrated()))
            break
        except Unavailable:
            cuts += 1
        assert served(pump, target, folder) != (True, True)
        if served(pump, target, folder)[1]:
            # Only the answer to the last step was lost.
            assert pump.run(sums_of(target, all_of)).told() == wanted
            continue
        if cuts > 1 or answers_lost:
            with pytest.raises(Unfinished, match="iot-mqtt migrate"):
                pump.run(refuse_unfinished(target))
        told = Migrated()
        pump.run(copy(source, target, config, folder, told))
        assert told.again == (cuts > 1 or answers_lost)
        assert told.sessions == CLIENTS
        assert pump.run(sums_of(target, all_of)).told() == wanted
        assert served(pump, target, folder) == (False, True)
    assert cuts > 12
    assert pump.run(sums_of(source, all_of)).told() == before


def test_sessions_wills_and_wishes_are_those_of_a_dead_node(tmp_path: Path) -> None:
    """As it would have left them, had it been in the cluster."""
    pump = Pump()
    source, target = filled(pump), opened(pump)
    pump.run(copy(source, target, Config(), tmp_path, Migrated()))
    (known,) = pump.run(known_nodes(target))
    assert (known.number, known.boot, known.cleaned) == (0, 1, 0)
    homes = {key for key, _ in pump.run(target.page(CacheName.CHANNELS, b"", None, 5000))}
    assert homes == {b"client-%d" % number for number in range(CLIENTS)} | {b"only-a-will", b"\0groups-0"}
    routes = [key for key, _ in pump.run(target.page(CacheName.ROUTES, b"", None, 5000))]
    assert routes == [route_key(0, f"line/{number}/#") for number in range(7)]
    place = pump.run(join(target, "node-1"))
    assert (place.number, place.boot) == (1, 2)


def test_a_target_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    pump = Pump()
    source, target = filled(pump), opened(pump)
    pump.run(join(target, "node-1"))
    before = pump.run(sums_of(target, all_of)).told()
    with pytest.raises(BackupError, match="there is something in meta"):
        pump.run(copy(source, target, Config(), tmp_path, Migrated()))
    assert pump.run(sums_of(target, all_of)).told() == before
    refuse_migrated(tmp_path)


def test_another_source_does_not_finish_what_one_has_begun(tmp_path: Path) -> None:
    pump = Pump()
    source, target = filled(pump), opened(pump)
    failing = Failing(target)
    failing.left = 2
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    with pytest.raises(Unavailable, match="cut off"):
        pump.run(copy(source, failing, Config(), first, Migrated()))
    with pytest.raises(Unavailable, match=r"/first was filling this grid, and was interrupted: finish that"):
        pump.run(copy(source, target, Config(), second, Migrated()))
