"""When faults mean quarantine, for whom, and for how long."""

from __future__ import annotations

import pytest

from iot_mqtt.plugins.conduct import Conduct
from iot_mqtt.plugins.running import NotAvailable
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.suspects import Peer, Suspect


def suspect_of(peer: str, device: str) -> Suspect:
    """Of a connection; ``device`` is empty until it was let in."""
    made = Peer(peer)
    made.gateway, made.accepted = device, bool(device)
    return made.suspect


class Case:
    """A conduct with a clock that stands."""

    def __init__(self, **limits: float) -> None:
        self.now = 1000.0
        self.begun = 0
        self.conduct = Conduct(Limits(**limits), lambda: self.now, self._begin)  # type: ignore[arg-type]

    def _begin(self) -> None:
        self.begun += 1

    def admits(self, peer: str = "h:1") -> bool:
        try:
            self.conduct.check("acme", peer)
        except NotAvailable:
            return False
        return True


def test_a_few_grave_faults_are_a_quarantine() -> None:
    """But not when they are far apart."""
    case = Case()
    for _ in range(3):
        case.conduct.grave("died", "exit code 1")
        case.now += 40
    assert case.admits()
    case.now += 60
    for _ in range(3):
        assert case.admits()
        case.conduct.grave("died", "exit code 1")
    assert not case.admits() and case.begun == 1
    assert case.conduct.faults == {"died": 6}


def test_a_timeout_counts_twice() -> None:
    """Everybody had to wait until it was noticed. Where it is known who caused it, it takes three addresses."""
    case = Case()
    case.conduct.grave("timeout", "late")
    assert case.admits()
    case.conduct.grave("timeout", "late")
    assert not case.admits()
    case = Case()
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        assert case.admits()
        case.conduct.grave("timeout", "late", suspect_of(f"{host}:1", ""))
    assert not case.admits()


def test_each_quarantine_lasts_twice_as_long_up_to_a_bound() -> None:
    """Those within a day."""
    case = Case(quarantine=10, quarantine_most=30, grave_faults=1)
    lengths = []
    for _ in range(3):
        case.conduct.grave("died", "again")
        lengths.append(case.conduct.remaining)
        case.now = case.conduct.until
        assert case.admits()
    assert lengths == [10, 20, 30]
    case.now += 2 * 86_400
    case.conduct.grave("died", "again")
    assert case.conduct.remaining == 10


def test_one_broken_gateway_is_held_off_alone() -> None:
    """Exceptions of one address are no reason to cut off the others."""
    case = Case()
    for port in range(50):
        case.conduct.light("exception", "KeyError", suspect_of(f"10.0.0.1:{port}", ""))
    assert not case.admits("10.0.0.1:99")
    assert case.admits("10.0.0.2:99") and case.begun == 0
    case.now += 61
    assert case.admits("10.0.0.1:99")


def test_exceptions_of_many_gateways_are_the_plugins() -> None:
    """Twenty of at least three addresses within the window."""
    case = Case()
    for number in range(20):
        assert case.begun == 0
        case.conduct.light("exception", "KeyError", suspect_of(f"10.0.0.{number % 10}:1", ""))
    assert case.begun == 1
    with pytest.raises(NotAvailable, match="20 faults of 10 gateways") as refused:
        case.conduct.check("acme", "10.9.9.9:1")
    assert refused.value.reason == "quarantined"


def test_who_crashes_the_worker_is_held_off_for_longer_each_time() -> None:
    """By its name once it was let in; others of its address are served."""
    case = Case(hold_off=10, hold_off_most=30)
    lengths = []
    for _ in range(4):
        case.conduct.grave("died", "SIGSEGV", suspect_of("10.0.0.1:1", "tracker-5"))
        (held,) = case.conduct.hold_offs.shown()
        lengths.append(held.seconds)
        with pytest.raises(NotAvailable, match="device tracker-5 is held off by acme for"):
            case.conduct.check_device("acme", "tracker-5")
        case.conduct.check_device("acme", "tracker-6")
        assert case.admits("10.0.0.1:2")
        case.now += held.seconds
        case.conduct.check_device("acme", "tracker-5")
    assert lengths == [10, 20, 30, 30] and case.begun == 0


def test_many_names_of_one_address_are_the_addresss_fault() -> None:
    """Whoever makes up names cuts off itself, and not the plugin."""
    case = Case()
    for number in range(10):
        case.conduct.grave("died", "SIGSEGV", suspect_of("10.0.0.1:1", f"made-up-{number}"))
    assert not case.admits("10.0.0.1:2") and case.admits("10.0.0.2:2") and case.begun == 0


def test_crashes_of_several_addresses_are_the_plugins() -> None:
    """And those that nobody in particular has caused."""
    case = Case()
    case.conduct.grave("died", "SIGSEGV", suspect_of("10.0.0.1:1", "a"))
    case.conduct.grave("died", "SIGSEGV", suspect_of("10.0.0.2:1", "b"))
    assert case.begun == 0
    case.conduct.grave("died", "SIGSEGV")
    assert case.begun == 1


def test_addresses_that_are_remembered_are_bounded() -> None:
    """A flood of addresses costs no memory."""
    case = Case(light_faults=100_000)
    for number in range(3000):
        case.conduct.light("exception", "x", suspect_of(f"host{number}:1", ""))
        case.conduct.grave("died", "x", suspect_of(f"other{number}:1", f"device-{number}"))
        case.conduct.until = 0.0
    assert len(case.conduct._shares) <= 1024 and len(list(case.conduct.hold_offs.shown())) == 1024
