"""What each error is answered with: CONNACK before there is a session, DISCONNECT after, or just the close."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.broker.connections.closing import CONNACK_REASONS, DISCONNECT_REASONS, TELLABLE_TO_3X, farewell
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    PacketType,
    Pingreq,
    Publish,
    Request,
    Unsubscribe,
    encode,
)
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V31, V311, Client, Node, subscribe

R = ReasonCode
VERSIONS = pytest.mark.parametrize("version", [V31, V311, V5], ids=["v3.1", "v3.1.1", "v5"])
LIMITED = MqttSettings(
    max_qos=1,
    retain_available=False,
    subscription_identifiers_available=False,
    max_filters_per_subscribe=2,
    topic_alias_maximum=3,
    max_packet_size=200,
)

Deed = Callable[[Client], None]

#: What a connected client does wrong → the reason it is told, and counted under.
WRONGS: list[tuple[str, R, Deed]] = [
    ("garbage", R.MALFORMED_PACKET, lambda c: c.feed(b"\x00\x00")),
    ("endless-length", R.MALFORMED_PACKET, lambda c: c.feed(b"\x30\xff\xff\xff\xff\x01")),
    ("qos-3", R.MALFORMED_PACKET, lambda c: c.feed(b"\x36\x05\x00\x01t\x00\x01")),
    ("topic-cut-off", R.MALFORMED_PACKET, lambda c: c.feed(b"\x30\x03\x00\x05t")),
    ("too-large", R.PACKET_TOO_LARGE, lambda c: c.feed(b"\x30\xc9\x01")),
    ("second-connect", R.PROTOCOL_ERROR, lambda c: c.send(Connect(c.version, "again", clean_start=True))),
    ("a-servers-packet", R.PROTOCOL_ERROR, lambda c: c.feed(b"\xd0\x00")),
    ("puback-for-qos-2", R.PROTOCOL_ERROR, lambda c: _wrong_ack(c, PacketType.PUBACK, 2)),
    ("pubcomp-too-early", R.PROTOCOL_ERROR, lambda c: _wrong_ack(c, PacketType.PUBCOMP, 2)),
    ("wildcard-in-topic", R.TOPIC_NAME_INVALID, lambda c: c.send(Publish(b"a/#", b""))),
    ("filter", R.TOPIC_FILTER_INVALID, lambda c: c.send(subscribe(1, "a/#/b"))),
    ("unsubscribe-filter", R.TOPIC_FILTER_INVALID, lambda c: c.send(Unsubscribe(1, ("a+",)))),
    ("too-many-filters", R.QUOTA_EXCEEDED, lambda c: c.send(subscribe(1, "a", "b", "c"))),
    ("qos-not-offered", R.QOS_NOT_SUPPORTED, lambda c: c.send(Publish(b"t", b"", 2, packet_id=1))),
    ("retain-not-offered", R.RETAIN_NOT_SUPPORTED, lambda c: c.send(Publish(b"t", b"", retain=True))),
]
#: The same for what only version 5 can say.
WRONGS_OF_5: list[tuple[str, R, Deed]] = [
    (
        "identifier-not-offered",
        R.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        lambda c: c.send(subscribe(1, "a", identifier=1)),
    ),
    ("no-local-shared", R.PROTOCOL_ERROR, lambda c: c.send(subscribe(1, Request("$share/g/a", 0, no_local=True)))),
    ("alias-too-high", R.TOPIC_ALIAS_INVALID, lambda c: _publish(c, "t", topic_alias=4)),
    ("alias-0", R.TOPIC_ALIAS_INVALID, lambda c: c.feed(b"\x30\x07\x00\x01t\x03\x23\x00\x00")),
    ("alias-never-set", R.PROTOCOL_ERROR, lambda c: _publish(c, "", topic_alias=2)),
    ("alias-too-often", R.QUOTA_EXCEEDED, lambda c: c.feed(_aliased(b"t" * 120, 1) + _aliased(b"", 1) * 300_000)),
    ("auth-without-method", R.PROTOCOL_ERROR, lambda c: c.feed(b"\xf0\x00")),
    ("identifier-from-client", R.PROTOCOL_ERROR, lambda c: c.feed(b"\x30\x06\x00\x01t\x02\x0b\x01")),
    ("property-twice", R.PROTOCOL_ERROR, lambda c: c.feed(b"\x30\x08\x00\x01t\x04\x01\x00\x01\x00")),
]


def _aliased(topic: bytes, alias: int) -> bytes:
    return bytes((0x30, len(topic) + 6, 0, len(topic))) + topic + bytes((3, 0x23, 0, alias))


def _publish(client: Client, topic: str, topic_alias: int) -> None:
    client.publish(topic, topic_alias=topic_alias)


def _wrong_ack(client: Client, type: PacketType, qos: int) -> None:
    """Answer a message at QoS 2 as if it were something else."""
    client.node.session("c").outbound.mark([1], qos)
    client.send(Ack(type, 1))


def connected(version: ProtocolVersion) -> tuple[Node, Client]:
    """A client of a node with limits."""
    node = Node(LIMITED)
    return node, node.connect("c", version)


@VERSIONS
@pytest.mark.parametrize(("reason", "deed"), [pytest.param(reason, deed, id=name) for name, reason, deed in WRONGS])
def test_what_is_wrong_ends_the_connection(version: ProtocolVersion, reason: R, deed: Deed) -> None:
    """[MQTT-4.13.1-1] [MQTT-4.8.0-1] Version 5 is told why; all of it is counted by its reason."""
    node, client = connected(version)
    other = node.connect("other", version)
    deed(client)
    assert client.farewell is (reason if version is V5 else None)
    assert client.closed
    assert client.take_all() == []
    assert node.counters.errors == {reason.name: 1}
    assert node.counters.disconnects == {reason.name.lower(): 1}
    assert node.broker.sessions.get("c") is None
    assert not other.closed


@pytest.mark.parametrize(
    ("reason", "deed"), [pytest.param(reason, deed, id=name) for name, reason, deed in WRONGS_OF_5]
)
def test_what_is_wrong_in_version_5_only(reason: R, deed: Deed) -> None:
    """The same with its own words."""
    node, client = connected(V5)
    deed(client)
    assert client.farewell is reason
    assert client.closed
    assert node.counters.errors == {reason.name: 1}


def test_nothing_is_served_behind_an_error() -> None:
    """What stood before it in the same piece is."""
    node, client = connected(V5)
    other = node.connect("other")
    other.subscribe("#")
    before, after = (encode(Publish(b"t", payload), V5) for payload in (b"before", b"after"))
    client.feed(before + encode(subscribe(1, "a+"), V5) + after)
    assert client.closed
    assert other.payloads() == [b"before"]


def test_answers_before_an_error_leave_before_the_farewell() -> None:
    """In one piece and in order."""
    _, client = connected(V5)
    client.feed(encode(Publish(b"t", b"", 1, packet_id=3), V5) + b"\x00\x00")
    assert [type(packet) for packet in client.take_all()] == [Ack, Disconnect]


class Says:
    """An authenticator with one verdict."""

    def __init__(self, reason: ReasonCode) -> None:
        self._reason = reason

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Denied(self._reason, "because")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (R.BAD_USER_NAME_OR_PASSWORD, 4),
        (R.NOT_AUTHORIZED, 5),
        (R.BANNED, 5),
        (R.SERVER_BUSY, 3),
        (R.SERVER_UNAVAILABLE, 3),
        (R.QUOTA_EXCEEDED, 3),
        (R.SERVER_MOVED, 3),
        (R.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (R.IMPLEMENTATION_SPECIFIC_ERROR, None),
        (R.PACKET_TOO_LARGE, None),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@VERSIONS
def test_a_refused_connect(version: ProtocolVersion, reason: R, code: int | None) -> None:
    """[MQTT-3.2.2-6] [MQTT-3.2.2-7] The reason, the return code nearest to it, or no CONNACK at all."""
    node = Node(authenticator=Says(reason))
    client = node.connect("c", version)
    if version is V5:
        assert client.connack is not None
        assert client.connack.reason is reason
        assert client.connack.properties.reason_string == "because"
    elif code is None:
        assert client.connack is None
    else:
        raw = encode(Connack(reason=reason), version)
        assert raw == bytes((0x20, 2, 0, code))
        assert client.connack is not None
    assert client.closed
    assert node.counters.connects_refused == {reason.name: 1}
    assert len(node.broker.sessions) == 0


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        pytest.param(b"\xc0\x00", b"", id="ping-first"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", b"", id="http"),
        pytest.param(b"\x10\x0c\x00\x04MQTT\x03\x02\x00\x00\x00\x00", None, id="name-and-level"),
        pytest.param(b"\x10\x0c\x00\x04MQTT\x09\x02\x00\x00\x00\x00", None, id="level-9"),
        pytest.param(b"\x10\x0c\x00\x04MQIT\x04\x02\x00\x00\x00\x00", None, id="another-name"),
    ],
)
def test_what_is_no_connect_of_ours_gets_no_answer_but_the_version(data: bytes, answer: bytes | None) -> None:
    """[MQTT-3.1.0-1] [MQTT-3.1.2-2] An unknown name or level is answered with 0x01, the rest is closed."""
    node = Node()
    client = node.open(V311)
    client.feed(data)
    assert client.wire.take() == (b"\x20\x02\x00\x01" if answer is None else answer)
    assert client.closed
    assert sum(node.counters.errors.values()) == 1


def test_a_client_that_sends_nothing_is_closed_in_time() -> None:
    """[MQTT-3.1.4-1] No CONNECT, no answer."""
    node = Node(MqttSettings(connect_timeout=10))
    client = node.open()
    node.advance(9)
    assert not client.closed
    node.advance(2)
    assert client.closed
    assert client.wire.take() == b""
    assert node.counters.errors == {"CONNECT_TIMEOUT": 1}


def test_a_client_that_falls_silent_is_closed_after_one_and_a_half_keep_alives() -> None:
    """[MQTT-3.1.2-22] Whole packets keep it alive, and nothing of it waits when it is gone."""
    node = Node()
    client, other = node.connect("c", V311, keep_alive=10), node.connect("d", V311)
    for _ in range(3):
        node.advance(14)
        client.send(Pingreq())
    client.wire.feed(b"\x30\x10half")
    node.advance(14)
    assert not client.closed
    node.advance(2)
    assert client.closed and not other.closed
    assert node.counters.errors == {"KEEP_ALIVE_TIMEOUT": 1}
    node.connect("c", V311, keep_alive=10).wire.peer_closes()
    node.advance(11)
    assert len(node.wheel) == 0


@pytest.mark.parametrize(("version", "asked", "holds"), [(V31, 60, 60), (V311, 60, 60), (V311, 0, 0), (V5, 60, 10)])
def test_the_keep_alive_of_the_server_holds_for_who_is_told_of_it(
    version: ProtocolVersion, asked: int, holds: int
) -> None:
    """[MQTT5 3.1.2-21] CONNACK of 3.x has no word for it: such a client is held to its own [MQTT3 3.1.2-24]."""
    node = Node(MqttSettings(server_keep_alive=10))
    client = node.connect("c", version, keep_alive=asked)
    last = holds * 3 // 2 or 1000
    node.advance(last - 1)
    assert not client.closed
    node.advance(2)
    assert client.closed is bool(holds)


def test_who_was_not_read_for_a_while_has_its_keep_alive_from_then() -> None:
    """What it sent meanwhile waits in its socket, and is read after it is let go on."""
    node = Node()
    client = node.connect("c", keep_alive=10)
    connection = node.session("c").connection
    assert isinstance(connection, Connection)
    connection.hold([])
    node.advance(29)
    connection.proceed()
    node.advance(14)
    assert not client.closed
    node.advance(3)
    assert client.closed


@pytest.mark.parametrize("reference", ["", "other:1883"], ids=["without", "with"])
@pytest.mark.parametrize("reason", [R.USE_ANOTHER_SERVER, R.SERVER_MOVED, R.NOT_AUTHORIZED])
def test_a_reference_is_given_to_those_who_shall_go_there(reason: R, reference: str) -> None:
    """[MQTT5 4.11] With 0x9C and 0x9D, when one is configured."""
    client = Node(MqttSettings(server_reference=reference), authenticator=Says(reason)).connect("c")
    assert client.connack is not None
    wanted = reference if reason is not R.NOT_AUTHORIZED else ""
    assert client.connack.properties.server_reference == (wanted or None)


def test_who_is_let_in_is_told_of_no_other_server() -> None:
    """[MQTT5 3.2.2.3.16] It is for those who are sent away."""
    client = Node(MqttSettings(server_reference="other:1883")).connect("c")
    assert client.connack is not None and client.connack.reason is R.SUCCESS
    assert client.connack.properties.server_reference is None


@pytest.mark.parametrize("reason", list(R), ids=lambda reason: reason.name)
@pytest.mark.parametrize("version", [None, V31, V311, V5], ids=["unknown", "v3.1", "v3.1.1", "v5"])
@pytest.mark.parametrize("connected", [False, True], ids=["connecting", "connected"])
def test_every_reason_has_an_answer_that_its_packet_may_carry(
    connected: bool, version: ProtocolVersion | None, reason: R
) -> None:
    """Others become "unspecified error"; 3.x hears nothing after CONNACK."""
    packet = farewell(MqttError("why", reason), version, connected=connected, connecting=True)
    if connected:
        assert (packet is None) is (version is not V5)
        assert packet is None or packet.reason in DISCONNECT_REASONS  # type: ignore[union-attr]
    elif version is V5:
        assert isinstance(packet, Connack)
        assert packet.reason in CONNACK_REASONS
    else:
        assert (packet is None) is (reason not in TELLABLE_TO_3X)
    if packet is not None:
        assert encode(packet, version or V311)


def test_only_whole_packets_keep_a_connection_alive() -> None:
    """One byte of an endless packet now and then does not [MQTT-3.1.2-24]."""
    node = Node()
    client = node.connect(keep_alive=4)
    for _ in range(4):
        node.advance(4)
        client.feed(b"\xc0\x00")
    assert not client.closed
    client.feed(b"\x30\x7f")
    for _ in range(9):
        node.advance(1)
        if not client.wire.closed:
            client.feed(b"\x00")
    assert client.closed
    assert node.counters.errors == {"KEEP_ALIVE_TIMEOUT": 1}


@VERSIONS
@pytest.mark.parametrize("reason", [R.SERVER_SHUTTING_DOWN, R.SESSION_TAKEN_OVER])
def test_a_client_whose_connect_meets_what_passes_is_to_try_again(version: ProtocolVersion, reason: R) -> None:
    """CONNACK has no word for it but this one; "unspecified" would be a reason to give up."""
    error = MqttError("why", reason)
    answer = farewell(error, version, connected=False, connecting=True)
    assert isinstance(answer, Connack)
    sent = encode(answer, version)
    assert sent[3] == (R.SERVER_UNAVAILABLE if version is V5 else 3)
