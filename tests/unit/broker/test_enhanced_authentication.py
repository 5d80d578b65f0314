"""Enhanced authentication [MQTT5 4.12] with a method of the tests: rounds, verdicts, and the same again later."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.codec import Ack, Auth, Connack, ConnectWill, PacketType, Properties, Request, Subscribe
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import (
    OF_NAMES,
    Action,
    Challenge,
    ConnectAttempt,
    Denied,
    Exchange,
    Granted,
    Permissions,
    Principal,
)
from tests.doubles.rights import AnyForm
from tests.unit.broker.harness import Client, Node

CONTINUE, REAUTHENTICATE = ReasonCode.CONTINUE_AUTHENTICATION, ReasonCode.REAUTHENTICATE
RIGHT, WRONG = b"42", b"41"


class RiddleExchange:
    """As many questions as it takes; the right answer ends it, a wrong one too."""

    def __init__(self, attempt: ConnectAttempt) -> None:
        self._attempt = attempt

    async def step(self, data: bytes | None) -> Challenge | Granted | Denied:
        if data is None:
            return Challenge(b"what is it?")
        if data == b"hint":
            return Challenge(b"a number")
        if data == b"bug":
            raise RuntimeError("the method is broken")
        if data == RIGHT:
            return Granted(Principal(self._attempt.client_id, "solver"), b"welcome")
        return Denied(ReasonCode.NOT_AUTHORIZED, "that is not it")


class Riddle:
    """The method."""

    name = "riddle"

    def begin(self, attempt: ConnectAttempt) -> Exchange:
        return RiddleExchange(attempt)


class Rights(AnyForm):
    """Rights that are counted: everybody may publish to the topic of the day, by whatever name."""

    def __init__(self, version: int) -> None:
        self.version = version

    def allows(self, action: Action, topic: str) -> bool:
        return action in OF_NAMES or topic == f"day/{self.version}"


class Days:
    """Each time somebody is let in, another day."""

    def __init__(self) -> None:
        self._given = 0

    async def permissions(self, principal: Principal) -> Permissions:
        self._given += 1
        return Rights(self._given)


@pytest.fixture
def node() -> Node:
    return Node(methods={"riddle": Riddle()})


def begin(node: Node, data: bytes | None = None, **properties: Any) -> Client:
    """A client that has named its method in CONNECT."""
    return node.connect("c", authentication_method="riddle", authentication_data=data, **properties)


def say(client: Client, data: bytes | None, reason: ReasonCode = CONTINUE, method: str = "riddle") -> None:
    """AUTH from the client."""
    client.send(Auth(reason, Properties(authentication_method=method, authentication_data=data)))


def heard(client: Client) -> Auth:
    """The one AUTH that came."""
    (auth,) = client.take(Auth)
    return auth


def welcome(client: Client) -> Connack:
    """The one CONNACK that came."""
    (connack,) = client.take(Connack)
    return connack


def verdict(client: Client, topic: str) -> ReasonCode:
    """What a QoS 1 message to a topic is answered with."""
    (ack,) = client.publish(topic, b"x", qos=1)
    assert isinstance(ack, Ack)
    return ack.reason


def test_a_server_that_needs_more_data_sends_auth_0x18(node: Node) -> None:
    """[MQTT-4.12.0-2] One AUTH per round with the method and its data, and no CONNACK before the end."""
    client = begin(node)
    assert client.connack is None
    for answer, question in ((b"hint", b"what is it?"), (RIGHT, b"a number")):
        auth = heard(client)
        assert (auth.reason, auth.properties.authentication_data) == (CONTINUE, question)
        assert client.take(Connack) == []
        say(client, answer)
    assert client.take(Auth) == []
    assert welcome(client).reason is ReasonCode.SUCCESS


def test_auth_and_connack_carry_the_method_of_connect(node: Node) -> None:
    """[MQTT-4.12.0-5] And CONNACK the last word of the method."""
    client = begin(node)
    assert heard(client).properties.authentication_method == "riddle"
    say(client, RIGHT)
    connack = welcome(client)
    assert (connack.properties.authentication_method, connack.properties.authentication_data) == ("riddle", b"welcome")


def test_one_round_is_enough_when_the_data_is_in_connect(node: Node) -> None:
    """No AUTH at all; CONNACK names the method nevertheless."""
    client = begin(node, RIGHT)
    assert client.take(Auth) == []
    assert client.connack is not None
    assert client.connack.reason is ReasonCode.SUCCESS
    assert client.connack.properties.authentication_method == "riddle"


@pytest.mark.parametrize("rounds", [[WRONG], [None, WRONG], [None, b"hint", WRONG]], ids=["at once", "one", "two"])
def test_a_failed_exchange_ends_with_its_reason_and_a_close(node: Node, rounds: list[bytes | None]) -> None:
    """[MQTT-4.12.0-4] CONNACK of 0x80 or more, then the end of the connection; no session is left."""
    client = begin(node, rounds[0])
    for data in rounds[1:]:
        say(client, data)
    connack = client.connack or welcome(client)
    assert connack.reason is ReasonCode.NOT_AUTHORIZED
    assert not connack.session_present
    assert client.closed
    assert node.broker.sessions.get("c") is None
    assert node.counters.connects_refused == {"NOT_AUTHORIZED": 1}


def test_a_method_that_is_not_offered_is_refused(node: Node) -> None:
    """[MQTT-4.12.0-1] 0x8C and a close."""
    client = node.connect("c", authentication_method="charade")
    assert client.connack is not None
    assert client.connack.reason is ReasonCode.BAD_AUTHENTICATION_METHOD
    assert client.closed


def test_a_broken_method_refuses_and_harms_nobody_else(node: Node) -> None:
    """Its error ends its own connection with 0x80 and is counted; others are let in."""
    client = begin(node)
    say(client, b"bug")
    assert welcome(client).reason is ReasonCode.UNSPECIFIED_ERROR
    assert client.closed
    assert begin(node, RIGHT).connack is not None


def test_the_server_sends_only_listed_reasons_in_auth(node: Node) -> None:
    """[MQTT-3.15.2-1] 0x18 while it asks, 0x00 when a re-authentication succeeded; 0x19 is the client's."""
    client = begin(node)
    say(client, b"hint")
    say(client, RIGHT)
    say(client, None, REAUTHENTICATE)
    say(client, RIGHT)
    assert [auth.reason for auth in client.take(Auth)] == [CONTINUE, CONTINUE, CONTINUE, ReasonCode.SUCCESS]


