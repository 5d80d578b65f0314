"""One connection of a client, held against the broker's own reader."""

from __future__ import annotations

import pytest

from iot_mqtt.app.client.protocol import Arrived, Ended, Event, Protocol, Settled
from iot_mqtt.codec import (
    Ack,
    AckRun,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Item,
    Packet,
    PacketType,
    Properties,
    Publish,
    PublishRun,
    Request,
    Suback,
    Subscribe,
    encode,
)
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion

_V5 = ProtocolVersion.V5


class Peer:
    """A protocol, and the broker's side of its connection."""

    def __init__(self, version: ProtocolVersion = _V5, *, limits: Properties | None = None, **options: int) -> None:
        asked = Properties(topic_alias_maximum=5) if version is _V5 else Properties()
        self.protocol = Protocol(Connect(version, "c", properties=asked), **options)
        self._decoder = Decoder(topic_alias_maximum=10)
        self._version = version
        assert isinstance(self.heard()[0], Connect)
        self.says(Connack(properties=limits or Properties()))

    def says(self, *packets: Packet) -> list[Event]:
        """What the client makes of these."""
        return list(self.protocol.feed(b"".join(encode(packet, self._version) for packet in packets)))

    def heard(self) -> list[Item]:
        """What the client has sent since."""
        data, self.protocol.out[:] = bytes(self.protocol.out), b""
        return self._decoder.feed(data)

    def acks(self) -> list[tuple[PacketType, list[int], int]]:
        return [(item.type, item.ids, int(item.reason)) for item in self.heard() if isinstance(item, AckRun)]


@pytest.mark.parametrize("version", ProtocolVersion)
def test_qos_1_and_2_come_to_their_ends(version: ProtocolVersion) -> None:
    """PUBACK; PUBREC, PUBREL, PUBCOMP."""
    peer = Peer(version)
    one = peer.protocol.publish(Publish(b"a", b"x", 1))
    two = peer.protocol.publish(Publish(b"a", b"x", 2))
    sent = [packet.qos for item in peer.heard() if isinstance(item, PublishRun) for packet in item.packets()]
    assert (sent, peer.protocol.unsettled) == ([1, 2], 2)
    assert peer.says(Ack(PacketType.PUBACK, one)) == [Settled(one, ReasonCode.SUCCESS, None)]
    assert peer.says(Ack(PacketType.PUBREC, two)) == []
    assert peer.acks() == [(PacketType.PUBREL, [two], 0)]
    assert peer.says(Ack(PacketType.PUBCOMP, two)) == [Settled(two, ReasonCode.SUCCESS, None)]
    assert peer.protocol.unsettled == 0


def test_a_refusal_in_pubrec_is_the_end_of_it() -> None:
    """No PUBREL follows; the reason is what the caller gets."""
    peer = Peer()
    number = peer.protocol.publish(Publish(b"a", b"x", 2))
    peer.heard()
    refused = Ack(PacketType.PUBREC, number, ReasonCode.NOT_AUTHORIZED, Properties(reason_string="no"))
    assert peer.says(refused) == [Settled(number, ReasonCode.NOT_AUTHORIZED, "no")]
    assert (peer.heard(), peer.protocol.unsettled) == ([], 0)


def test_the_window_is_the_smaller_of_both() -> None:
    """What CONNACK says, if it is less than what was wanted."""
    assert Peer(limits=Properties(receive_maximum=2), max_inflight=10).protocol.room == 2
    peer = Peer(limits=Properties(receive_maximum=20), max_inflight=3)
    peer.protocol.publish(Publish(b"a", b"x", 1))
    assert peer.protocol.room == 2


def test_what_arrives_is_acknowledged_when_it_is_accepted() -> None:
    """Not before: what was not printed comes again."""
    peer = Peer()
    messages = [Publish(b"a", b"%d" % qos, qos, packet_id=qos) for qos in (0, 1, 2)]
    arrived = [event.message for event in peer.says(*messages) if isinstance(event, Arrived)]
    assert (arrived, peer.heard()) == (messages, [])
    for message in arrived:
        peer.protocol.accept(message)
    assert peer.acks() == [(PacketType.PUBACK, [1], 0), (PacketType.PUBREC, [2], 0)]
    assert peer.says(Ack(PacketType.PUBREL, 2)) == []
    assert (peer.acks(), peer.protocol.unreleased) == ([(PacketType.PUBCOMP, [2], 0)], 0)


