"""Passwords of the admin port and those of MQTT wait for the same threads, and not for each other's wrong ones."""

from __future__ import annotations

from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.admin.admins import AdminDesk
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.lockout import Lockout
from iot_mqtt.admin.sign_in import SignIn
from iot_mqtt.auth.fair_queue import FEW, Allowance
from iot_mqtt.auth.hashing import HashPool, Question
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from tests.unit.auth.authkit import Threads, outcome, start

ADDRESS = "192.0.2.1"
PASSWORD = "correct horse"


class Ports:
    """An address that shows passwords at both ports; a password fits the hash that it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock, self.threads, grid = ManualClock(), Threads(), MemoryGrid()
        outcome(start(grid.open()))
        self.pool = HashPool(
            self.threads.cross,
            clock,
            threads=1,
            allowance=Allowance(2, 1.0),
            verify=lambda encoded, password: encoded == f"hash of {password.decode()}",
            executor=self.threads,
        )
        monkeypatch.setattr("iot_mqtt.auth.argon.hash_password", lambda password: f"hash of {password.decode()}")
        monkeypatch.setattr("iot_mqtt.auth.argon.check", lambda encoded: None)
        desk = AdminDesk(GridDirectory(grid, clock), self.pool, clock.wall)
        self.sign_in = SignIn(desk, self.pool, Lockout(), cast(Any, None), clock.monotonic)
        added = start(desk.add("ann", PASSWORD, Role.ADMIN, must_change=False))
        self.threads.turn()
        outcome(added)

    def admin(self, name: str, password: str) -> Deferred[Any]:
        asked = ensureDeferred(self.sign_in.admin(name, password, ADDRESS))
        asked.addErrback(lambda failure: failure.value)
        return asked

    def mqtt(self, name: str, password: str) -> Deferred[Any]:
        asked = self.pool.verify(Question(name, f"hash of {PASSWORD}", password.encode()), ADDRESS)
        return asked.addErrback(lambda failure: failure.value)


@pytest.mark.parametrize("flooded", ["admin", "mqtt"])
def test_wrong_passwords_at_one_port_keep_nobody_out_of_the_other(
    flooded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same address, whose names somebody makes up: the right password is looked at in its turn."""
    ports = Ports(monkeypatch)
    flood, other = (ports.admin, ports.mqtt) if flooded == "admin" else (ports.mqtt, ports.admin)
    guesses = [flood(f"nobody-{number}", "guess") for number in range(2 * FEW)]
    ports.threads.turn()
    right = other("ann", PASSWORD)
    ports.threads.turn()
    verdict = outcome(right)
    assert not isinstance(verdict, Exception), verdict
    refused = flood("ann", PASSWORD)
    ports.threads.turn()
    assert isinstance(outcome(refused), Exception)
    assert sum(guess.called for guess in guesses) >= FEW
