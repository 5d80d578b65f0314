"""Recent verdicts are remembered for a while, without the passwords."""

from __future__ import annotations

import gc

import pytest

from iot_mqtt.auth.hashing import HashPool, Question
from iot_mqtt.auth.verdicts import Verifier
from iot_mqtt.pipeline import ManualClock
from tests.unit.auth.authkit import Clock, Threads, outcome, start


class Setting:
    """A verifier whose threads finish when told to; ``hashed`` counts real verifications."""

    def __init__(self, seconds: float = 30.0, size: int = 3) -> None:
        self.threads = Threads()
        self.clock = Clock()
        self.hashed = 0
        pool = HashPool(self.threads.cross, ManualClock(), verify=self._verify, executor=self.threads)
        self.verifier = Verifier(pool, self.clock, seconds=seconds, size=size)

    def _verify(self, encoded: str, password: bytes) -> bool:
        self.hashed += 1
        return encoded == password.decode()

    def ask(self, name: str, encoded: str, password: bytes) -> bool:
        asked = start(self.verifier.verify(Question(name, encoded, password), "192.0.2.1"))
        self.threads.turn()
        return outcome(asked)


@pytest.mark.parametrize("password", [b"pw", b"wrong"])
def test_a_verdict_is_remembered_and_then_forgotten(password: bytes) -> None:
    """Good ones and bad ones alike, for as long as was said."""
    setting = Setting(seconds=30)
    first = setting.ask("ann", "pw", password)
    setting.clock.now += 29.9
    assert setting.ask("ann", "pw", password) is first
    assert setting.hashed == 1
    setting.clock.now += 0.2
    assert setting.ask("ann", "pw", password) is first
    assert setting.hashed == 2


def test_a_verdict_is_about_name_hash_and_password() -> None:
    """Another of the three is another question; the parts cannot be shifted into each other."""
    setting = Setting(size=100)
    for question in [("ann", "pw", b"pw"), ("bob", "pw", b"pw"), ("ann", "pw2", b"pw"), ("annp", "w", b"pw")]:
        setting.ask(*question)
    assert setting.hashed == 4


def test_guessing_does_not_push_good_verdicts_out() -> None:
    """A thousand wrong passwords later the right one is still known; memory stays bounded."""
    setting = Setting(size=3)
    assert setting.ask("ann", "pw", b"pw")
    for number in range(1000):
        assert not setting.ask("ann", "pw", b"guess %d" % number)
    assert setting.hashed == 1001
    assert setting.ask("ann", "pw", b"pw")
    assert setting.hashed == 1001
    assert [len(known) for known in setting.verifier._verdicts.values()] == [1, 3]


@pytest.mark.parametrize("limits", [{"seconds": 0.0}, {"size": 0}])
def test_it_can_be_turned_off(limits: dict[str, float]) -> None:
    """No seconds or no room: every question is worked on."""
    setting = Setting(**limits)  # type: ignore[arg-type]
    assert setting.ask("ann", "pw", b"pw")
    assert setting.ask("ann", "pw", b"pw")
    assert setting.hashed == 2


def test_no_password_is_kept() -> None:
    """Once the verdict is there, nothing that the verifier holds leads to the password."""
    setting = Setting()
    password = b"a password found nowhere else"
    assert setting.ask("ann", "a password found nowhere else", password)
    seen, open_ends = set(), [setting.verifier]
    while open_ends:
        held: object = open_ends.pop()
        if id(held) in seen or isinstance(held, type):
            continue
        seen.add(id(held))
        assert held is not password
        assert not (isinstance(held, bytes) and password in held)
        if not callable(held):
            open_ends += gc.get_referents(held)
