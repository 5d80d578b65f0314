"""What is there again after kill -9, thing by thing and byte by byte."""

from __future__ import annotations

import time

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess

VERSIONS = [pytest.param(4, id="3.1.1"), pytest.param(5, id="5.0")]
pytestmark = pytest.mark.parametrize("version", VERSIONS)


def _restart(broker: BrokerProcess) -> None:
    # mosquitto writes its file at a stop and every second or so; only the peaceful stop is fair to it.
    broker.restart(kill=not MOSQUITTO)


def _settle(client: Plain) -> None:
    """Wait until the client's last PUBACK or PUBCOMP is safe: nothing answers one, but something later is answered."""
    client.publish("nobody/listens", b"", qos=2, packet_id=99)
    client.expect(wire.PUBREC)


def _session(broker: BrokerProcess, client_id: str, version: int, *, present: bool | None = None) -> Plain:
    """Connect with a session that outlives the connection; check whether it was there."""
    client = Plain(broker.ports["mqtt"], version=version)
    answer = client.connect(client_id, clean=False, expiry=3600 if version == 5 else 0)
    if present is not None:
        assert answer.body[0] == present, "session present"
    return client


def test_retained_messages_are_there_again(broker: BrokerProcess, version: int) -> None:
    """Set at each QoS, replaced and removed: the last state counts."""
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("writer")
        for qos in (0, 1, 2):
            client.publish(f"kept/{qos}", b"old", qos=1, packet_id=1, retain=True)
            client.expect(wire.PUBACK)
            client.publish(f"kept/{qos}", f"new {qos}".encode(), qos=qos, packet_id=2, retain=True)
            if qos == 2:
                client.expect(wire.PUBREC)
                client.send(wire.ack(wire.PUBREL, 2))
            if qos:
                client.expect(wire.PUBACK if qos == 1 else wire.PUBCOMP)
        client.publish("kept/gone", b"x", qos=1, packet_id=3, retain=True)
        client.expect(wire.PUBACK)
        client.publish("kept/gone", b"", qos=1, packet_id=4, retain=True)
        client.expect(wire.PUBACK)
    _restart(broker)
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("reader")
        client.subscribe(("kept/#", 0))
        got = {(m.topic, m.payload) for m in (client.expect_publication() for _ in range(3))}
        assert got == {(f"kept/{qos}", f"new {qos}".encode()) for qos in (0, 1, 2)}
        client.expect_silence()


def test_subscriptions_route_as_soon_as_anybody_gets_in(broker: BrokerProcess, version: int) -> None:
    """A publisher that is the first to connect after the restart reaches a session that is still away."""
    _session(broker, "reader", version, present=False).subscribe(("a/+/c", 1), ("b/#", 2))
    _restart(broker)
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("publisher")
        client.publish("a/b/c", b"one", qos=1, packet_id=1)
        client.expect(wire.PUBACK)
    with _session(broker, "reader", version, present=True) as client:
        message = client.expect_publication()
        assert (message.topic, message.payload, message.qos, message.dup) == ("a/b/c", b"one", 1, False)


def test_queued_messages_wait_in_order(broker: BrokerProcess, version: int) -> None:
    """What came while the reader was away, before the kill, comes after it: all, in order, not as duplicates."""
    reader = _session(broker, "reader", version)
    reader.subscribe(("q/#", 2))
    reader.sock.close()
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("publisher")
        for number in range(1, 51):
            client.publish(f"q/{number % 3}", b"%d" % number, qos=1, packet_id=number)
        for _ in range(50):
            client.expect(wire.PUBACK)
    _restart(broker)
    with _session(broker, "reader", version, present=True) as client:
        messages = [client.expect_publication() for _ in range(50)]
        assert [int(m.payload) for m in messages] == list(range(1, 51))
        assert not any(m.dup for m in messages)


def test_messages_in_flight_come_again_with_their_ids_and_dup(broker: BrokerProcess, version: int) -> None:
    """Sent and not acknowledged: the same packet ids, DUP set, the old order [MQTT-4.4.0-1]."""
    reader = _session(broker, "reader", version)
    reader.subscribe(("f/#", 2))
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("publisher")
        for number in range(1, 7):
            client.publish("f/x", b"%d" % number, qos=1 + number % 2, packet_id=number)
            if client.receive().kind == wire.PUBREC:  # type: ignore[union-attr]
                client.send(wire.ack(wire.PUBREL, number))
                client.expect(wire.PUBCOMP)
    before = [reader.expect_publication() for _ in range(6)]
    assert [int(m.payload) for m in before] == [1, 2, 3, 4, 5, 6]
    assert before[1].qos == 1
    reader.send(wire.ack(wire.PUBACK, before[1].packet_id))
    _settle(reader)
    # What is confirmed at QoS 1 is written late: ``durable_sessions.progress_delay``.
    time.sleep(0.3)
    _restart(broker)
    with _session(broker, "reader", version, present=True) as client:
        after = [client.expect_publication() for _ in range(5)]
        assert [(m.payload, m.packet_id, m.qos) for m in after] == [
            (m.payload, m.packet_id, m.qos) for m in before if m is not before[1]
        ]
        assert all(m.dup for m in after)


