"""Claims of one client whose record names another life: who is asked, who is fenced, and when it becomes ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred, succeed

from iot_mqtt.cluster.channels import Channels, read
from iot_mqtt.cluster.fencing import Fences
from iot_mqtt.cluster.links import LinkError
from iot_mqtt.cluster.loading import Loading, Owner
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.ownership import FOREIGN, RELEASED, Ownership
from iot_mqtt.cluster.roster import Life
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.strays import Strays
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.cluster import Claim
from iot_mqtt.ports.registry import Member, Registry, RegistryState
from tests.unit.broker.harness import run

OWN, OTHER = Life(1, 5), Life(2, 7)


class SharedMemory(MemoryGrid):
    """Notes who is fenced."""

    servers = copies_missing = 1
    read_trouble: str | None = None
    read_failures = 0

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, int, int]] = []

    async def identify(self, node: int, boot: int) -> None:
        """Nobody writes but this test."""

    async def fence(self, node: int, boot: int) -> None:
        self.done.append(("fence", node, boot))

    async def finish(self, node: int, boot: int) -> None:
        self.done.append(("finish", node, boot))


class Here:
    """Node 1, where a client comes that is at home on node 2."""

    def __init__(self, answer: bytes = RELEASED) -> None:
        self.clock, self.grid = ManualClock(), SharedMemory()
        run(self.grid.open())
        settings = ClusterSettings()
        self.membership = Membership(OWN, cast(Registry, self), self.clock, settings.unseen_grace)
        self.channels = Channels(self.grid, self.clock, OWN, 100, 10)
        self.fences = Fences(self.grid)
        self.connected: Callable[[], bool] = lambda: True
        self.answer = answer
        self.asked: list[int] = []
        loading = Loading(cast(Owner, self), self.clock, settings.fence_again)
        self.ownership = Ownership(
            self.membership,
            self.channels,
            loading,
            Strays(self.channels, loading, self.clock, settings),
            self.fences,
            self.clock,
            settings,
            self._ask,
        )
        assert run(Channels(self.grid, self.clock, OTHER, 100, 10).take("c", None))

    @property
    def state(self) -> RegistryState:
        return RegistryState.CONNECTED if self.connected() else RegistryState.SUSPENDED

    def _ask(self, number: int, client_id: str, owner: str | None) -> Deferred[bytes | LinkError]:
        self.asked.append(number)
        return succeed(self.answer)

    def list(self, *lives: Life) -> None:
        """These are there now."""
        self.membership.update([Member(f"n{life.number}", life.number, life.boot, "1") for life in lives])

    def claim(self) -> Deferred[tuple[Claim, str]]:
        return Deferred.fromCoroutine(self.ownership.claim("c"))

    @property
    def home(self) -> Life:
        record = run(self.channels.get("c"))
        assert record is not None
        return read(record).life


def result(claim: Deferred[tuple[Claim, str]]) -> Claim | None:
    """What it has come to by now."""
    found: list[tuple[Claim, str]] = []
    claim.addCallback(found.append)
    return found[0][0] if found else None


def test_a_home_that_is_alive_is_asked_and_not_fenced() -> None:
    """It lets go of the client itself."""
    here = Here()
    here.list(OTHER)
    assert result(here.claim()) is Claim.TAKEN
    assert (here.asked, here.grid.done, here.home) == ([2], [], OWN)


def test_a_home_that_is_dead_is_fenced_before_anything_is_taken() -> None:
    """What it has half written is finished, too; nobody is asked."""
    here = Here()
    here.list(OTHER)
    here.list()
    assert result(here.claim()) is Claim.INHERITED
    assert (here.asked, here.home) == ([], OWN)
    assert here.grid.done == [("fence", *OTHER), ("finish", *OTHER)]


def test_an_earlier_life_is_dead_although_its_node_is_there() -> None:
    """The node is not asked for what its present life does not have."""
    here = Here()
    here.list(Life(2, 8))
    assert result(here.claim()) is Claim.INHERITED
    assert (here.asked, here.grid.done[0]) == ([], ("fence", *OTHER))


def test_a_home_that_was_never_seen_is_waited_for() -> None:
    """It may be about to appear: it is fenced when its grace is over, and not before."""
    here = Here()
    claim = here.claim()
    here.clock.advance(1.0)
    assert (result(claim), here.grid.done, here.home) == (None, [], OTHER)
    for _ in range(20):
        here.clock.advance(0.5)
    assert here.grid.done[:1] == [("fence", *OTHER)]
    assert here.home == OWN


def test_a_foreign_session_is_left_alone() -> None:
    """Its home says whose it is."""
    here = Here(FOREIGN)
    here.list(OTHER)
    assert result(here.claim()) is Claim.FOREIGN
    assert here.home == OTHER


def test_nothing_is_taken_while_the_others_cannot_be_seen() -> None:
    """From the start, or since the home was asked."""
    here = Here()
    here.list(OTHER)
    here.connected = lambda: False
    assert result(here.claim()) is Claim.REFUSED
    here.connected = lambda: not here.asked
    assert result(here.claim()) is Claim.REFUSED
    assert (here.asked, here.home) == ([2], OTHER)


def test_each_death_of_a_node_is_fenced() -> None:
    """That an earlier life is fenced says nothing of a later one; one that is fenced is not fenced again."""
    here = Here()
    run(here.fences.fence(2, 6))
    run(here.fences.fence(2, 7))
    run(here.fences.fence(2, 6))
    assert [done for done in here.grid.done if done[0] == "fence"] == [("fence", 2, 6), ("fence", 2, 7)]
