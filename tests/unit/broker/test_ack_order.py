"""Acknowledgements behind commits: what waits, for what, and in which order it leaves."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import Ack, Connack, ConnectWill, Packet, PacketType, Pingreq, Pingresp, Properties, Publish, Suback
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Client, Node, subscribe

VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])
ACK = {1: PacketType.PUBACK, 2: PacketType.PUBREC}


def keeper(node: Node, topic: str = "kept", qos: int = 2) -> Client:
    """A durable session that subscribes."""
    reader = node.connect("keeper", clean=False, expiry=600)
    reader.subscribe(topic, qos=qos)
    return reader


def ids(packets: list[Packet]) -> list[int]:
    """Packet ids in order."""
    return [packet.packet_id for packet in packets if isinstance(packet, Ack)]


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_the_answer_waits_for_the_commit_of_a_durable_receiver(version: ProtocolVersion, qos: int) -> None:
    """And so does the message itself; both come once it is safe, the message first."""
    node = Node()
    reader, writer = keeper(node), node.connect("writer", version)
    node.hold()
    assert writer.publish("kept", b"1", qos=qos) == []
    assert reader.payloads() == []
    node.advance(100)
    assert writer.take_all() == []
    node.release()
    assert ids(writer.acks(ACK[qos])) == [1]
    assert reader.payloads() == [b"1"]


@pytest.mark.parametrize("qos", [1, 2])
def test_how_long_acknowledgements_wait_is_counted(qos: int) -> None:
    """Those of the batch under way, and of what gathers behind it, from the turn that began it; what waits for no
    commit is not counted.
    """
    node = Node()
    keeper(node)
    first, second, third = (node.connect(name) for name in ("first", "second", "third"))
    counted = node.counters.acknowledgement_wait
    first.publish("nobody", b"0", qos=qos)
    assert sum(counted.counts) == 0
    node.hold()
    first.publish("kept", b"1", qos=qos)
    node.advance(3)
    second.publish("kept", b"2", qos=qos)
    node.advance(1)
    third.publish("kept", b"3", qos=qos)
    node.advance(1)
    node.release()
    assert counted.total == pytest.approx(5 + 2 * 2)
    assert sum(counted.counts) == 3


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_waits_where_nothing_is_kept(version: ProtocolVersion, qos: int) -> None:
    """No receiver, or only those that end with their connection: answered while the disk hangs."""
    node = Node()
    keeper(node)
    reader, writer = node.connect("reader"), node.connect("writer", version)
    reader.subscribe("live", qos=qos)
    node.hold()
    assert ids(writer.publish("live", b"1", qos=qos)) == [1]
    assert ids(writer.publish("nobody", b"2", qos=qos)) == [2]
    assert reader.payloads() == [b"1"]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_recorded_is_acknowledged_when_it_is_safe(qos: int) -> None:
    """Whoever wants it, or nobody; and QoS 0 is committed although nobody waits for it."""
    node = Node(log_use=LogUse(record=("t/#",)))
    writer = node.connect("writer")
    writer.publish("t/0", b"x")
    assert node.log.committed_end == node.log.end > 0
    node.hold()
    assert writer.publish("t/1", b"x", qos=qos) == []
    node.release()
    assert writer.acks(ACK[qos])


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_answers_leave_in_the_order_of_the_publishes(version: ProtocolVersion, qos: int) -> None:
    """[MQTT-4.6.0-2] [MQTT-4.6.0-3] One that could go at once waits behind one that can't."""
    node = Node()
    keeper(node)
    writer = node.connect("writer", version)
    node.hold()
    for topic in ("kept", "nobody", "kept", "nobody"):
        assert writer.publish(topic, b"x", b"y", qos=qos) == []
    node.release()
    assert ids(writer.acks(ACK[qos])) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("qos", "expiry"), [(1, 600), (1, 0), (2, 0)])
def test_a_refusal_with_words_among_those_that_wait_hides_none(qos: int, expiry: int) -> None:
    """It is written already; what can go as soon as it does is answered behind it, and not with it."""
    node = Node()
    keeper(node)
    live, writer = node.connect("live"), node.connect("writer", clean=False, expiry=expiry)
    live.subscribe("live")
    node.hold()
    for topic in ("kept", "$SYS/x", "live", "live", "$SYS/x", "live"):
        writer.publish(topic, b"x", qos=qos)
    node.release()
    denied, success = ReasonCode.NOT_AUTHORIZED, ReasonCode.SUCCESS
    acks = [(ack.packet_id, ack.reason) for ack in writer.take(Ack)]
    assert acks == [(1, success), (2, denied), (3, success), (4, success), (5, denied), (6, success)]
    assert writer.publish("live", b"x", qos=qos) != []


