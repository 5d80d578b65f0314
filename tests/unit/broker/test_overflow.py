"""Where messages are too many: queue limits, what publishers are told, and readers that do not read."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, Packet, PacketType, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import OutboxSettings
from tests.unit.broker.harness import V5, V311, Client, Node

SUCCESS, NONE, QUOTA = ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.QUOTA_EXCEEDED
SMALL_OUTBOX = OutboxSettings(high_water=100, low_water=10, hard_limit=1_000_000)
#: Topic "t" and one byte of payload.
SIZE = 2


def reasons(packets: list[Packet]) -> list[ReasonCode]:
    """Of acknowledgements, in order."""
    return [packet.reason for packet in packets if isinstance(packet, Ack)]


def absent(node: Node, name: str = "reader", qos: int = 2, filter: str = "t") -> None:
    """A session that is away; it is durable if the node's sessions are."""
    reader = node.connect(name, clean=False, expiry=600)
    reader.subscribe(filter, qos=qos)
    reader.lose()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [(MqttSettings(max_queued_messages=3), "queue_full"), (MqttSettings(max_queued_bytes=3 * SIZE + 1), "queue_bytes")],
    ids=["messages", "bytes"],
)
@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "run"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_full_queue_refuses_the_newcomer_and_tells_its_publisher(
    settings: MqttSettings, reason: str, qos: int, together: bool
) -> None:
    """What is kept stays; 0x97 for each message that not one receiver took; counted for session and node."""
    node = Node(settings, durable=False)
    absent(node)
    writer = node.connect("writer")
    payloads = [b"0", b"1", b"2", b"3", b"4"]
    told = []
    for run in [payloads] if together else [[payload] for payload in payloads]:
        told += reasons(writer.publish("t", *run, qos=qos))
    assert told == [SUCCESS] * 3 + [QUOTA] * 2
    assert node.dropped() == node.session("reader").dropped == {reason: 2}
    assert node.connect("reader", clean=False, expiry=600).drain() == payloads[:3]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_somebody_took_is_no_failure_for_its_publisher(qos: int) -> None:
    """One full queue among several receivers is counted, and the publisher is told success."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=1))
    absent(node, "full")
    writer = node.connect("writer")
    writer.publish("t", b"0", qos=qos)
    live = node.connect("live")
    live.subscribe("t", qos=0)
    assert reasons(writer.publish("t", b"1", b"2", qos=qos)) == [SUCCESS, SUCCESS]
    assert live.payloads() == [b"1", b"2"]
    assert node.dropped() == {"queue_full": 2}


def test_a_publisher_is_told_when_every_receiver_is_full() -> None:
    """Each of them counts its own."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=1))
    absent(node, "one")
    absent(node, "two")
    writer = node.connect("writer")
    assert reasons(writer.publish("t", b"0", b"1", qos=1)) == [SUCCESS, QUOTA]
    assert node.dropped() == {"queue_full": 2}


def test_a_group_whose_pick_is_full_tells_its_publisher_by_message() -> None:
    """The run divides among the members; positions are those of the whole run."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=2))
    absent(node, "a", filter="$share/g/t")
    writer = node.connect("writer")
    writer.publish("t", b"0", b"1", qos=1)
    absent(node, "b", filter="$share/g/t")
    told = reasons(writer.publish("t", b"2", b"3", b"4", b"5", qos=1))
    assert sorted(told) == [SUCCESS, SUCCESS, QUOTA, QUOTA]
    refused = [number for number, reason in enumerate(told, 2) if reason is QUOTA]
    kept = node.connect("b", clean=False, expiry=600).drain()
    assert sorted(kept + [b"%d" % number for number in refused]) == [b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_3x_publisher_can_only_be_told_success(qos: int) -> None:
    """MQTT 3 has no word for it; the drop is counted all the same, and QoS 2 goes on to PUBCOMP."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=1))
    absent(node)
    writer = node.connect("writer", V311)
    acks = writer.publish("t", b"0", b"1", qos=qos)
    assert reasons(acks) == [SUCCESS, SUCCESS]
    if qos == 2:
        writer.ack(PacketType.PUBREL, 1, 2)
        assert len(writer.acks(PacketType.PUBCOMP)) == 2
    assert node.dropped() == {"queue_full": 1}


