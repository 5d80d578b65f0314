"""Rights that change while clients are in, without files or a network."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.facade import NotPermitted
from iot_mqtt.broker.sessions.rights import AT_ONCE
from iot_mqtt.codec import Ack, ConnectWill, PacketType, Properties
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.ports.access import OF_NAMES, Action, ConnectAttempt, Denied, Permissions, Principal
from iot_mqtt.topics import matches
from iot_mqtt.values import Subscription
from tests.doubles.rights import AnyForm
from tests.unit.broker.harness import Client, Node, run

PUBREC, PUBREL, PUBCOMP = PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP


class Held(AnyForm):
    """The rights of one client: everything but some topics, for ``mine``."""

    def __init__(self, book: Book, owner: str) -> None:
        self._book, self._owner = book, owner

    def allows(self, action: Action, asked: str) -> bool:
        self._book.asked += 1
        if self._owner == "feeder":
            return True
        if action in OF_NAMES:
            return asked not in self._book.names
        plain = asked.split("/", 2)[2] if asked.startswith(("$share/", "$replay/")) else asked
        return not any(plain == filter or matches(filter, plain) for filter in self._book.denied.get(action, ()))


class Book:
    """Verifies every name; what it denies is denied to all but the feeder."""

    def __init__(self) -> None:
        self.given: list[Held] = []
        self.asked = 0
        self.denied: dict[Action, tuple[str, ...]] = {}
        self.names: tuple[str, ...] = ()
        self.broken = False

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Principal(attempt.client_id, attempt.username, anonymous=attempt.username is None)

    async def permissions(self, principal: Principal) -> Permissions:
        if self.broken:
            raise Unavailable("nobody knows")
        held = Held(self, principal.owner)
        self.given.append(held)
        return held

    def deny(self, *filters: str, actions: Iterable[Action] = Action) -> None:
        """From now on."""
        self.denied = dict.fromkeys(actions, filters)
        for held in self.given:
            held.version += 1


class Town:
    """A node with such a book."""

    def __init__(self) -> None:
        self.book = Book()
        self.node = Node(authenticator=self.book, authorizer=self.book)

    def enter(self, client_id: str = "c", user: str = "alice", **options: object) -> Client:
        return self.node.connect(client_id, username=user, **options)  # type: ignore[arg-type]

    def feed(self, topic: str, *payloads: bytes, qos: int = 1) -> None:
        feeder = self.enter("feeder", "feeder")
        feeder.publish(topic, *payloads, qos=qos)
        feeder.disconnect()

    def change(self, *gone: str) -> None:
        self.node.broker.lifecycle.rights.changed(gone)
        self.node.turn()

    def filters(self, client_id: str = "c") -> list[str]:
        return list(self.node.session(client_id).subscriptions)


@pytest.fixture
def town() -> Town:
    return Town()


def test_only_what_changed_is_asked_again(town: Town) -> None:
    """A round over clients whose rights are what they were costs nothing of the rules."""
    client = town.enter()
    client.subscribe("a", "b")
    town.book.deny()
    town.change()
    before = town.book.asked
    town.change()
    assert town.book.asked == before
    assert town.filters() == ["a", "b"]


def test_many_clients_are_asked_some_at_a_time(town: Town) -> None:
    """And all of them in the end, those of a change that comes meanwhile too."""
    clients = [town.enter(f"c{number}") for number in range(AT_ONCE + 5)]
    for client in clients:
        client.subscribe("a", "b")
    town.book.deny("a")
    town.node.broker.lifecycle.rights.changed(())
    assert sum(len(town.filters(f"c{number}")) == 2 for number in range(len(clients))) == 5, "not all in this turn"
    town.book.deny("a", "b")
    town.change()
    assert all(town.filters(f"c{number}") == [] for number in range(len(clients)))


def test_a_change_disconnects_whoever_is_gone_and_nobody_else(town: Town) -> None:
    """By owner: a name that nobody verified is nobody's."""
    alice, bob = town.enter("a"), town.enter("b", "bob")
    town.change("alice", "")
    assert alice.farewell is ReasonCode.NOT_AUTHORIZED
    assert alice.closed
    assert not bob.closed
    assert town.node.broker.clients.connections.clients == 1


