"""``uplink.ack: kafka``: who publishes hears that it arrived when the sink has it, in order, and nobody else waits."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.broker.uplink import Others
from iot_mqtt.broker.uplink.holding import Held, HeldAnswer
from iot_mqtt.codec import Ack, Packet, PacketType, Pingreq, Pingresp, Suback
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.uplink import Place
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import subscribe
from tests.unit.uplink.sinkkit import MemorySink, UplinkedNode

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
ANSWER = {1: PacketType.PUBACK, 2: PacketType.PUBREC}


def waiting_node(*rules: dict[str, object], **options: object) -> UplinkedNode:
    """A node whose sink has said nothing yet."""
    it = UplinkedNode(*rules, hold=True, **options)
    it.sink.at_once = False
    return it


def settle(it: UplinkedNode, count: int | None = None) -> None:
    it.sink.settle(count)
    it.node.turn()


def ids(packets: list[Packet]) -> list[int]:
    return [packet.packet_id for packet in packets if isinstance(packet, Ack)]


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("qos", [1, 2])
def test_an_acknowledgement_waits_for_the_sink(qos: int, version: ProtocolVersion) -> None:
    """PUBACK and PUBREC alike, though the message is committed and in the sink's hands."""
    it = waiting_node()
    writer = it.node.connect("writer", version)
    assert writer.publish("up/x", b"1", b"2", qos=qos) == []
    assert len(it.sink.sent) == 1
    holding = it.uplink.holding
    assert holding is not None
    assert (holding.held_for("writer"), holding.held_for("reader")) == (2, 0)
    settle(it)
    assert holding.held_for("writer") == 0
    found = writer.acks(ANSWER[qos])
    assert ids(found) == [1, 2]
    assert {packet.reason for packet in found if isinstance(packet, Ack)} == {ReasonCode.SUCCESS}


def test_it_waits_for_the_commit_as_well() -> None:
    """The sink gets nothing before."""
    it = waiting_node()
    writer = it.node.connect("writer")
    it.node.hold()
    writer.publish("up/x", b"1", qos=1)
    assert not it.sink.sent
    it.node.release()
    assert writer.acks(PacketType.PUBACK) == []
    settle(it)
    assert ids(writer.acks(PacketType.PUBACK)) == [1]


def test_qos_2_ends_as_ever() -> None:
    """PUBCOMP follows PUBREL at once: what PUBREC said is safe."""
    it = waiting_node()
    writer = it.node.connect("writer", expiry=100)
    writer.publish("up/x", b"1", qos=2)
    settle(it)
    assert ids(writer.acks(PacketType.PUBREC)) == [1]
    writer.ack(PacketType.PUBREL, 1)
    assert ids(writer.acks(PacketType.PUBCOMP)) == [1]


def test_what_another_node_may_have_recorded_is_waited_for() -> None:
    """A session that was there has ids of QoS 2; which of them are up, that node's kept place says."""
    it = waiting_node()
    writer = it.node.connect("writer", clean=False, expiry=100)
    writer.publish("up/x", b"1", qos=2)
    settle(it)
    it.restart()
    places = {7: Place("7.a", 100, recorded=5, taken=3)}

    async def look() -> dict[int, Place]:
        return places

    holding = it.uplink.holding
    assert holding is not None
    holding.others = Others(look, it.node.clock, holding.moved)
    writer = it.node.connect("writer", clean=False, expiry=100)
    writer.acks(PacketType.PUBREC)
    writer._packet_id = 0
    assert writer.publish("up/x", b"1", qos=2, dup=True) == []
    writer.publish("up/x", b"2", qos=2)
    it.node.advance(5)
    settle(it)
    assert writer.acks(PacketType.PUBREC) == []
    places[7] = Place("7.a", 110, recorded=9, taken=5)
    it.node.advance(2)
    assert ids(writer.acks(PacketType.PUBREC)) == [1, 2]
    # One that began here needs nobody else.
    places[7] = Place("7.a", 110, recorded=9, taken=7)
    writer._packet_id = 1
    assert ids(writer.publish("up/x", b"2", qos=2, dup=True)) == [2]