@pytest.mark.parametrize("reason", [0x01, 0x04, 0x1A, 0x87, 0xFF], ids=hex)
def test_an_auth_with_a_reason_that_is_not_listed_closes(node: Node, reason: int) -> None:
    """[MQTT-3.15.2-1] Whatever its properties."""
    client = begin(node, RIGHT)
    method = b"\x15\x00\x06riddle"
    client.feed(bytes((0xF0, 2 + len(method), reason, len(method))) + method)
    assert client.farewell in (ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR)
    assert client.closed


def test_auth_carries_nothing_that_could_be_left_out(node: Node) -> None:
    """[MQTT-3.15.2-2] [MQTT-3.15.2-3] No reason string and no user properties, so they make no AUTH too large."""
    client = begin(node, maximum_packet_size=64, request_problem_information=True)
    say(client, RIGHT)
    say(client, RIGHT, REAUTHENTICATE)
    asked, granted = client.take(Auth)
    for auth in (asked, granted):
        assert auth.properties.reason_string is None
        assert auth.properties.user_properties == ()


def test_reauthentication_renews_the_rights_of_a_live_connection() -> None:
    """AUTH 0x00 with the method and its data, and the rights are those of the new verdict."""
    node = Node(methods={"riddle": Riddle()}, authorizer=Days())
    client = begin(node, RIGHT)
    assert verdict(client, "day/2") is ReasonCode.NOT_AUTHORIZED
    say(client, RIGHT, REAUTHENTICATE)
    auth = heard(client)
    assert auth.reason is ReasonCode.SUCCESS
    assert (auth.properties.authentication_method, auth.properties.authentication_data) == ("riddle", b"welcome")
    assert verdict(client, "day/2") is ReasonCode.NO_MATCHING_SUBSCRIBERS
    assert not client.closed


class Whoever:
    """Lets in whomever the data names."""

    name = "whoever"

    def begin(self, attempt: ConnectAttempt) -> Exchange:
        return Naming(attempt.client_id)