def test_reasons_stay_with_their_messages_behind_a_commit() -> None:
    """Success for what was kept, 0x10 for what nobody wanted."""
    node = Node()
    keeper(node)
    writer = node.connect("writer")
    node.hold()
    for topic in ("kept", "nobody", "nobody", "kept", "nobody"):
        writer.publish(topic, b"x", qos=1)
    node.release()
    none, success = ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.SUCCESS
    acks = [(ack.packet_id, ack.reason) for ack in writer.take(Ack)]
    assert acks == [(1, success), (2, none), (3, none), (4, success), (5, none)]


def test_answers_to_different_packets_keep_their_order() -> None:
    """QoS 1, QoS 2, SUBACK and PUBCOMP of one client, with the disk in between."""
    node = Node()
    keeper(node)
    writer = node.connect("writer", clean=False, expiry=60)
    writer.publish("nobody", b"", qos=2, packet_id=50)
    node.hold()
    writer.publish("kept", b"1", qos=1, packet_id=1)
    writer.publish("nobody", b"2", qos=2, packet_id=2)
    writer.send(subscribe(3, "some"))
    writer.ack(PacketType.PUBREL, 50)
    writer.publish("kept", b"4", qos=1, packet_id=4)
    assert writer.take_all() == []
    node.release()
    got = [(packet.type.name, packet.packet_id) for packet in writer.take_all() if isinstance(packet, Ack | Suback)]
    assert got == [("PUBACK", 1), ("PUBREC", 2), ("SUBACK", 3), ("PUBCOMP", 50), ("PUBACK", 4)]


def test_what_is_no_answer_to_a_kept_thing_does_not_wait() -> None:
    """PINGRESP shows that the connection lives; messages of others go on."""
    node = Node()
    keeper(node)
    writer = node.connect("writer")
    writer.subscribe("live")
    node.hold()
    writer.publish("kept", b"1", qos=1)
    writer.send(Pingreq())
    writer.publish("live", b"2")
    assert [type(packet) for packet in writer.take_all()] == [Pingresp, Publish]


def test_each_commit_lets_go_what_waited_for_it() -> None:
    """One batch under way, the next gathers: two releases, two answers."""
    node = Node()
    keeper(node)
    writer = node.connect("writer")
    node.hold()
    writer.publish("kept", b"1", qos=1)
    writer.publish("kept", b"2", qos=1)
    assert node.store.latest - node.store.committed == 2
    commits = node.counters.commits
    node.release()
    assert node.counters.commits == commits + 2
    assert ids(writer.acks(PacketType.PUBACK)) == [1, 2]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_is_acknowledged_when_it_is_safe(qos: int) -> None:
    """Also without any receiver; readers that are connected get it before."""
    node = Node()
    reader, writer = node.connect("reader"), node.connect("writer")
    reader.subscribe("t", qos=2)
    node.hold()
    assert writer.publish("t", b"1", qos=qos, retain=True) == []
    assert reader.payloads() == [b"1"]
    node.release()
    assert len(writer.take_all()) == (qos > 0)
    assert node.records(CacheName.RETAINED) == 1


@pytest.mark.parametrize(
    ("expiry", "will"), [(60, None), (None, ConnectWill(b"w", b"", 0, False, Properties()))], ids=["session", "will"]
)
def test_connack_waits_for_what_it_says(expiry: int | None, will: ConnectWill | None) -> None:
    """A session or a will that is not safe yet is not confirmed; what came behind CONNECT waits with it."""
    node = Node()
    node.hold()
    client = node.connect("c", clean=False, expiry=expiry, will=will)
    assert client.connack is None
    client.send(subscribe(1, "a"))
    client.publish("a", b"x")
    assert client.take_all() == []
    node.release()
    came = client.take_all()
    assert type(came[0]) is Connack
    # MQTT lets messages come before the SUBACK.
    assert {type(packet) for packet in came[1:]} == {Suback, Publish}


def test_connack_of_a_client_that_keeps_nothing_comes_at_once() -> None:
    """Whatever the disk does."""
    node = Node()
    node.hold()
    assert node.connect("c").connack is not None


def test_connack_of_a_clean_client_waits_until_the_old_session_is_gone() -> None:
    """[MQTT-3.1.2-4] Otherwise a crash would bring it back."""
    node = Node()
    keeper(node).lose()
    node.hold()
    client = node.connect("keeper")
    assert client.connack is None
    node.release()
    (connack,) = client.take(Connack)
    assert not connack.session_present
    assert node.records(CacheName.SESSIONS, CacheName.SUBSCRIPTIONS) == 0


def test_suback_and_unsuback_of_a_durable_session_wait() -> None:
    """A confirmed subscription survives a crash, a confirmed removal too."""
    node = Node()
    reader = keeper(node)
    node.hold()
    reader.send(subscribe(9, "more"))
    assert reader.take_all() == []
    node.restart()
    assert set(node.session("keeper").subscriptions) == {"kept"}