def test_qos_2_that_comes_again_is_no_second_message() -> None:
    """Only its PUBREC is said again; after PUBREL the number is free."""
    peer = Peer()
    message = Publish(b"a", b"x", 2, packet_id=7)
    assert len(peer.says(message)) == 1
    assert peer.says(Publish(b"a", b"x", 2, dup=True, packet_id=7)) == []
    assert peer.acks() == [(PacketType.PUBREC, [7], 0)]
    peer.says(Ack(PacketType.PUBREL, 7))
    assert len(peer.says(message)) == 1


def test_pubrel_of_nothing_is_answered_as_such() -> None:
    """0x92: the broker may forget it, too."""
    peer = Peer()
    assert peer.says(Ack(PacketType.PUBREL, 9)) == []
    assert peer.acks() == [(PacketType.PUBCOMP, [9], 0x92)]


def test_an_alias_stands_for_the_topic_from_the_second_time_on() -> None:
    """The broker's reader knows both by their topic."""
    peer = Peer()
    message = Publish(b"long/topic", b"x", properties=Properties(topic_alias=3))
    peer.protocol.publish(message)
    first = len(peer.protocol.out)
    peer.protocol.publish(message)
    assert len(peer.protocol.out) - first == first - len(b"long/topic")
    assert [item.topic for item in peer.heard() if isinstance(item, PublishRun)] == [b"long/topic"]


def test_aliases_of_the_broker_are_resolved() -> None:
    """If they were asked for."""
    peer = Peer()
    named = Publish(b"t/1", b"a", properties=Properties(topic_alias=1))
    again = Publish(b"", b"b", properties=Properties(topic_alias=1))
    found = [event.message for event in peer.says(named, again) if isinstance(event, Arrived)]
    assert [(message.topic, message.payload) for message in found] == [(b"t/1", b"a"), (b"t/1", b"b")]


def test_packet_ids_are_not_given_out_twice() -> None:
    """After 65535 comes 1, unless it is still under way."""
    peer = Peer(max_inflight=0xFFFF)
    held = peer.protocol.publish(Publish(b"a", b"", 1))
    for _ in range(0xFFFF):
        number = peer.protocol.publish(Publish(b"a", b"", 1))
        peer.says(Ack(PacketType.PUBACK, number))
    assert (held, peer.protocol.publish(Publish(b"a", b"", 1))) == (1, 3)


def test_an_acknowledgement_that_nobody_waits_for_is_nothing() -> None:
    """Of an unknown message, or of the wrong kind."""
    peer = Peer()
    number = peer.protocol.publish(Publish(b"a", b"x", 2))
    assert peer.says(Ack(PacketType.PUBACK, number), Ack(PacketType.PUBACK, 99)) == []
    assert peer.protocol.unsettled == 1


def test_subscriptions_are_asked_for_with_all_their_options() -> None:
    """As the broker reads them."""
    peer = Peer()
    request = Request("a/#", 2, no_local=True, retain_as_published=True, retain_handling=2)
    number = peer.protocol.subscribe((request,), Properties(subscription_identifiers=(5,)))
    (asked,) = peer.heard()
    assert isinstance(asked, Subscribe)
    assert (asked.filters, asked.properties.subscription_identifiers) == ((request,), (5,))
    assert peer.says(Suback(number, (2,))) == [Suback(number, (2,))]
    assert peer.protocol.unsettled == 0


def test_the_broker_says_why_it_ends_the_connection() -> None:
    """With its words, and the server that it names."""
    properties = Properties(reason_string="maintenance", server_reference="b:1883")
    assert Peer().says(Disconnect(ReasonCode.USE_ANOTHER_SERVER, properties)) == [
        Ended(ReasonCode.USE_ANOTHER_SERVER, "maintenance", "b:1883")
    ]


def test_bytes_that_are_no_mqtt_end_the_connection() -> None:
    """The broker is told so, in MQTT 5."""
    peer = Peer()
    (ended,) = list(peer.protocol.feed(b"\x00\x00HTTP/1.1 200"))
    assert isinstance(ended, Ended)
    assert (ended.ours, ended.reason) == (True, ReasonCode.MALFORMED_PACKET)
    assert peer.heard() == [Disconnect(ReasonCode.MALFORMED_PACKET)]