def test_an_id_that_was_refused_is_free_for_the_next_message() -> None:
    """[MQTT-4.3.3-4] PUBREC 0x97 ended the exchange: the same id is no repetition, also after a restart."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=1))
    absent(node)
    node.durable = True
    writer = node.connect("writer", clean=False, expiry=600)
    assert reasons(writer.publish("t", b"0", b"1", qos=2)) == [SUCCESS, QUOTA]
    node.restart()
    writer = node.connect("writer", clean=False, expiry=600)
    assert reasons(writer.publish("t", b"2", qos=2, packet_id=2)) == [NONE]


def test_of_a_partly_refused_run_what_was_taken_is_remembered() -> None:
    """[MQTT-4.3.3-10] Also after a restart: what was taken comes once, what was refused is a new message."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=2))
    absent(node)
    node.durable = True
    writer = node.connect("writer", clean=False, expiry=600)
    assert reasons(writer.publish("t", b"0", b"1", b"2", qos=2)) == [SUCCESS, SUCCESS, QUOTA]
    node.restart()
    reader = node.connect("live")
    reader.subscribe("t", qos=2)
    writer = node.connect("writer", clean=False, expiry=600)
    writer.send(*(Publish(b"t", b"%d" % number, 2, dup=True, packet_id=number + 1) for number in range(3)))
    assert reasons(writer.take_all()) == [SUCCESS] * 3
    assert reader.drain() == [b"2"]


def test_repeated_and_refused_ids_of_one_run_are_told_apart() -> None:
    """The known one is acknowledged, the new one is refused for itself."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=1))
    absent(node)
    writer = node.connect("writer")
    assert reasons(writer.publish("t", b"0", qos=2, packet_id=1)) == [SUCCESS]
    writer.send(Publish(b"t", b"0", 2, packet_id=1, dup=False), Publish(b"t", b"1", 2, packet_id=2))
    assert reasons(writer.take_all()) == [SUCCESS, QUOTA]
    assert node.session("writer").inbound.received == {1}


def test_the_queue_has_room_again_when_its_reader_has_read() -> None:
    """Limits are of what waits now."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=2))
    writer = node.connect("writer")
    for _ in range(3):
        if node.broker.sessions.get("reader") is None:
            absent(node)
        assert reasons(writer.publish("t", b"0", b"1", b"2", qos=1)) == [SUCCESS, SUCCESS, QUOTA]
        reader = node.connect("reader", clean=False, expiry=600)
        assert reader.drain() == [b"0", b"1"]
        reader.lose()


