"""The flight recorder: what went over a client's connections, for as long as it is kept, and never a secret."""

from __future__ import annotations

from iot_mqtt.broker.recorder import EACH, REFUSED, Recorder
from iot_mqtt.codec.describing import PacketInfo, described
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.recording import RecorderSettings
from tests.unit.broker.harness import Node


def packets(node: Node, client_id: str) -> list[PacketInfo]:
    """Of all connections of a client."""
    return [one for recording in node.broker.monitoring.recorder.of(client_id) for one in described(recording.image)]


def test_what_a_client_says_and_is_told_is_recorded() -> None:
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("t/#", qos=1)
    writer = node.connect("writer")
    writer.publish("t/1", b"hidden", qos=1)
    node.turn()
    said = [(one.direction, one.text) for one in packets(node, "writer")]
    assert said[0][1].startswith("CONNECT MQTT")
    assert said[1][1].startswith("CONNACK")
    assert said[2][0] == "in"
    assert said[2][1].startswith("PUBLISH t/1, QoS 1, id ")
    assert said[2][1].endswith("6 bytes")
    assert said[3][0] == "out"
    assert said[3][1].startswith("PUBACK id ")
    heard = [(one.direction, one.packet, one.text) for one in packets(node, "reader")]
    assert heard[2][:2] == ("in", "SUBSCRIBE")
    assert "t/# QoS 1" in heard[2][2]
    assert heard[3][:2] == ("out", "SUBACK")
    assert heard[4][:2] == ("out", "PUBLISH")
    assert not any(b"hidden" in one.image for one in node.broker.monitoring.recorder.of("writer"))


def test_a_batch_is_one_record() -> None:
    node = Node()
    writer = node.connect("writer")
    writer.wire.feed(b"".join(b"\x30\x05\x00\x03t/%d" % number for number in range(5)))
    (batch,) = [one for one in packets(node, "writer") if one.packet == "PUBLISH"]
    assert batch.packets == 5
    assert batch.text.startswith("5 PUBLISH, 35 bytes: PUBLISH t/0, ")
    assert "PUBLISH t/4" in batch.text


def test_it_stays_for_a_while_after_the_connection() -> None:
    clock = ManualClock()
    recorder = Recorder(RecorderSettings(keep_seconds=60), clock.wall)
    ring = recorder.begin()
    assert ring is not None
    ring.received(b"\xc0\x00")
    recorder.named(ring, "c", "1.2.3.4:5")
    recorder.ended(ring, "peer_closed")
    clock.advance(59)
    recorder.sweep()
    (kept,) = recorder.of("c")
    assert kept.info.end == "peer_closed"
    assert kept.info.until == kept.info.since
    assert [one.packet for one in described(kept.image)] == ["PINGREQ"]
    clock.advance(2)
    recorder.sweep()
    assert recorder.of("c") == []
    assert len(recorder) == 0


def test_it_is_bounded() -> None:
    """Of one client, and of all; the ended go first, and whoever is too many is not recorded."""
    recorder = Recorder(RecorderSettings(client_bytes=1024, bytes=10 * 1024), ManualClock().wall)
    for _ in range(EACH + 3):
        ring = recorder.begin()
        assert ring is not None
        recorder.named(ring, "often", "")
        recorder.ended(ring, "peer_closed")
    assert len(recorder.of("often")) == EACH
    rings = [recorder.begin() for _ in range(12)]
    assert rings.count(None) == 2
    assert recorder.of("often") == []
    assert len(recorder) == 10


def test_who_is_refused_pushes_out_nobody_else() -> None:
    recorder = Recorder(RecorderSettings(), ManualClock().wall)
    ring = recorder.begin()
    assert ring is not None
    recorder.named(ring, "victim", "")
    for _ in range(REFUSED + 50):
        other = recorder.begin()
        assert other is not None
        recorder.ended(other, "not_authorized", "victim", "6.6.6.6:6")
    kept = recorder.of("victim")
    assert len(kept) == REFUSED + 1
    assert kept[0].info.until is None


def test_it_can_be_off() -> None:
    recorder = Recorder(RecorderSettings(enabled=False), ManualClock().wall)
    assert recorder.begin() is None