def test_only_acknowledgements_of_the_same_kind_keep_in_line() -> None:
    """MQTT wants them in order; everything else on the connection goes on."""
    it = waiting_node()
    writer = it.node.connect("writer")
    writer.publish("up/x", b"1", qos=1)
    assert writer.publish("other", b"2", qos=1) == []
    assert ids(writer.publish("other", b"3", qos=2)) == [3]
    writer.send(subscribe(9, "down"), Pingreq())
    assert (len(writer.take(Suback)), len(writer.take(Pingresp))) == (1, 1)
    it.node.connect("other").publish("down", b"x")
    assert writer.payloads() == [b"x"]
    settle(it)
    assert ids(writer.acks(PacketType.PUBACK)) == [1, 2]


def test_others_are_not_kept_waiting() -> None:
    """Neither clients who publish something else, nor QoS 0, nor subscribers of what waits."""
    it = waiting_node()
    reader = it.node.connect("reader")
    reader.subscribe("#", qos=1)
    writer, other = it.node.connect("writer"), it.node.connect("other")
    writer.publish("up/x", b"1", qos=1)
    writer.publish("up/x", b"2", qos=0)
    assert ids(other.publish("other", b"3", qos=1)) == [1]
    assert sorted(reader.payloads()) == [b"1", b"2", b"3"]


def test_each_publish_waits_for_its_own_record() -> None:
    """What was sent first is acknowledged first."""
    it = waiting_node()
    first, second = it.node.connect("first"), it.node.connect("second")
    first.publish("up/x", b"1", qos=1)
    second.publish("up/x", b"2", qos=1)
    first.publish("up/x", b"3", qos=1)
    settle(it, 1)
    assert (ids(first.acks(PacketType.PUBACK)), ids(second.acks(PacketType.PUBACK))) == ([1], [])
    settle(it, 2)
    assert (ids(first.acks(PacketType.PUBACK)), ids(second.acks(PacketType.PUBACK))) == ([2], [1])


def test_what_the_sink_has_and_cannot_make_safe_waits_as_well() -> None:
    """It is in the log until then, and that is what an operator wants to know; so it is with what the sink notes."""
    it = waiting_node()
    it.node.connect("writer").publish("up/x", b"1", b"2", b"3", qos=1)
    it.sink.trouble, it.sink.notes = "the topic is missing", ("a name is refused",)
    assert "the topic is missing; 3 wait in the log" in it.node.view.alarms[0].text
    assert it.node.view.alarms[1] == Alarm(AlarmKind.OTHER, "a name is refused")
    for lacks_room, kind in ((False, AlarmKind.UPLINK_TROUBLE), (True, AlarmKind.UPLINK_ROOM)):
        it.sink.lacks_room = lacks_room
        assert it.node.view.alarms[0].kind is kind


def test_while_the_sink_is_away_nobody_is_told_anything() -> None:
    """And when it is back nothing is missing."""
    it = waiting_node()
    writer = it.node.connect("writer")
    it.sink.break_it("gone")
    writer.publish("up/x", b"1", b"2", qos=1)
    it.node.advance(60)
    assert writer.acks(PacketType.PUBACK) == []
    assert "2 wait in the log, and 1 publishers for their acknowledgements" in it.node.view.alarms[0].text
    it.sink.trouble, it.sink.at_once = None, True
    it.node.advance(1)
    assert ids(writer.acks(PacketType.PUBACK)) == [1, 2]
    assert it.sink.payloads == [b"1", b"2"]
    assert it.node.view.alarms == ()


def test_a_message_that_no_rule_wants_after_all_is_acknowledged() -> None:
    """It was recorded for a rule that looks into messages; there is nothing to wait for once it was looked at."""
    it = waiting_node({"filter": "up/#", "when": "payload > 5"})
    writer = it.node.connect("writer")
    assert ids(writer.publish("up/x", b"1", qos=1)) == [1]
    assert writer.publish("up/x", b"9", qos=1) == []
    assert writer.publish("up/x", b"2", qos=1) == []
    settle(it)
    assert ids(writer.acks(PacketType.PUBACK)) == [2, 3]