def test_a_name_that_is_taken_back_ends_the_connection(town: Town) -> None:
    """0x87; the session stays its owner's."""
    client, other = town.enter("plc-1", expiry=600), town.enter("c")
    client.subscribe("t", qos=1)
    town.book.names = ("plc-1",)
    town.book.deny()
    town.change()
    assert client.farewell is ReasonCode.NOT_AUTHORIZED
    assert not other.closed
    assert town.node.session("plc-1").owner == "alice"
    again = town.enter("plc-1", clean=False, expiry=600)
    assert again.connack is not None
    assert again.connack.reason is ReasonCode.NOT_AUTHORIZED


def test_a_client_id_that_its_user_may_not_have_any_more_ends_the_connection(town: Town) -> None:
    """0x87; an id that the broker gave is free, and other users are not asked for."""
    wrong, right, given, other = town.enter("press"), town.enter("line-1"), town.enter(""), town.enter("p", "bob")
    asked: list[tuple[str, str]] = []

    def may_be(user: str, client_id: str) -> bool:
        asked.append((user, client_id))
        return client_id.startswith("line-")

    town.node.broker.lifecycle.rights.renamed({"alice"}, may_be)
    town.node.turn()
    assert wrong.farewell is ReasonCode.NOT_AUTHORIZED
    assert not any(one.closed for one in (right, given, other))
    assert sorted(asked) == [("alice", "line-1"), ("alice", "press")]


def test_a_message_that_waits_for_room_is_dropped_and_counted(town: Town) -> None:
    """A session that ends with its connection has a queue; what may not leave it is over, the rest goes on."""
    client = town.enter(receive_maximum=1)
    client.subscribe("a", "b", qos=1)
    town.feed("a", b"1", b"2")
    town.feed("b", b"3")
    assert client.payloads() == [b"1"]
    town.book.deny("a")
    town.change()
    client.ack(PacketType.PUBACK, 1)
    assert client.drain() == [b"3"]
    assert town.node.dropped() == {"not_authorized": 1}
    assert town.node.waiting == 0


@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_kept_session_is_owed_is_asked_for(town: Town, qos: int) -> None:
    """In flight, in the log before and behind the change: none of it is sent, all of it is counted."""
    client = town.enter(clean=False, expiry=600, receive_maximum=1)
    client.subscribe("a", "b", qos=qos)
    town.feed("a", b"1", b"2", qos=qos)
    assert client.payloads() == [b"1"]
    client.lose()
    town.book.deny("a")
    town.feed("a", b"3", qos=qos)
    town.feed("b", b"4", qos=qos)
    again = town.enter(clean=False, expiry=600, receive_maximum=1)
    if qos == 2:
        assert [ack.packet_id for ack in again.take(Ack) if ack.type is PUBREL] == [1]
        again.ack(PUBCOMP, 1)
    assert again.drain() == [b"4"]
    assert town.filters() == ["b"]
    assert town.node.dropped() == {"not_authorized": 3}
    assert town.node.waiting == 0
    counters = town.node.counters
    assert counters.messages_matched == counters.messages_delivered + 3
    town.node.restart()
    assert town.node.waiting == 0, "nothing of it is kept"


def test_a_member_of_a_shared_group_leaves_what_it_has_to_others(town: Town) -> None:
    """It is disconnected; nothing of the group is lost or dropped."""
    alice = town.enter("a", clean=False, expiry=600)
    alice.subscribe("$share/g/t", qos=1)
    town.feed("t", b"1", b"2")
    assert alice.payloads() == [b"1", b"2"]
    other = town.enter("f", "feeder", clean=False, expiry=600)
    other.subscribe("$share/g/t", qos=1)
    town.book.deny("t")
    town.change()
    assert alice.farewell is ReasonCode.NOT_AUTHORIZED
    assert sorted(other.drain()) == [b"1", b"2"]
    assert town.filters("a") == []
    assert town.node.dropped() == {}


