"""A client that waits, with a broker that has said everything beforehand."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import NoConnection, NotTaken, Rejected, TookTooLong
from iot_mqtt.app.client.protocol import Protocol
from iot_mqtt.app.client.streams import SocketStream
from iot_mqtt.codec import (
    PINGRESP,
    Ack,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Item,
    Packet,
    PacketType,
    Pingreq,
    Properties,
    Publish,
    Request,
    Suback,
    encode,
)
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion

_V5 = ProtocolVersion.V5


class Broker:
    """The other end. ``says`` before the client waits; it waits no second then."""

    def __init__(self, keep_alive: int = 0) -> None:
        ours, self.link = socket.socketpair()
        ours.setblocking(False)
        self.time = 100.0
        self.client = Client(SocketStream(ours), Protocol(Connect(_V5, "c")), keep_alive, now=lambda: self.time)
        self._decoder = Decoder()

    def says(self, *packets: Packet) -> None:
        self.link.sendall(b"".join(encode(packet, _V5) for packet in packets))

    def heard(self) -> list[Item]:
        self.link.setblocking(False)
        try:
            return self._decoder.feed(self.link.recv(1 << 20))
        except BlockingIOError:
            return []

    def greets(self, **limits: object) -> Client:
        self.says(Connack(properties=Properties(**limits)))  # type: ignore[arg-type]
        self.client.connect(1)
        self.heard()
        return self.client


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.link.close()
    made.client.drop()


def test_a_refused_connection_says_why_and_what_would_help(broker: Broker) -> None:
    """The reason in words, the broker's own words, and an exit code of its own."""
    said = Properties(reason_string="no such user")
    broker.says(Connack(reason=ReasonCode.BAD_USER_NAME_OR_PASSWORD, properties=said))
    with pytest.raises(Rejected, match=r"bad user name or password \(0x86\): no such user; check -u") as caught:
        broker.client.connect(1)
    assert caught.value.exit_code == 4


def test_who_closes_without_an_answer_is_no_broker(broker: Broker) -> None:
    """Exit code 3."""
    broker.link.shutdown(socket.SHUT_WR)
    with pytest.raises(NoConnection):
        broker.client.connect(1)


def test_who_speaks_something_else_is_no_broker(broker: Broker) -> None:
    """A web server, for example."""
    broker.link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(Rejected, match="what MQTT does not allow"):
        broker.client.connect(1)


def test_messages_before_the_end_are_there_before_it_is_raised(broker: Broker) -> None:
    """What has come is not lost because the connection is."""
    client = broker.greets()
    broker.says(Publish(b"a", b"1"), Publish(b"a", b"2"), Disconnect(ReasonCode.SERVER_SHUTTING_DOWN))
    client.step(None)
    assert [message.payload for message in client.arrived] == [b"1", b"2"]
    with pytest.raises(Rejected, match="server shutting down"):
        client.step(None)


def test_publishing_waits_for_room(broker: Broker) -> None:
    """The broker allows two at once; the third leaves after the first acknowledgement."""
    client = broker.greets(receive_maximum=2)
    numbers = [client.publish(Publish(b"a", b"x", 1)) for _ in range(2)]
    broker.says(Ack(PacketType.PUBACK, numbers[0], ReasonCode.NO_MATCHING_SUBSCRIBERS))
    client.publish(Publish(b"a", b"x", 1))
    assert [one.reason for one in client.settled] == [ReasonCode.NO_MATCHING_SUBSCRIBERS]


def test_what_is_not_acknowledged_in_time_is_said(broker: Broker) -> None:
    """Exit code 27."""
    client = broker.greets()
    client.publish(Publish(b"a", b"x", 1))
    broker.time += 0.5
    with pytest.raises(TookTooLong, match="1 messages were not acknowledged"):
        client.settle(-0.1)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"maximum_qos": 1}, Publish(b"a", b"", 2)),
        ({"retain_available": False}, Publish(b"a", b"x", retain=True)),
        ({"topic_alias_maximum": 3}, Publish(b"a", b"", properties=Properties(topic_alias=4))),
        ({}, Publish(b"a", b"", properties=Properties(topic_alias=1))),
        ({"maximum_packet_size": 50}, Publish(b"a", b"x" * 45, 1)),
    ],
)
def test_what_the_broker_said_it_does_not_take_is_not_sent(
    broker: Broker, limits: dict[str, object], message: Publish
) -> None:
    """The broker would end the connection."""
    client = broker.greets(**limits)
    with pytest.raises(NotTaken):
        client.publish(message)
    assert client.protocol.out == b""


def test_a_packet_just_small_enough_is_sent(broker: Broker) -> None:
    """To the byte: two of head, three of topic, two of number, one of properties."""
    client = broker.greets(maximum_packet_size=50)
    client.publish(Publish(b"a", b"x" * 42, 1))
    assert len(client.protocol.out) == 50


def test_subscriptions_get_the_answer_to_theirs(broker: Broker) -> None:
    """Messages may come before it."""
    client = broker.greets()
    broker.says(Publish(b"a", b"early"), Suback(1, (0x87,), Properties(reason_string="no")))
    answer = client.subscribe((Request("a"),), Properties(), 1)
    assert (answer.reasons, len(client.arrived)) == ((0x87,), 1)


def test_an_idle_connection_is_kept_alive_until_nobody_answers() -> None:
    """PINGREQ after the keep-alive; the end when its answer does not come."""
    broker = Broker(keep_alive=10)
    client = broker.greets()
    broker.time += 10
    client.step(broker.time)
    assert [type(item) for item in broker.heard()] == [Pingreq]
    broker.says(PINGRESP)
    client.step(None)
    broker.time += 10
    client.step(broker.time)
    broker.time += 10
    client.step(broker.time)
    with pytest.raises(NoConnection, match="does not answer"):
        client.step(None)


def test_the_keep_alive_of_the_broker_counts() -> None:
    """As CONNACK says it."""
    broker = Broker(keep_alive=1000)
    client = broker.greets(server_keep_alive=5)
    broker.time += 5
    client.step(broker.time)
    assert [type(item) for item in broker.heard()] == [Pingreq]


def test_the_end_is_told_to_the_broker(broker: Broker) -> None:
    """And what the broker has still to say is heard."""
    client = broker.greets()
    broker.says(Disconnect(ReasonCode.NOT_AUTHORIZED))
    with pytest.raises(Rejected, match="not authorized"):
        client.close()
    assert broker.heard() == [Disconnect()]
