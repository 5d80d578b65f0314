"""What any grid must keep of devices: every record comes back as it was written, and only swaps that fit succeed.

Subclass ``DevicesSuite`` and define ``make`` (and ``pump``, if the grid needs a reactor).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from iot_mqtt.grid.devices import GridDeviceStore
from iot_mqtt.ports.devices import Half, State, StoredCommand, StoredDevice, StoredSequence, StoredShadow, replace
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.values import Standing
from tests.contract.driving import Pump

T = TypeVar("T")

PLAIN = StoredCommand("c1", "d1", State.QUEUED, 1000.5)
FULL = StoredCommand(
    id="c-2._x",
    target="gw/dev ä/1",
    state=State.ACKED,
    accepted_at=1000.25,
    deadline=1010.125,
    written=1020.5,
    retry=True,
    wants_reply=True,
    idempotency_key="k\0ey",
    sender="sender/ü",
    user="ä",
    identities=("ä\x001", "b"),
    standing=Standing(frozenset({"ops", "ü"}), "127.0.0.1", ("allow read a",), "grid"),
    response_topic="a/b",
    correlation=bytes(range(256)),
    times={"queued": 1000.25, "sent": 1001.0, "acked": 1002.0},
    attempts=2,
    detail="dönes",
    values={"a": 1, "b": [True, None, "x"]},
)


class Opened:
    """A store on an open grid."""

    def __init__(self, grid: Grid, pump: Pump) -> None:
        self.grid, self.pump = grid, pump
        self.store = GridDeviceStore(grid)
        pump.run(grid.open())

    def write(self, *puts: Callable[[WriteBatch], None]) -> None:
        """All of them in one batch."""
        batch = WriteBatch()
        for put in puts:
            put(batch)
        self.pump.run(self.grid.commit(batch))

    def commands(self, *commands: StoredCommand) -> None:
        self.write(*(lambda batch, one=one: self.store.put_command(batch, one) for one in commands))

    def all(self, found: AsyncIterator[T]) -> list[T]:
        async def gather() -> list[T]:
            return [one async for one in found]

        return self.pump.run(gather())


class DevicesSuite:
    """Subclass, and define ``make``."""

    def make(self, directory: Path, pump: Pump) -> Grid:
        raise NotImplementedError

    def pump(self) -> Pump:
        return Pump()

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Opened]:
        pump = self.pump()
        opened = Opened(self.make(tmp_path, pump), pump)
        yield opened
        pump.run(opened.grid.close())

    @pytest.mark.parametrize("command", [PLAIN, FULL, replace(PLAIN, user="")], ids=["plain", "full", "anonymous"])
    def test_a_command_comes_back(self, opened: Opened, command: StoredCommand) -> None:
        """Every field, and the body beside it."""
        opened.commands(command)
        opened.write(lambda batch: opened.store.put_body(batch, command.target, command.id, b"\0body"))
        assert opened.pump.run(opened.store.command(command.owner, command.id)) == command
        assert opened.pump.run(opened.store.body(command.owner, command.id)) == b"\0body"
        assert opened.all(opened.store.commands(command.owner)) == [command]
        opened.write(lambda batch: opened.store.remove_command(batch, command.target, command.id))
        assert opened.pump.run(opened.store.command(command.owner, command.id)) is None
        assert opened.pump.run(opened.store.body(command.owner, command.id)) is None

    def test_commands_are_found_by_client(self, opened: Opened) -> None:
        """Neither those of a client whose name begins alike, nor bodies."""
        of = {owner: replace(PLAIN, target=owner, id=f"of-{owner}") for owner in ("d", "d1", "d1c", "e")}
        opened.commands(*of.values(), replace(PLAIN, target="d1/sub", id="sub"))
        opened.write(lambda batch: opened.store.put_body(batch, "d1", "of-d1", b"x"))
        assert [one.id for one in opened.all(opened.store.commands("d1"))] == ["of-d1", "sub"]
        assert len(opened.all(opened.store.commands())) == 5

    def test_a_command_is_swapped_only_for_what_stands_there(self, opened: Opened) -> None:
        """Two nodes that want to end it: one does."""
        opened.commands(PLAIN)
        expired, failed = (replace(PLAIN, state=state) for state in (State.EXPIRED, State.FAILED))
        assert opened.pump.run(opened.store.swap_command(PLAIN, expired))
        assert not opened.pump.run(opened.store.swap_command(PLAIN, failed))
        assert opened.all(opened.store.commands()) == [expired]

    def test_devices_come_back_by_gateway(self, opened: Opened) -> None:
        """A gateway first, then its devices; the sequences are no devices."""
        devices = [
            StoredDevice("gw", "", 1.0, 2.5, online=True, codec="acme", version="1", address="p", logins=3),
            StoredDevice("gw", "a", 1.0, 2.0, readings=9),
            StoredDevice("gw", "b", 1.0, 2.0),
        ]
        other = StoredDevice("gx", "a", 1.0, 2.0)
        for device in (*devices, other):
            opened.write(lambda batch, device=device: opened.store.put_device(batch, device))  # type: ignore[misc]
        opened.write(lambda batch: opened.store.put_sequence(batch, "gw", StoredSequence(7, 2**63)))
        assert opened.all(opened.store.devices("gw")) == devices
        assert len(opened.all(opened.store.devices())) == 4
        opened.write(lambda batch: opened.store.remove_device(batch, "gw", "a"))
        assert [one.device for one in opened.all(opened.store.devices("gw"))] == ["", "b"]
        assert opened.pump.run(opened.store.sequence("gw")) == StoredSequence(7, 2**63)
        assert opened.pump.run(opened.store.sequence("gx")) is None

    @pytest.mark.parametrize("owner", [None, "", "ann\0001", "ü" * 40_000])
    def test_a_sequence_comes_back(self, opened: Opened, owner: str | None) -> None:
        """With whose gateway it is, and until it is removed."""
        store, run, found = opened.store, opened.pump.run, StoredSequence(1, 2, owner)
        opened.write(lambda batch: store.put_sequence(batch, "gw", found))
        assert run(store.sequence("gw")) == found
        opened.write(lambda batch: store.remove_sequence(batch, "gw"))
        assert run(store.sequence("gw")) is None

    def test_a_shadow_has_two_halves(self, opened: Opened) -> None:
        """One is written, one is swapped, version by version."""
        empty, first = StoredShadow(), StoredShadow(1, {"t": 20.5, "on": True}, {"t": 1, "on": 2})
        store, run = opened.store, opened.pump.run
        assert (run(store.reported("d/1")), run(store.desired("d/1"))) == (empty, empty)
        opened.write(lambda batch: store.put_reported(batch, "d/1", first))
        assert not run(store.swap_desired("d/1", StoredShadow(2, {"t": 2})))
        assert run(store.swap_desired("d/1", StoredShadow(1, {"t": 1})))
        assert not run(store.swap_desired("d/1", StoredShadow(1, {"t": 3})))
        assert run(store.swap_desired("d/1", StoredShadow(2, {"t": 2})))
        assert run(store.reported("d/1")) == first
        assert run(store.desired("d/1")).values == {"t": 2}

    def test_shadows_are_found_by_half(self, opened: Opened) -> None:
        """A page at a time, in the order of their targets; those that were taken away are not there."""
        store, run = opened.store, opened.pump.run
        some = StoredShadow(1, {"t": 1}, {"t": 1})
        for target in ("a", "b/1", "b/2", "gone"):
            opened.write(lambda batch, target=target: store.put_reported(batch, target, some))  # type: ignore[misc]
        opened.write(lambda batch: store.remove_reported(batch, "gone"))
        for target in ("b/2", "full"):
            assert run(store.swap_desired(target, some))
        assert run(store.shadows_after(Half.REPORTED, "", 2)) == ["a", "b/1"]
        assert run(store.shadows_after(Half.REPORTED, "b/1", 2)) == ["b/2"]
        assert run(store.shadows_after(Half.DESIRED, "", 10)) == ["b/2", "full"]
        assert run(store.swap_desired("b/2", StoredShadow(2)))
        assert [run(store.remove_empty_desired(target)) for target in ("b/2", "full", "none")] == [True, False, False]
        assert run(store.shadows_after(Half.DESIRED, "", 10)) == ["full"]

    def test_a_damaged_half_of_a_shadow_can_be_removed(self, opened: Opened) -> None:
        """None that can be read, here or by a later version."""
        store, run = opened.store, opened.pump.run
        opened.write(
            lambda batch: store.put_reported(batch, "good", StoredShadow(1, {"t": 1}, {"t": 1})),
            lambda batch: batch.put(CacheName.SHADOWS, b"rlater", b"\x20{}"),
            lambda batch: batch.put(CacheName.SHADOWS, b"rbad", b"\x10nothing"),
        )
        found = [run(store.remove_damaged(Half.REPORTED, target)) for target in ("good", "later", "bad", "none")]
        assert found == [False, False, True, False]
        assert run(store.shadows_after(Half.REPORTED, "", 10)) == ["good", "later"]

    def test_what_cannot_be_read_is_passed_over_and_counted(self, opened: Opened) -> None:
        """A newer major version, and no JSON; the others are there."""
        opened.commands(PLAIN)
        key = b"\0\x02d1c"
        opened.write(
            lambda batch: batch.put(CacheName.COMMANDS, key + b"0", b"\x20{}"),
            lambda batch: batch.put(CacheName.COMMANDS, key + b"2", b"\x10nothing"),
            lambda batch: batch.put(CacheName.COMMANDS, key + b"3", b'\x10{"id": "3"}'),
        )
        assert opened.all(opened.store.commands("d1")) == [PLAIN]
        assert opened.store.unreadable == 3
