"""The size a client takes [MQTT-3.1.2-24]: what is left out, what is not sent, and what ends the connection."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.connections.fitting import fitting
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import (
    Auth,
    Connack,
    Connect,
    ConnectWill,
    Disconnect,
    Packet,
    PacketType,
    Properties,
    Request,
    Suback,
    Unsubscribe,
    encode,
    size,
)
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Challenge, ConnectAttempt, Denied, Exchange, Granted, Principal
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, Client, Node, subscribe

TOO_LARGE = ReasonCode.PACKET_TOO_LARGE
LONG = "x" * 300


class Lecture:
    """An exchange that talks at length, unless it is asked to be short."""

    async def step(self, data: bytes | None) -> Challenge | Granted | Denied:
        if data == b"question":
            return Challenge(b"x" * 300)
        if data == b"no":
            return Denied(ReasonCode.NOT_AUTHORIZED, LONG)
        return Granted(Principal("c", "u"), b"x" * (300 if data == b"let me in" else 3))


class Elsewhere:
    """Whoever comes is sent to another server."""

    async def authenticate(self, _attempt: ConnectAttempt) -> Denied:
        return Denied(ReasonCode.USE_ANOTHER_SERVER, "full")


class LectureMethod:
    """The method."""

    name = "lecture"

    def begin(self, _attempt: ConnectAttempt) -> Exchange:
        return Lecture()


def authenticated(data: bytes, limit: int = 100) -> tuple[Node, Client]:
    """A client that begins an exchange."""
    node = Node(methods={"lecture": LectureMethod()})
    client = node.connect(
        "c", authentication_method="lecture", authentication_data=data, maximum_packet_size=limit, expiry=60
    )
    return node, client


WORDY = Properties(reason_string="why", user_properties=(("a", "b"),), server_reference="there")
FITTING = [
    pytest.param(Disconnect(TOO_LARGE, WORDY), 0, Disconnect(TOO_LARGE, WORDY), id="no-limit"),
    pytest.param(Disconnect(TOO_LARGE, WORDY), 1000, Disconnect(TOO_LARGE, WORDY), id="room-for-all"),
    pytest.param(
        Disconnect(TOO_LARGE, WORDY), 15, Disconnect(TOO_LARGE, Properties(server_reference="there")), id="words-first"
    ),
    pytest.param(Disconnect(TOO_LARGE, WORDY), 4, Disconnect(TOO_LARGE), id="then-the-reference"),
    pytest.param(Disconnect(TOO_LARGE, WORDY), 3, Disconnect(TOO_LARGE), id="bare"),
    pytest.param(Disconnect(TOO_LARGE, WORDY), 2, None, id="not-even-bare"),
    pytest.param(
        Connack(properties=Properties(response_information=LONG, receive_maximum=5)),
        20,
        Connack(properties=Properties(receive_maximum=5)),
        id="connack-keeps-limits",
    ),
    pytest.param(Connack(properties=Properties(assigned_client_identifier=LONG)), 100, None, id="connack-keeps-id"),
    pytest.param(Auth(properties=Properties(authentication_method=LONG)), 100, None, id="auth-keeps-method"),
    pytest.param(Suback(1, (0,) * 10), 15, Suback(1, (0,) * 10), id="suback-fits"),
    pytest.param(Suback(1, (0,) * 10), 14, None, id="suback-does-not"),
]


@pytest.mark.parametrize(("packet", "limit", "expected"), FITTING)
def test_a_packet_gives_up_its_courtesies_and_nothing_else(packet: Packet, limit: int, expected: Packet | None) -> None:
    """[MQTT-3.2.2-19] [MQTT-3.2.2-20] [MQTT-3.14.2-3] [MQTT-3.14.2-4] And None is sent rather than too much."""
    assert fitting(packet, V5, limit) == (None if expected is None else encode(expected, V5))


def test_a_farewell_loses_its_words_when_they_do_not_fit() -> None:
    """The reason itself still comes."""
    node = Node()
    client = node.connect("c", maximum_packet_size=30)
    client.send(subscribe(1, "a/#/b"))
    (farewell,) = client.take(Disconnect)
    assert farewell == Disconnect(ReasonCode.TOPIC_FILTER_INVALID)
    larger = node.connect("d", maximum_packet_size=400)
    larger.send(subscribe(1, "a/#/b"))
    (farewell,) = larger.take(Disconnect)
    assert farewell.properties.reason_string


def test_a_client_that_cannot_take_its_connack_is_refused() -> None:
    """CONNACK 0x95 as it is short enough, and nothing else."""
    node = Node()
    client = node.connect("c", maximum_packet_size=12)
    assert client.connack == Connack(session_present=False, reason=TOO_LARGE)
    assert client.closed
    assert client.take_all() == []
    assert node.counters.connects_refused == {"PACKET_TOO_LARGE": 1}
    assert node.counters.errors == {"PACKET_TOO_LARGE": 1}


@pytest.mark.parametrize("version", [ProtocolVersion.V31, ProtocolVersion.V311, ProtocolVersion.V5])
def test_a_connect_that_is_too_large_is_answered(version: ProtocolVersion) -> None:
    """In MQTT 5, with its code; older versions have none. The rest of it is not waited for."""
    client = Node(MqttSettings(max_connect_size=64)).open(version)
    client.feed(encode(Connect(version, "c" * 60, username="u" * 60), version)[:12])
    assert client.closed
    answers = [one.reason for one in client.take(Connack)]
    assert answers == ([TOO_LARGE] if version is ProtocolVersion.V5 else [])


def test_a_client_that_can_take_no_connack_at_all_is_closed_without_a_word() -> None:
    """The smallest CONNACK has five bytes."""
    node = Node()
    for limit in range(1, 5):
        client = node.connect("c", maximum_packet_size=limit)
        assert client.closed
        assert client.wire.take() == b""
    assert node.counters.connects_refused == {"PACKET_TOO_LARGE": 4}


def test_connack_comes_up_to_exactly_the_limit() -> None:
    """One byte less refuses."""
    node = Node(MqttSettings(server_keep_alive=60))
    whole = node.connect("a", maximum_packet_size=1000)
    assert whole.connack is not None
    limit = size(whole.connack, V5)
    assert node.connect("b", maximum_packet_size=limit).connack == whole.connack
    assert node.connect("c", maximum_packet_size=limit - 1).closed


def test_connack_leaves_out_what_the_server_may_tell_or_not() -> None:
    """Response information gives way; limits and the assigned id stay."""
    node = Node(MqttSettings(response_information=LONG))
    client = node.connect("", maximum_packet_size=60, request_response_information=True)
    assert client.connack is not None
    properties = client.connack.properties
    assert properties.assigned_client_identifier == "auto-1"
    assert properties.maximum_packet_size == 1_048_576
    assert properties.response_information is None
    larger = node.connect("", maximum_packet_size=1000, request_response_information=True)
    assert larger.connack is not None
    assert larger.connack.properties.response_information == LONG


def test_who_is_sent_away_loses_the_server_reference_if_it_does_not_fit() -> None:
    """The reason itself still comes."""
    node = Node(MqttSettings(server_reference=LONG), authenticator=Elsewhere())
    assert node.connect("c", maximum_packet_size=60).connack == Connack(reason=ReasonCode.USE_ANOTHER_SERVER)
    larger = node.connect("c", maximum_packet_size=1000).connack
    assert larger is not None
    assert larger.properties.server_reference == LONG


def test_a_refusal_for_size_changes_nothing_for_the_session() -> None:
    """Who holds the client id keeps connection and session; the will of the refused one is never published."""
    node = Node()
    watcher = node.connect("watcher")
    watcher.subscribe("will")
    holder = node.connect("c", clean=False, expiry=60)
    holder.subscribe("a", qos=1)
    refused = node.connect(
        "c", maximum_packet_size=12, expiry=60, will=ConnectWill(b"will", b"", 0, False, Properties())
    )
    assert refused.closed
    assert not holder.closed
    assert watcher.payloads() == []
    node.connect("p").publish("a", b"1", qos=1)
    assert holder.payloads() == [b"1"]
    assert node.records(CacheName.WILLS) == 0


@pytest.mark.parametrize("filters", [27, 28], ids=["fits", "does-not"])
def test_a_subscribe_whose_suback_cannot_come_is_not_served(filters: int) -> None:
    """The client would wait in vain: 0x95 and a close, and no subscription is made."""
    node = Node()
    client = node.connect("c", maximum_packet_size=32, clean=False, expiry=60)
    client.send(subscribe(1, *(Request(f"f/{number}", 1) for number in range(filters))))
    fits = filters == 27
    assert [len(suback.reasons) for suback in client.take(Suback)] == ([filters] if fits else [])
    assert client.farewell is (None if fits else TOO_LARGE)
    assert client.closed is not fits
    made = filters if fits else 0
    assert node.broker.routing.routes.subscription_count == node.records(CacheName.SUBSCRIPTIONS) == made


def test_an_unsubscribe_whose_unsuback_cannot_come_is_not_served() -> None:
    """The subscriptions stay."""
    node = Node()
    client = node.connect("c", maximum_packet_size=32, clean=False, expiry=60)
    client.subscribe("f/0")
    client.send(Unsubscribe(2, tuple(f"f/{number}" for number in range(28))))
    assert client.farewell is TOO_LARGE
    assert client.closed
    assert node.broker.routing.routes.subscription_count == 1


def test_a_challenge_that_cannot_come_ends_the_exchange() -> None:
    """There is nothing in it that could be left out: CONNACK 0x95."""
    node, client = authenticated(b"question")
    assert client.connack is not None
    assert client.connack.reason is TOO_LARGE
    assert client.closed
    assert node.counters.errors == {"PACKET_TOO_LARGE": 1}
    assert node.broker.sessions.get("c") is None


def test_a_last_word_that_cannot_come_refuses_before_there_is_a_session() -> None:
    """The data of the method stands in CONNACK."""
    node, client = authenticated(b"let me in")
    assert client.connack is not None
    assert client.connack.reason is TOO_LARGE
    assert client.take(Auth) == []
    assert node.broker.sessions.get("c") is None
    assert node.records(CacheName.SESSIONS) == 0


@pytest.mark.parametrize("data", [b"question", b"let me in"], ids=["challenge", "verdict"])
def test_a_reauthentication_that_cannot_be_told_ends_the_connection(data: bytes) -> None:
    """DISCONNECT 0x95, and the session stays for its interval."""
    node, client = authenticated(b"short")
    client.send(
        Auth(
            ReasonCode.REAUTHENTICATE,
            Properties(authentication_method="lecture", authentication_data=data),
        )
    )
    assert client.farewell is TOO_LARGE
    assert client.take(Auth) == []
    assert client.closed
    assert not node.session("c").ended


def test_a_denial_keeps_its_reason_and_loses_its_words() -> None:
    """What the method says at length is left out."""
    _, client = authenticated(b"no")
    assert client.connack == Connack(reason=ReasonCode.NOT_AUTHORIZED)


def test_acknowledgements_are_smaller_than_any_connack() -> None:
    """So they need no look at the limit: the smallest that is let in at all takes every one of them."""
    smallest = size(Connack(properties=Properties(maximum_packet_size=1)), V5)
    node = Node(MqttSettings(topic_alias_maximum=0, receive_maximum=65_535))
    client = node.connect("c", maximum_packet_size=smallest)
    assert not client.closed
    client.subscribe("a", qos=2)
    sent = [
        client.publish("b", b"", qos=1),
        client.publish("b", b"", qos=2, packet_id=9),
    ]
    client.ack(PacketType.PUBREL, 9, 77)
    client.ack(PacketType.PUBREC, 55)
    packets = [packet for packets in sent for packet in packets] + client.take_all()
    assert {packet.type.name for packet in packets} == {"PUBACK", "PUBREC", "PUBCOMP", "PUBREL"}
    assert max(size(packet, V5) for packet in packets) <= smallest
    assert not client.closed


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("durable", [False, True], ids=["clean", "durable"])
def test_a_message_that_is_too_large_counts_as_dropped_and_frees_its_place(qos: int, durable: bool) -> None:
    """[MQTT-3.1.2-25] Its record goes, the next one comes, and the publisher hears nothing of it."""
    node = Node()
    client = node.connect("c", maximum_packet_size=60, receive_maximum=1, expiry=60 if durable else None)
    client.subscribe("a", qos=qos)
    publisher = node.connect("p")
    publisher.publish("a", b"x" * 100, b"small", b"x" * 100, qos=qos)
    assert client.drain() == [b"small"]
    assert node.dropped() == {"too_large": 2}
    assert node.session("c").dropped == {"too_large": 2}
    assert node.records(CacheName.QUEUE, CacheName.DUP) == 0
    assert node.waiting == 0


def test_an_alias_is_not_used_where_it_would_make_a_message_too_large() -> None:
    """A message that fits without an alias is sent without."""
    node = Node()
    plain = node.connect("plain")
    plain.subscribe("t")
    node.connect("p").publish("t", b"x" * 50)
    (message,) = plain.messages()
    limit = size(message, V5)
    client = node.connect("c", maximum_packet_size=limit, topic_alias_maximum=5)
    client.subscribe("t")
    node.connect("p").publish("t", b"x" * 50, b"x" * 51, b"x")
    got = client.messages()
    assert [(len(one.payload), one.properties.topic_alias) for one in got] == [(50, None), (1, 1)]