def test_a_replay_needs_both_rights(town: Town) -> None:
    """That to the past can be taken back alone."""
    client = town.enter(clean=False, expiry=600)
    client.subscribe("$replay/0/t", "t", qos=1)
    town.book.deny("t", actions=[Action.REPLAY])
    town.change()
    assert town.filters() == ["t"]
    assert not client.closed


def test_a_will_is_asked_for_when_it_is_published(town: Town) -> None:
    """Not published where its right is gone, or where nobody can say."""
    watcher = town.enter("w", "feeder")
    watcher.subscribe("gone", qos=1)
    for number in range(3):
        client = town.enter(f"c{number}", will=ConnectWill(b"gone", b"%d" % number, 1))
        if number == 1:
            town.book.deny("gone", actions=[Action.PUBLISH])
        town.book.broken = number == 2
        client.lose()
    assert watcher.payloads() == [b"0"]
    assert town.node.counters.denied == {"will": 2}


def test_a_will_from_before_there_were_owners_goes_out(town: Town) -> None:
    """Nobody knows whose it is; it was allowed at CONNECT."""
    watcher = town.enter("w", "feeder")
    watcher.subscribe("gone", qos=1)
    client = town.enter(will=ConnectWill(b"gone", b"old", 1))
    town.node.session("c").owner = None
    town.book.deny("gone")
    client.lose()
    assert watcher.payloads() == [b"old"]


def test_a_will_is_judged_by_where_its_client_was() -> None:
    """Its groups, its address and the rules that it brought, also after the node was started again."""
    asked: list[Principal] = []

    class Gate(Book):
        async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
            principal = Principal(attempt.client_id, attempt.username)
            return principal._replace(groups=frozenset({"crew"}), brought_rules=("allow publish w",))

        async def permissions(self, principal: Principal) -> Permissions:
            asked.append(principal)
            return await super().permissions(principal)

    book = Gate()
    node = Node(authenticator=book, authorizer=book)
    will = ConnectWill(b"w", b"gone", 1, False, Properties(will_delay_interval=5))
    node.connect("c", username="alice", expiry=60, will=will)
    [there] = asked
    node.restart()
    asked.clear()
    node.advance(10)
    assert asked == [there]
    assert there.groups == {"crew"} and there.brought_rules and there.address


def test_nobody_subscribes_for_a_client_that_may_not() -> None:
    """Of one that is connected it is known at once; of one that is away it is asked when it comes."""
    town = Town()
    town.enter(expiry=600, clean=False)
    town.book.deny("secret/#")
    results: list[object] = []
    drive(town.node.view.subscribing.subscribe("c", Subscription("secret/1")), results.append, results.append)
    town.node.turn()
    assert isinstance(results[0], NotPermitted)
    assert run(town.node.view.subscriptions("c")) == []


class OnlyOpen(AnyForm):
    """The right to one topic; it knows nothing of shared subscriptions, as rules of an ACL do not."""

    def allows(self, action: Action, asked: str) -> bool:
        return action in OF_NAMES or asked == "open"


def test_a_shared_subscription_needs_the_right_to_what_it_shares() -> None:
    """The filter behind the name of the group is asked for, and not the whole of it [MQTT5 4.8.2]."""
    client = Node(authorizer=OnlyOpen()).connect("c")
    suback = client.subscribe("open", "$share/g/open", "secret", "$share/g/secret", "$share/open/secret", qos=1)
    refused = ReasonCode.NOT_AUTHORIZED
    assert suback.reasons == (1, 1, refused, refused, refused)