class Naming:
    """One round."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id

    async def step(self, data: bytes | None) -> Challenge | Granted | Denied:
        return Granted(Principal(self._client_id, (data or b"").decode()))


def test_reauthentication_never_makes_another_user_of_a_client() -> None:
    """[MQTT-4.12.1-2] The session stays with who began it: 0x87, and the connection ends."""
    node = Node(methods={"whoever": Whoever()})
    client = node.connect("c", authentication_method="whoever", authentication_data=b"alice", expiry=60)
    say(client, b"alice", REAUTHENTICATE, "whoever")
    assert heard(client).reason is ReasonCode.SUCCESS
    say(client, b"bob", REAUTHENTICATE, "whoever")
    assert client.farewell is ReasonCode.NOT_AUTHORIZED
    assert client.closed
    assert node.session("c").owner == "alice"


def test_the_connection_serves_on_while_it_reauthenticates(node: Node) -> None:
    """Between 0x19 and the verdict messages come and go as before."""
    client = begin(node, RIGHT)
    client.subscribe("a")
    say(client, None, REAUTHENTICATE)
    client.publish("a", b"meanwhile")
    assert client.payloads() == [b"meanwhile"]
    say(client, RIGHT)
    assert [auth.reason for auth in client.take(Auth)] == [CONTINUE, ReasonCode.SUCCESS]


@pytest.mark.parametrize("rounds", [[WRONG], [None, WRONG]], ids=["at once", "after a challenge"])
def test_a_failed_reauthentication_is_told_by_disconnect_and_closes(node: Node, rounds: list[bytes | None]) -> None:
    """[MQTT-4.12.1-2] With the method's reason; nobody else notices."""
    other = node.connect("other")
    client = begin(node, RIGHT)
    say(client, rounds[0], REAUTHENTICATE)
    for data in rounds[1:]:
        say(client, data)
    assert client.farewell is ReasonCode.NOT_AUTHORIZED
    assert client.closed
    assert not other.closed


def test_another_method_than_that_of_connect_closes(node: Node) -> None:
    """[MQTT-4.12.1-1] In the middle of an exchange and when re-authenticating."""
    client = begin(node)
    say(client, RIGHT, method="charade")
    assert welcome(client).reason is ReasonCode.PROTOCOL_ERROR
    assert client.closed
    client = begin(node, RIGHT)
    say(client, RIGHT, REAUTHENTICATE, method="charade")
    assert client.farewell is ReasonCode.PROTOCOL_ERROR
    assert client.closed


def test_auth_that_continues_nothing_closes(node: Node) -> None:
    """0x18 without an exchange, and 0x19 in the middle of one."""
    client = begin(node, RIGHT)
    say(client, RIGHT, CONTINUE)
    assert client.farewell is ReasonCode.PROTOCOL_ERROR
    client = begin(node)
    say(client, RIGHT, REAUTHENTICATE)
    assert welcome(client).reason is ReasonCode.PROTOCOL_ERROR
    assert client.closed


def test_auth_without_a_method_in_connect_closes(node: Node) -> None:
    """[MQTT-4.12.0-6] [MQTT-4.12.0-7] The server asks nothing and takes no AUTH either."""
    client = node.connect("c")
    assert client.connack is not None
    assert client.connack.properties.authentication_method is None
    say(client, RIGHT, REAUTHENTICATE)
    assert client.take(Auth) == []
    assert client.farewell is ReasonCode.PROTOCOL_ERROR


def test_nothing_but_auth_is_served_during_the_exchange(node: Node) -> None:
    """[MQTT-3.1.2-30] A SUBSCRIBE before CONNACK refuses the client, and leaves no subscription."""
    client = begin(node)
    client.send(Subscribe(1, (Request("a", 0),)))
    assert welcome(client).reason is ReasonCode.PROTOCOL_ERROR
    assert client.closed
    assert node.broker.routing.routes.subscription_count == 0


def test_an_exchange_that_does_not_end_keeps_no_session(node: Node) -> None:
    """A connection lost between two rounds was never a client."""
    client = begin(node, expiry=60)
    client.lose()
    assert node.broker.sessions.get("c") is None
    assert node.broker.clients.connections.clients == 0


def test_a_will_of_an_exchange_that_failed_is_not_published(node: Node) -> None:
    """Only a client that was let in leaves a will."""
    watcher = node.connect("watcher")
    watcher.subscribe("will")
    begin(node, WRONG, will=ConnectWill(b"will", b"", 0, False, Properties()))
    assert watcher.payloads() == []


def test_a_client_let_in_by_rounds_is_like_any_other(node: Node) -> None:
    """It subscribes, publishes at QoS 2 and gets its message."""
    client = begin(node)
    say(client, RIGHT)
    welcome(client)
    client.subscribe("a", qos=2)
    client.publish("a", b"x", qos=2, packet_id=1)
    client.ack(PacketType.PUBREL, 1)
    assert client.drain() == [b"x"]
