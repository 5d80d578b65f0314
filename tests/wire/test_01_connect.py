"""CONNECT and CONNACK: versions, client ids, what CONNACK announces."""

from __future__ import annotations

import re

import pytest

from . import packets
from .clauses import clauses
from .client import Transport
from .conftest import Broker
from .packets import V5, V31, V311
from .versions import both, every


def answer_to(broker: Broker, data: bytes) -> bytes:
    """All bytes that the broker sends before it closes, read without a parser."""
    transport = Transport(broker.running.host, broker.running.port, broker.deadline)
    transport.send(data)
    got = b""
    while True:
        piece = transport.receive(broker.deadline)
        assert piece is not None, "expected a close, the connection stays open"
        if not piece:
            transport.close()
            return got
        got += piece


@clauses("MQTT3-3.1.2-1", "MQTT5-3.1.2-1")
@both
def test_a_wrong_protocol_name_is_refused(broker: Broker, version: int) -> None:
    """A CONNECT for another protocol is closed, with or without a CONNACK that says so."""
    body = packets.text("MQTX") + bytes([version, 2, 0, 60]) + (b"\0" if version == V5 else b"") + packets.text("x")
    got = answer_to(broker, packets.frame(packets.CONNECT, 0, body))
    assert got in (b"", b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"), f"got {got.hex(' ')}"


@clauses("MQTT3-3.1.2-2", "MQTT5-3.1.2-2", "MQTT3-3.2.2-5", "MQTT5-3.2.2-7")
@pytest.mark.parametrize("level", [0, 2, 6, 127])
def test_an_unknown_protocol_level_is_refused(broker: Broker, level: int) -> None:
    """The refusal is CONNACK 0x01 in the form of 3.x or 0x84 in the form of 5, and then a close."""
    body = packets.text("MQTT") + bytes([level, 2, 0, 60]) + packets.text("x")
    got = answer_to(broker, packets.frame(packets.CONNECT, 0, body))
    assert got in (b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"), f"expected CONNACK 0x01 or 0x84, got [{got.hex(' ')}]"


@clauses("MQTT5-3.1.3-6", "MQTT5-3.1.3-7", "MQTT5-3.2.2-16")
@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_client_id_is_replaced_by_a_unique_one_that_connack_names(broker: Broker, clean: bool) -> None:
    """Two clients without an id get two ids, each told in Assigned Client Identifier."""
    first = broker.connect(V5, "", clean=clean)
    second = broker.connect(V5, "", clean=clean)
    ids = [client.connack.properties.get("assigned_client_identifier") for client in (first, second)]
    assert all(ids) and ids[0] != ids[1], f"assigned {ids}"
    assert not first.connack.session_present


@clauses("MQTT5-3.1.3-7", "MQTT5-3.1.3-2")
def test_an_assigned_client_id_names_the_session(broker: Broker) -> None:
    """Connecting again with the assigned id finds the session."""
    first = broker.connect(V5, "", clean=True, expiry=60)
    name = first.connack.properties["assigned_client_identifier"]
    first.disconnect()
    assert broker.connect(V5, name, clean=False, expiry=0).connack.session_present


@clauses("MQTT5-3.1.3-7")
def test_a_client_with_an_id_of_its_own_is_assigned_none(broker: Broker) -> None:
    """Assigned Client Identifier is for empty ids only."""
    assert "assigned_client_identifier" not in broker.connect(V5).connack.properties


@clauses("MQTT3-3.1.3-6")
def test_two_clients_with_empty_ids_do_not_take_each_other_over(broker: Broker) -> None:
    """The ids given to 3.1.1 clients are unique too."""
    first = broker.connect(V311, "")
    second = broker.connect(V311, "")
    first.ping()
    second.ping()


@clauses("MQTT3-3.1.3-9", "MQTT5-3.1.3-8")
@every
def test_a_long_client_id_of_any_characters_is_accepted_or_rejected_by_its_code(broker: Broker, version: int) -> None:
    """Beyond 23 letters and digits it is the server's choice, to be told by CONNACK."""
    client = broker.open(version, broker.name() + "/é%-_." * 10)
    answer = client.connect()
    assert answer.reason in (0, 0x85 if version == V5 else 2)
    if answer.reason:
        assert client.closed() == []


@clauses("MQTT3-3.1.0-1", "MQTT5-3.1.0-1")
@pytest.mark.variant("connect_timeout")
def test_a_connection_that_never_sends_connect_is_closed(broker: Broker) -> None:
    """Silence is closed at the connect time-out, without a word."""
    assert broker.open(V5).closed(timeout=4) == []


@clauses("MQTT3-3.1.0-1", "MQTT5-3.1.0-1")
@pytest.mark.variant("connect_timeout")
def test_half_a_connect_is_closed_too(broker: Broker) -> None:
    """The time-out runs until the CONNECT is whole."""
    client = broker.open(V5)
    client.send(packets.connect(V5, client.client_id)[:9])
    assert client.closed(timeout=4) == []


@both
def test_a_connect_in_two_pieces_is_read(broker: Broker, version: int) -> None:
    """TCP may cut a packet anywhere."""
    client = broker.open(version)
    whole = packets.connect(version, client.client_id)
    for at in range(len(whole)):
        client.send(whole[at : at + 1])
    assert client.expect(packets.CONNACK).reason == 0


@clauses("MQTT5-3.2.2-8", "MQTT5-2.2.2-1", "MQTT5-3.2.2-22")
def test_connack_announces_values_that_the_specification_allows(broker: Broker) -> None:
    """Receive maximum and packet size are not zero, availabilities are 0 or 1, maximum QoS is not 2."""
    told = broker.connect(V5, keep_alive=60).connack.properties
    assert told.get("receive_maximum", 1) > 0
    assert told.get("maximum_packet_size", 1) > 0
    assert told.get("maximum_qos", 0) in (0, 1)
    for name in ("retain", "wildcard_subscription", "subscription_identifier", "shared_subscription"):
        assert told.get(f"{name}_available", 0) in (0, 1)
    assert told.get("server_keep_alive", 1) > 0


@clauses("MQTT5-3.1.2-28", "MQTT5-3.1.2-29")
def test_connack_has_no_response_information_unless_asked(broker: Broker) -> None:
    """Request Response Information 0, and its absence, forbid it."""
    assert "response_information" not in broker.connect(V5).connack.properties
    asked = broker.connect(V5, request_response_information=0)
    assert "response_information" not in asked.connack.properties


@clauses("MQTT5-3.1.2-28")
def test_response_information_is_a_topic_prefix_if_it_is_given(broker: Broker) -> None:
    """A server may answer the request; what it answers can stand in a topic."""
    told = broker.connect(V5, request_response_information=1).connack.properties.get("response_information")
    assert told is None or not re.search(r"[+#\0]", told)


@clauses("MQTT5-3.1.2-29")
def test_problem_information_is_left_out_when_the_client_does_not_want_it(broker: Broker) -> None:
    """With Request Problem Information 0 the acknowledgements have no reason string and no user property."""
    client = broker.connect(V5, request_problem_information=0)
    topic = broker.topic()
    for request, answer in (
        (packets.ack(packets.PUBREL, 99), packets.PUBCOMP),
        (packets.publish(V5, topic, b"nobody's", qos=1, packet_id=1), packets.PUBACK),
        (packets.publish(V5, topic, b"nobody's", qos=2, packet_id=2), packets.PUBREC),
        (packets.subscribe(V5, 3, [(topic, 2)]), packets.SUBACK),
        (packets.unsubscribe(V5, 4, [topic, f"{topic}/never"]), packets.UNSUBACK),
    ):
        client.send(request)
        assert not client.expect(answer).properties


@clauses("MQTT5-3.2.0-2")
@both
def test_one_connack_and_nothing_else_comes_after_connecting(broker: Broker, version: int) -> None:
    """An idle new connection hears nothing but its CONNACK."""
    assert broker.connect(version).quiet(0.2) == []


@clauses("MQTT3-3.1.2-1", "MQTT5-3.1.2-1")
@pytest.mark.parametrize("name", ["MQIsdp", "mqtt", "MQTT\0", ""])
def test_a_level_and_a_name_that_do_not_belong_together_are_refused(broker: Broker, name: str) -> None:
    """Names are compared byte by byte, and MQIsdp is the name of level 3 only."""
    body = packets.text(name) + bytes([V311, 2, 0, 60]) + packets.text("x")
    got = answer_to(broker, packets.frame(packets.CONNECT, 0, body))
    assert got in (b"", b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00", b"\x20\x03\x00\x81\x00"), f"got [{got.hex(' ')}]"


@pytest.mark.variant("closed")
@pytest.mark.parametrize(
    ("version", "reasons"), [(V31, {4, 5}), (V311, {4, 5}), (V5, {0x86, 0x87})], ids=["3.1", "3.1.1", "5"]
)
@clauses("MQTT5-3.1.4-2", "MQTT3-3.2.2-5", "MQTT5-3.2.2-7", "MQTT5-3.2.2-6", "MQTT3-3.2.2-4", "MQTT5-4.13.2-1")
def test_a_client_without_credentials_is_refused_where_they_are_needed(
    broker: Broker, version: int, reasons: set[int]
) -> None:
    """Not authorised or bad credentials, session present 0, and a close."""
    client = broker.open(version)
    answer = client.connect()
    assert answer.reason in reasons, str(answer)
    assert not answer.session_present
    assert client.closed() == []


@pytest.mark.variant("closed")
@both
@clauses("MQTT3-3.1.4-5", "MQTT5-3.1.4-6", "MQTT5-3.1.4-2")
def test_a_refused_client_gets_nothing_done(broker: Broker, version: int) -> None:
    """SUBSCRIBE and PINGREQ in the same write as a refused CONNECT stay without an answer."""
    client = broker.open(version)
    topic = broker.topic()
    client.send(packets.connect(version, client.client_id), packets.subscribe(version, 1, [(topic, 0)]), b"\xc0\0")
    assert client.expect(packets.CONNACK).reason != 0
    assert client.closed() == []
