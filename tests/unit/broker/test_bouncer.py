"""Bans at the broker: CONNECT is refused, who is there is disconnected, and who flaps or guesses is banned."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.auth.bans import BanBook
from iot_mqtt.broker.connections.conduct import MOST, Conduct, Patience
from iot_mqtt.codec import Connack, Connect, Disconnect, Properties
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.bans import Cause
from iot_mqtt.values import ProtocolVersion
from tests.unit.auth.authkit import outcome, start
from tests.unit.broker.harness import Client, Node

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
#: As the harness has all clients.
HOST = "192.0.2.1"


class Names:
    """Lets in whoever says a user name and the right password."""

    def __init__(self) -> None:
        self.asked = 0

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        self.asked += 1
        if attempt.password == b"wrong":
            return Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "no")
        return Principal(attempt.client_id, attempt.certificate_name or attempt.username, attempt.username is None)


class Barred:
    """A node with bans, and what is told when clients leave."""

    def __init__(self, flapping: Patience = Patience(), guessing: Patience = Patience()) -> None:  # noqa: B008
        grid = MemoryGrid()
        outcome(start(grid.open()))
        self.clock = ManualClock()
        self.book = BanBook(GridDirectory(grid, self.clock), self.clock, "n1")
        self.names = Names()
        self.node = Node(authenticator=self.names, bans=self.book)
        broker = self.node.broker
        self.book.on_added = broker.clients.bouncer.added
        conduct = Conduct(flapping, guessing, self.book, self.clock.monotonic)
        broker.clients.connections.on_closed = (*broker.clients.connections.on_closed, conduct.ended)

    def ban(self, seconds: float | None = None, **whom: Any) -> str:
        told: dict[str, Any] = {"client": None, "user": None, "address": None} | whom
        ban = outcome(start(self.book.add(**told, seconds=seconds, reason="why", by="me")))
        self.node.turn()
        return ban.id

    def come(self, client_id: str = "c", *, password: bytes = b"", source: str = HOST, user: str = "u") -> Client:
        """A client whose address counts as something."""
        client = self.node.open(V5)
        client.wire.channel.source = source
        client.send(Connect(V5, client_id, True, 0, user, password, None, Properties()))
        client.connack = next(iter(client.take(Connack)), None)
        return client

    def refused(self, client: Client) -> ReasonCode | None:
        return None if client.connack is None else client.connack.reason


@pytest.mark.parametrize(
    ("whom", "banned"),
    [
        ({"client": "press-*"}, True),
        ({"client": "lathe"}, False),
        ({"user": "ann"}, True),
        ({"user": "bob"}, False),
        ({"address": "192.0.2.0/24"}, True),
        ({"address": "198.51.100.0/24"}, False),
    ],
)
def test_who_is_banned_is_told_so(whom: dict[str, Any], banned: bool) -> None:
    """0x8A with the reason; 3.1.1 has 5 for it. No password is looked at, and it is counted by its cause."""
    barred = Barred()
    barred.ban(**whom)
    for version in (V5, V311):
        client = barred.node.connect("press-7", version, username="ann", password=b"pw")
        assert client.connack is not None
        expected = ReasonCode.SUCCESS
        if banned:
            expected = ReasonCode.BANNED if version is V5 else ReasonCode.NOT_AUTHORIZED
        assert (client.connack.reason, client.closed) == (expected, banned)
        if banned and version is V5:
            assert client.connack.properties.reason_string == "banned: why"
    assert barred.names.asked == (0 if banned else 2)
    assert dict(barred.node.counters.banned) == ({"operator": 2} if banned else {})
    assert barred.node.counters.connects_refused["BANNED"] == (2 if banned else 0)


@pytest.mark.parametrize("whom", [{"client": "press-7"}, {"client": "press-?"}, {"user": "ann"}, {"address": HOST}])
def test_who_is_there_has_to_go(whom: dict[str, Any]) -> None:
    """DISCONNECT has no code for a ban; it says that an operator did it, and why. Others stay where only they are."""
    barred = Barred()
    client = barred.node.connect("press-7", username="ann")
    old = barred.node.connect("lathe", V311, username="bob")
    silent = barred.node.open()
    barred.ban(**whom)
    [farewell] = client.take(Disconnect)
    assert (farewell.reason, farewell.properties.reason_string) == (
        ReasonCode.ADMINISTRATIVE_ACTION,
        "banned: why",
    )
    assert client.closed
    assert (old.closed, silent.closed) == (("address" in whom), ("address" in whom))


def test_a_ban_that_is_taken_back_lets_in_again() -> None:
    """At once, and when its time is over."""
    barred = Barred()
    id = barred.ban(client="c")
    assert barred.refused(barred.come()) is ReasonCode.BANNED
    outcome(start(barred.book.remove(id)))
    assert barred.refused(barred.come()) is ReasonCode.SUCCESS
    barred.ban(10, client="c")
    barred.clock.advance(11)
    assert barred.refused(barred.come()) is ReasonCode.SUCCESS


def test_who_flaps_is_banned_at_its_address() -> None:
    """The client, not the address behind which it is, and not its name elsewhere; with its cause in the list."""
    barred = Barred(flapping=Patience(5, 10, 60))
    for _ in range(6):
        client = barred.come()
        assert barred.refused(client) is ReasonCode.SUCCESS
        client.wire.peer_closes()
    assert barred.refused(barred.come()) is ReasonCode.BANNED
    assert barred.refused(barred.come("d")) is ReasonCode.SUCCESS
    [ban] = barred.book.page(None, 10)
    assert (ban.cause, ban.client, ban.address) == (Cause.FLAPPING, "c", HOST)
    assert dict(barred.node.counters.banned) == {"flapping": 1}
    barred.clock.advance(61)
    assert barred.refused(barred.come()) is ReasonCode.SUCCESS


def test_who_comes_back_now_and_then_does_not_flap() -> None:
    """At the pace that is allowed, for ever; an address that counts for nothing, at any pace."""
    barred = Barred(flapping=Patience(5, 10, 60))
    for _ in range(50):
        barred.come().wire.peer_closes()
        barred.come("local", source="").wire.peer_closes()
        barred.clock.advance(2)
    for _ in range(50):
        barred.come("local", source="").wire.peer_closes()
    assert len(barred.book) == 0


def test_who_guesses_is_not_asked_for_a_while() -> None:
    """So its guesses cost nothing, and nobody behind the same address. Who is connected by that name stays."""
    barred = Barred(guessing=Patience(5, 10, 60))
    there = barred.come()
    for _ in range(6):
        assert barred.refused(barred.come(password=b"wrong")) is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    asked = barred.names.asked
    assert barred.refused(barred.come(password=b"wrong")) is ReasonCode.BANNED
    assert barred.names.asked == asked
    assert not there.closed
    assert barred.refused(barred.come("d", password=b"right")) is ReasonCode.SUCCESS
    [ban] = barred.book.page(None, 10)
    assert (ban.cause, ban.client, ban.address) == (Cause.GUESSING, "c", HOST)


def test_off_is_off() -> None:
    """Nothing is counted, and nobody banned."""
    barred = Barred()
    for _ in range(30):
        barred.come().wire.peer_closes()
        barred.come(password=b"wrong")
    assert len(barred.book) == 0


def test_what_is_counted_is_bounded() -> None:
    """Client ids are made up as fast as one likes."""
    barred = Barred()
    conduct = Conduct(Patience(5), Patience(5), barred.book, barred.clock.monotonic)
    counting = conduct._flapping
    for number in range(MOST + 50):
        counting.once_more(str(number), HOST, 0.0)
    assert len(counting._of) == MOST