def test_a_connected_reader_fills_window_and_queue() -> None:
    """Both together are what waits for it; a clean session has a queue as well."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=3))
    reader = node.connect("reader", receive_maximum=2)
    reader.subscribe("t", qos=1)
    writer = node.connect("writer")
    told = reasons(writer.publish("t", *(b"%d" % number for number in range(7)), qos=1))
    assert told == [SUCCESS] * 5 + [QUOTA] * 2
    assert reader.drain() == [b"%d" % number for number in range(5)]


def test_a_durable_session_is_owed_any_number() -> None:
    """Its messages are in the log: the limits of queues are not for it."""
    node = Node(MqttSettings(max_queued_messages=2, max_queued_bytes=4))
    absent(node)
    payloads = [b"%d" % number for number in range(20)]
    assert set(reasons(node.connect("writer").publish("t", *payloads, qos=1))) == {SUCCESS}
    node.restart()
    assert node.connect("reader", clean=False, expiry=600).drain() == payloads
    assert node.dropped() == {}


def test_qos_0_for_a_session_that_is_away_is_counted() -> None:
    """It is not queued, whatever the session keeps."""
    node = Node()
    absent(node)
    absent(node, "zero", qos=0)
    node.connect("writer").publish("t", b"0", b"1", b"2")
    node.clients[-1].publish("t", b"3", qos=1)
    assert node.dropped() == {"offline_qos0": 7}
    assert node.session("zero").dropped == {"offline_qos0": 4}


def blocked(node: Node, **options: int) -> Client:
    """A reader whose outbox is full of something else."""
    reader = node.connect("reader", **options)  # type: ignore[arg-type]
    reader.subscribe("stuff")
    reader.subscribe("t", qos=2)
    reader.wire.link.capacity = 0
    node.connect("stuffer").publish("stuff", b"x" * 200)
    assert not node.broker.sessions.get("reader").connection.writable  # type: ignore[union-attr]
    return reader


def test_qos_0_for_a_reader_that_does_not_read_is_counted() -> None:
    """Nothing gathers for it, and it goes on when it reads again."""
    node = Node(outbox=SMALL_OUTBOX)
    reader = blocked(node)
    writer = node.connect("writer")
    writer.publish("t", b"1", b"2")
    assert node.dropped() == node.session("reader").dropped == {"outbox_full": 2}
    reader.wire.link.drain()
    node.turn()
    writer.publish("t", b"3")
    assert reader.payloads() == [b"x" * 200, b"3"]


@pytest.mark.parametrize("expiry", [0, 600], ids=["clean", "durable"])
@pytest.mark.parametrize("qos", [1, 2])
def test_qos_1_and_2_wait_for_a_reader_that_does_not_read(qos: int, expiry: int) -> None:
    """In the session, in order, and they come by themselves when it reads: nobody else has to do anything."""
    node = Node(outbox=SMALL_OUTBOX)
    reader = blocked(node, expiry=expiry, receive_maximum=2)
    writer = node.connect("writer")
    payloads = [b"%d" % number for number in range(6)]
    writer.publish("t", *payloads, qos=qos)
    assert node.broker.readers.outflow.state(node.session("reader")) == "outbox_full"
    reader.wire.link.drain()
    node.turn()
    assert reader.drain() == [b"x" * 200, *payloads]
    assert node.dropped() == {}


def test_a_queue_goes_on_when_the_outbox_drains_and_nothing_else_happens() -> None:
    """The ids that it gets then are committed without anybody's help."""
    node = Node(outbox=SMALL_OUTBOX)
    reader = node.connect("reader", V5, expiry=600, receive_maximum=2)
    reader.subscribe("t", qos=1)
    reader.subscribe("stuff")
    node.connect("writer").publish("t", b"1", b"2", b"3", b"4", qos=1)
    assert reader.payloads() == [b"1", b"2"]
    reader.wire.link.capacity = 0
    node.connect("stuffer").publish("stuff", b"x" * 200)
    reader.ack(PacketType.PUBACK, 1, 2)
    assert node.session("reader").backlog == 2
    reader.wire.link.drain()
    node.turn()
    assert reader.payloads() == [b"x" * 200, b"3", b"4"]


def test_a_reader_that_never_reads_costs_the_limit_at_most() -> None:
    """A hundred times what fits: dropped and counted, or refused, and never kept."""
    node = Node(durable=False, settings=MqttSettings(max_queued_messages=10, max_inflight=5), outbox=SMALL_OUTBOX)
    reader = blocked(node)
    writer = node.connect("writer")
    for number in range(100):
        writer.publish("t", b"%d" % number, qos=number % 3)
    assert node.waiting <= 15
    assert reader.wire.channel.outbox.pending < 400
    assert node.counters.messages_matched == node.counters.messages_delivered + node.waiting + sum(
        node.dropped().values()
    )