@pytest.mark.skipif(MOSQUITTO, reason="mosquitto 2.0.11 sends the PUBLISH again after a restart")
def test_a_released_message_is_completed_and_not_sent_again(broker: BrokerProcess, version: int) -> None:
    """After PUBREC only PUBREL goes on, with the same id; after PUBCOMP nothing does."""
    reader = _session(broker, "reader", version)
    reader.subscribe(("r/x", 2))
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("publisher")
        client.publish("r/x", b"once", qos=2, packet_id=9)
        client.expect(wire.PUBREC)
        client.send(wire.ack(wire.PUBREL, 9))
        client.expect(wire.PUBCOMP)
    message = reader.expect_publication()
    reader.send(wire.ack(wire.PUBREC, message.packet_id))
    assert reader.expect(wire.PUBREL).packet_id == message.packet_id
    _restart(broker)
    client = _session(broker, "reader", version, present=True)
    assert client.expect(wire.PUBREL).packet_id == message.packet_id
    client.expect_silence()
    client.send(wire.ack(wire.PUBCOMP, message.packet_id))
    _settle(client)
    _restart(broker)
    with _session(broker, "reader", version, present=True) as client:
        client.expect_silence()


def test_a_received_id_is_known_until_it_is_released(broker: BrokerProcess, version: int) -> None:
    """The same QoS 2 PUBLISH, sent again with DUP after the restart, is not delivered twice [MQTT-4.3.3-10]."""
    reader = _session(broker, "reader", version)
    reader.subscribe(("i/x", 2))
    writer = _session(broker, "writer", version)
    writer.publish("i/x", b"once", qos=2, packet_id=7)
    writer.expect(wire.PUBREC)
    _restart(broker)
    with _session(broker, "reader", version, present=True) as reader:
        with _session(broker, "writer", version, present=True) as writer:
            frame = wire.publish("i/x", b"once", qos=2, packet_id=7, version=version)
            writer.send(wire.as_duplicate(frame))
            assert writer.expect(wire.PUBREC).packet_id == 7
            writer.send(wire.ack(wire.PUBREL, 7))
            assert writer.expect(wire.PUBCOMP).packet_id == 7
            # Released: the id is free, and means a new message.
            writer.publish("i/x", b"next", qos=2, packet_id=7)
            writer.expect(wire.PUBREC)
            writer.send(wire.ack(wire.PUBREL, 7))
            writer.expect(wire.PUBCOMP)
        assert [reader.expect_publication().payload for _ in range(2)] == [b"once", b"next"]
        reader.expect_silence()


def test_an_unsubscribed_filter_stays_unsubscribed(broker: BrokerProcess, version: int) -> None:
    """What was taken back before the kill is not remembered after it."""
    reader = _session(broker, "reader", version)
    reader.subscribe(("u/1", 1), ("u/2", 1))
    body = b"\x00\x02" + (b"\x00" if version == 5 else b"") + wire.text("u/1")
    reader.send(wire.packet(0xA2, body))
    reader.expect(wire.UNSUBACK)
    _restart(broker)
    reader = _session(broker, "reader", version, present=True)
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("publisher")
        for topic in ("u/1", "u/2"):
            client.publish(topic, b"x", qos=1, packet_id=1)
            client.expect(wire.PUBACK)
    assert reader.expect_publication().topic == "u/2"
    reader.expect_silence()


def test_a_session_that_was_ended_stays_ended(broker: BrokerProcess, version: int) -> None:
    """A clean CONNECT discards the session, for good."""
    _session(broker, "client", version).subscribe(("e/x", 1))
    with Plain(broker.ports["mqtt"], version=version) as client:
        client.connect("client", clean=True)
        client.ping()
    _restart(broker)
    with _session(broker, "client", version, present=False) as client:
        client.expect_silence(0.1)


@pytest.mark.skipif(MOSQUITTO, reason="mosquitto does not keep the wills of connected clients")
def test_a_will_is_published_when_the_broker_was_killed(broker: BrokerProcess, version: int) -> None:
    """The connection is gone without a DISCONNECT, whoever died: the will goes out after the restart."""
    watcher = _session(broker, "watcher", version)
    watcher.subscribe(("wills/#", 1))
    mortal = Plain(broker.ports["mqtt"], version=version)
    expiry = 3600 if version == 5 else 0
    mortal.connect("mortal", clean=False, expiry=expiry, will=("wills/mortal", b"gone", 1, True))
    peaceful = Plain(broker.ports["mqtt"], version=version)
    peaceful.connect("peaceful", clean=False, expiry=expiry, will=("wills/peaceful", b"gone", 1, True))
    peaceful.disconnect()
    time.sleep(0.2)
    _restart(broker)
    with _session(broker, "watcher", version, present=True) as watcher:
        message = watcher.expect_publication()
        assert (message.topic, message.payload) == ("wills/mortal", b"gone")
        watcher.send(wire.ack(wire.PUBACK, message.packet_id))
        watcher.expect_silence()
