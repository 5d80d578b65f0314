"""Who has to wait after wrong passwords, and whom that does not concern."""

from __future__ import annotations

from iot_mqtt.admin.lockout import FORGOTTEN, FREE, LONGEST, Lockout


def fail(lockout: Lockout, times: int, name: str = "ann", source: str = "a", now: float = 0.0) -> float:
    wait = 0.0
    for _ in range(times):
        wait = lockout.begin(name, source, now)
    return wait


def test_waiting_doubles_up_to_a_bound() -> None:
    """However many there were."""
    lockout = Lockout()
    assert [fail(lockout, 1) for _ in range(FREE + 4)] == [0.0] * FREE + [1.0, 2.0, 4.0, 8.0]
    assert fail(lockout, 5000) == LONGEST


def test_names_and_addresses_wait_by_themselves() -> None:
    """Each pair."""
    lockout = Lockout()
    fail(lockout, FREE + 3)
    assert lockout.wait("ann", "a", 0.0) == 4.0
    assert lockout.wait("ann", "b", 0.0) == lockout.wait("bob", "a", 0.0) == 0.0


def test_what_is_forgotten_is_free_again() -> None:
    """After an hour, a right password, or an admin's word."""
    lockout = Lockout()
    fail(lockout, FREE + 10)
    assert fail(lockout, 1, now=FORGOTTEN + 1) == 0.0
    fail(lockout, FREE + 10)
    lockout.forgive("ann", "a")
    assert fail(lockout, FREE) == 0.0
    fail(lockout, 10)
    lockout.unlock(["bob", "ann"])
    assert lockout.wait("ann", "a", 0.0) == 0.0


def test_pairs_are_few_and_made_up_names_set_nobody_free() -> None:
    """Who waits stays while others go, unless all of them wait."""
    lockout = Lockout(most=10)
    fail(lockout, FREE + 5)
    for number in range(1000):
        fail(lockout, 1, name=str(number))
    assert lockout.wait("ann", "a", 0.0) == 16.0
    for number in range(1000):
        fail(lockout, FREE + 1, name=str(number))
    assert sum(lockout.wait(str(number), "a", 0.0) > 0 for number in range(1000)) == 10


def test_what_nobody_could_look_at_is_no_guess() -> None:
    """Nothing is left of it."""
    lockout = Lockout(most=2)
    fail(lockout, FREE)
    for number in range(100):
        fail(lockout, 1, name=str(number))
        lockout.take_back(str(number), "a")
    assert lockout.failures("ann", "a") == FREE