@pytest.mark.parametrize("qos", [1, 2])
def test_pubrel_and_pubcomp_wait_for_their_notes(qos: int) -> None:
    """PUBREL until PUBREC is noted, PUBCOMP until the id is forgotten: a restart continues the same exchange."""
    node = Node()
    reader, writer = keeper(node, qos=qos), node.connect("writer", clean=False, expiry=60)
    writer.publish("kept", b"1", qos=2, packet_id=5)
    (message,) = reader.messages()
    node.hold()
    writer.ack(PacketType.PUBREL, 5)
    assert writer.take_all() == []
    if qos == 2:
        reader.ack(PacketType.PUBREC, message.packet_id)
        assert reader.take_all() == []
    node.release()
    assert [packet.type for packet in writer.take_all()] == [PacketType.PUBCOMP]
    assert [packet.type for packet in reader.take_all()] == [PacketType.PUBREL] * (qos - 1)


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_a_grid_that_refuses_leaves_publishers_connected_and_unanswered(version: ProtocolVersion, qos: int) -> None:
    """[MQTT-4.8.0-2] The chosen way: nobody is closed, nothing is lost, the answers come after the recovery."""
    node = Node()
    reader, writer = keeper(node), node.connect("writer", version)
    node.fail()
    writer.publish("kept", b"1", b"2", qos=qos)
    node.advance(60)
    writer.publish("kept", b"3", qos=qos)
    assert writer.acks(ACK[qos]) == []
    assert reader.payloads() == []
    assert not writer.closed
    assert not reader.closed
    assert node.store.failing
    assert node.counters.commit_failures > 1
    node.recover()
    assert ids(writer.acks(ACK[qos])) == [1, 2, 3]
    assert reader.drain() == [b"1", b"2", b"3"]
    assert not node.store.failing
    assert node.dropped() == {}


@pytest.mark.parametrize("written", [False, True], ids=["lost", "written"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_crash_before_the_answer_leaves_all_or_nothing(qos: int, written: bool) -> None:
    """The publisher repeats: QoS 2 arrives once either way, QoS 1 at least once."""
    node = Node()
    keeper(node)
    writer = node.connect("writer", clean=False, expiry=60)
    node.hold()
    writer.publish("kept", b"1", qos=qos, packet_id=7)
    node.restart(written=written)
    writer = node.connect("writer", clean=False, expiry=60)
    assert ids(writer.publish("kept", b"1", qos=qos, packet_id=7, dup=True)) == [7]
    reader = node.connect("keeper", clean=False, expiry=600)
    assert reader.drain() == [b"1"] * (2 if written and qos == 1 else 1)


def test_a_repeated_qos_2_publish_does_not_overtake_its_first_answer() -> None:
    """PUBREC promises that the message is safe, so the second one waits as well."""
    node = Node()
    reader, writer = keeper(node), node.connect("writer")
    node.hold()
    assert writer.publish("kept", b"1", qos=2, packet_id=7) == []
    assert writer.publish("kept", b"1", qos=2, packet_id=7, dup=True) == []
    node.release()
    assert ids(writer.acks(PacketType.PUBREC)) == [7, 7]
    assert reader.drain() == [b"1"]


def test_a_repetition_is_answered_as_what_it_is() -> None:
    """[MQTT-4.3.3-10] Success, and not "no matching subscribers": the first one may have had some."""
    node = Node()
    reader, writer = keeper(node), node.connect("writer")
    writer.publish("kept", b"1", qos=2, packet_id=1)
    again = writer.publish("kept", b"1", b"2", qos=2, packet_id=1, dup=True)
    assert [(ack.packet_id, ack.reason) for ack in again if isinstance(ack, Ack)] == [(1, ReasonCode.SUCCESS)] * 2
    assert reader.drain() == [b"1"]


def test_new_ids_among_repeated_ones_are_new_messages() -> None:
    """Each is answered for itself, in order."""
    node = Node()
    reader, writer = node.connect("reader"), node.connect("writer")
    reader.subscribe("t", qos=2)
    assert ids(writer.publish("t", b"2", qos=2, packet_id=2)) == [2]
    writer.send(*(Publish(b"t", b"%d" % number, 2, packet_id=number) for number in (1, 2, 3, 3)))
    assert ids(writer.acks(PacketType.PUBREC)) == [1, 2, 3, 3]
    assert reader.payloads() == [b"2", b"1", b"3"]


@VERSIONS
def test_pubrec_waits_until_its_id_is_kept(version: ProtocolVersion) -> None:
    """Although nobody wants the message: a start that did not know the id would take a repetition for a new message."""
    node = Node()
    writer = node.connect("writer", version, clean=False, expiry=None if version is V311 else 60)
    node.hold()
    assert writer.publish("nobody", b"1", qos=2) == []
    node.release()
    assert ids(writer.acks(PacketType.PUBREC)) == [1]