def test_a_client_of_version_5_keeps_to_its_receive_maximum() -> None:
    """What is held counts as unacknowledged."""
    it = waiting_node(settings=MqttSettings(receive_maximum=3))
    writer = it.node.connect("writer")
    writer.publish("up/x", b"1", b"2", b"3", qos=1)
    settle(it)
    assert len(writer.acks(PacketType.PUBACK)) == 3
    writer.publish("up/x", b"4", b"5", b"6", qos=1)
    assert not writer.closed
    writer.publish("up/x", b"7", qos=1)
    assert writer.farewell is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_of_version_3_is_not_read_from_beyond_that(qos: int) -> None:
    """It can't be told how much it may have under way. It goes on by itself."""
    it = waiting_node(settings=MqttSettings(receive_maximum=3))
    writer = it.node.connect("writer", V311)
    for number in range(10):
        writer.publish("up/x", b"%d" % number, qos=qos)
    assert it.node.session("writer").connection is not None
    assert sum(len(records) for records, _ in it.sink.sent) == 4
    assert it.node.counters.publishers_paused == {"uplink": 1}
    settle(it)
    assert len(writer.acks(ANSWER[qos])) == 4
    while it.sink.sent:
        settle(it)
    assert ids(writer.acks(ANSWER[qos])) == list(range(5, 11))
    assert it.sink.payloads == [b"%d" % number for number in range(10)]
    assert it.node.broker.publishing.budget.paused_count == 0


def test_nothing_is_held_for_a_connection_that_is_gone() -> None:
    """Who comes back sends again and waits anew."""
    it = waiting_node()
    writer = it.node.connect("writer", expiry=100)
    writer.publish("up/x", b"1", qos=1)
    again = it.node.connect("writer", clean=False, expiry=100)
    assert writer.farewell is ReasonCode.SESSION_TAKEN_OVER
    holding = it.uplink.holding
    assert holding is not None
    assert holding.connections == 0
    assert again.publish("up/x", b"1", qos=1, dup=True, packet_id=1) == []
    settle(it)
    assert ids(again.acks(PacketType.PUBACK)) == [1]
    assert it.node.session("writer").inbound.unacknowledged == 0
    again.lose()
    assert it.sink.payloads == [b"1", b"1"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_repeated_qos_2_message_waits_for_the_first_one(*, restarted: bool) -> None:
    """It is not published again, and PUBREC must not say that it is safe before it is; not even after a restart."""
    it = waiting_node()
    writer = it.node.connect("writer", expiry=100)
    writer.publish("up/x", b"1", qos=2)
    if restarted:
        it.sink = MemorySink()
        it.sink.at_once = False
        it.node.restart()
        it.begin()
    else:
        writer.lose()
    again = it.node.connect("writer", clean=False, expiry=100)
    assert again.publish("up/x", b"1", qos=2, dup=True, packet_id=1) == []
    settle(it)
    assert ids(again.acks(PacketType.PUBREC)) == [1]
    assert it.sink.payloads == [b"1"]


def test_what_retention_drops_is_never_acknowledged() -> None:
    """The publisher is closed, comes back, and sends it again."""
    it = waiting_node(log_settings=LogSettings(generation_seconds=3600, retention_seconds=7200))
    writer, other = it.node.connect("writer"), it.node.connect("other")
    it.sink.break_it()
    writer.publish("up/x", b"1", qos=1)
    it.node.advance(11_000)
    other.publish("up/x", b"2", qos=1)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    assert it.uplink.info().lost == 1
    assert (writer.closed, other.closed) == (True, False)
    assert writer.acks(PacketType.PUBACK) == []
    it.sink.trouble, it.sink.at_once = None, True
    it.node.advance(1)
    assert ids(other.acks(PacketType.PUBACK)) == [1]


def test_without_it_nothing_is_held() -> None:
    """``uplink.ack: spool``."""
    it = UplinkedNode()
    it.sink.at_once = False
    assert it.uplink.holding is None
    assert ids(it.node.connect("writer").publish("up/x", b"1", qos=1)) == [1]


def test_an_answer_is_due_when_what_is_before_its_position_is_safe() -> None:
    """Not one message earlier; several that are due together wait for the last of their commits."""
    held = Held()
    for position, ticket in ((10, 9), (12, 3)):
        held.add(HeldAnswer(position, ticket, PacketType.PUBACK, [position], ReasonCode.SUCCESS))
    assert held.due(9, 0) == []
    assert (held.first, held.count) == (10, 2)
    assert [(answer.ids, answer.ticket) for answer in held.due(12, 0)] == [([10, 12], 9)]
    assert held.count == 0
