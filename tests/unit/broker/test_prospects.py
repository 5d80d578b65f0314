"""What would become of a client is what becomes of it: the same answers as a CONNECT gets, and nothing is done."""

from __future__ import annotations

import pytest

from iot_mqtt.auth.bans import BanBook
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.limits import Limits
from tests.doubles.rights import Ruled
from tests.unit.auth.authkit import outcome, start
from tests.unit.broker.harness import Node

WRONG = Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "no")


class Names(Ruled):
    """Everybody is who he says, but eve; what they may do is up to rules."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        if attempt.username == "eve":
            return WRONG
        return Principal(attempt.client_id, attempt.username, attempt.username is None)


class World:
    """Gus has a session and as many connections as he may have; some are banned; a name is nobody's."""

    def __init__(self, *, clean: bool = False) -> None:
        grid = MemoryGrid()
        outcome(start(grid.open()))
        clock = ManualClock()
        bans = BanBook(GridDirectory(grid, clock), clock, "n1")
        for whom in ({"client": "banned"}, {"user": "mallory"}, {"user": "eve", "client": "e"}):
            told = {"client": None, "user": None, "address": None} | whom
            outcome(start(bans.add(**told, seconds=None, reason="why", by="me")))
        limits = {"gus": Limits(connections=1), "ann": Limits(connections=1)}
        self.names = Names("deny client nobody\nallow client *\nallow all #")
        self.node = Node(
            authenticator=self.names,
            authorizer=self.names,
            bans=bans,
            limits=lambda who: limits.get(who.owner),
            clean_for_others=clean,
        )
        self.node.connect("gus-1", username="gus", clean=False, expiry=600)
        self.node.connect("ann-1", username="ann", clean=False, expiry=600).disconnect()

    def prospect(self, client_id: str, user: str | None) -> Principal | Denied:
        attempt = ConnectAttempt(client_id, user, b"", "192.0.2.1:5", "mqtt", 5)
        verdict = outcome(start(self.names.authenticate(attempt)))
        return outcome(start(self.node.broker.prospects.of(attempt, verdict)))


CASES = [
    ("banned", "ann", ReasonCode.BANNED),
    ("m", "mallory", ReasonCode.BANNED),
    ("e", "eve", ReasonCode.BANNED),
    ("other", "eve", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    ("nobody", "ann", ReasonCode.NOT_AUTHORIZED),
    ("gus-1", "ann", ReasonCode.NOT_AUTHORIZED),
    ("gus-1", None, ReasonCode.NOT_AUTHORIZED),
    ("gus-2", "gus", ReasonCode.QUOTA_EXCEEDED),
    ("gus-1", "gus", None),
    ("ann-1", "ann", None),
    ("ann-2", "ann", None),
    ("free", "bob", None),
    ("", "bob", None),
]


@pytest.mark.parametrize(("client_id", "user", "reason"), CASES)
def test_it_says_what_a_client_is_told(client_id: str, user: str | None, reason: ReasonCode | None) -> None:
    """Bans before the password and behind it, names, sessions of others, limits; in the order of CONNECT."""
    world = World()
    counters = world.node.counters
    before = dict(counters.banned), dict(counters.denied), dict(counters.limited)
    foreseen = world.prospect(client_id, user)
    assert (dict(counters.banned), dict(counters.denied), dict(counters.limited)) == before, "nobody was refused"
    assert (foreseen.reason if isinstance(foreseen, Denied) else None) is reason
    connack = world.node.connect(client_id, username=user, clean=not client_id).connack
    assert connack is not None and connack.reason is (reason or ReasonCode.SUCCESS)


def test_where_the_session_of_another_would_end_it_is_no_hindrance() -> None:
    """By `auth.session_of_another_user: clean`."""
    world = World(clean=True)
    assert isinstance(world.prospect("gus-1", "bob"), Principal)


def test_a_node_that_lets_nobody_in_says_so() -> None:
    """Whoever it is."""
    world = World()
    world.node.broker.clients.door.refusing = Refused("the node is drained", ReasonCode.USE_ANOTHER_SERVER)
    assert world.prospect("free", "bob") == Denied(ReasonCode.USE_ANOTHER_SERVER, "the node is drained")


def test_what_another_node_decides_is_not_known_here() -> None:
    """A session that is not here may be there."""
    world = World()
    prospects = world.node.broker.prospects
    assert prospects.open_question("free") == ""
    prospects.alone = lambda: False
    assert prospects.open_question("gus-1") == "", "it is here"
    assert "another node" in prospects.open_question("free")
    assert prospects.open_question("") == "", "it gets a new one"
