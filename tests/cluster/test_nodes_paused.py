"""A node that is stopped by the kernel for three times as long as it takes to be declared dead, and then goes on."""

from __future__ import annotations

import time
from contextlib import ExitStack

from systemkit import wire
from systemkit.plain import Plain

from iot_mqtt.cluster.roster import Life
from tests.cluster.nodes import SESSION_SECONDS, BrokerNode, Nodes, eventually

USE_ANOTHER_SERVER = 0x9C
TOPIC = "paused/topic"


def enter(stack: ExitStack, node: BrokerNode, client_id: str) -> Plain:
    """A client with a session."""
    client = stack.enter_context(Plain(node.port, version=5, timeout=30))
    client.connect(client_id, clean=False, expiry=600)
    return client


def homes(nodes: Nodes, names: list[str]) -> dict[str, Life]:
    """Who owns these clients by the grid's records."""
    return {name: home.life for name, home in nodes.homes().items() if name in names}


def test_a_node_that_was_paused_spoils_nothing(nodes: Nodes) -> None:
    """What its life still had to write is refused, its clients are sent away with a reason, and each has one home."""
    paused, other, third = nodes
    names = ["paused-mover", "paused-stayer", "paused-writer"]
    with ExitStack() as stack:
        watcher = enter(stack, third, "paused-watcher")
        watcher.subscribe((TOPIC, 2))
        mover, stayer, writer = (enter(stack, paused, name) for name in names)
        for client in (mover, stayer):
            client.subscribe((TOPIC, 1))
        writer.publish(TOPIC, b"before", qos=1, packet_id=1)
        assert {writer.expect(wire.PUBACK).packet_id, watcher.expect_publication().payload} == {1, b"before"}
        for client in (mover, stayer):
            message = client.expect_publication()
            assert message.payload == b"before"
            client.send(wire.ack(wire.PUBACK, message.packet_id))
        mover.ping()
        # What is confirmed at QoS 1 is written late: ``durable_sessions.progress_delay``.
        time.sleep(0.3)
        life = homes(nodes, names)
        assert len(life) == 3 and len(set(life.values())) == 1
        (old,) = set(life.values())

        paused.pause()
        began = time.monotonic()
        try:
            # These reach its socket, and it is not going to answer for them in this life.
            writer.publish(TOPIC, b"late", qos=1, packet_id=2)
            writer.publish(TOPIC, b"late and kept", qos=1, packet_id=3, retain=True)
            mover = enter(stack, other, "paused-mover")
            taken_in = time.monotonic() - began
            rival = enter(stack, other, "paused-rival")
            rival.publish(TOPIC, b"meanwhile", qos=1, packet_id=1)
            rival.expect(wire.PUBACK)
            assert mover.expect_publication().payload == b"meanwhile"
            assert eventually(lambda: len(set(homes(nodes, names).values()) - {old}) > 0, 10)
            assert eventually(lambda: old not in homes(nodes, names).values(), 20), "not adopted"
            remaining = began + 3 * SESSION_SECONDS - time.monotonic()
            assert not eventually(lambda: paused.process is None or paused.process.poll() is not None, remaining)
        finally:
            paused.resume()
        resumed = time.monotonic()

        for name, client in (("stayer", stayer), ("writer", writer)):
            last = client.until_closed()
            kinds = [packet.kind for packet in last]
            assert wire.PUBACK not in kinds, f"{name}: acknowledged by a life that was over"
            assert kinds[-1:] == [wire.DISCONNECT] and last[-1].reason() == USE_ANOTHER_SERVER, f"{name}: {last}"
        sent_away_in = time.monotonic() - resumed
        assert eventually(lambda: _serves(paused), 30), paused.log_text()[-3000:]
        print(
            f"taken_in={taken_in:.2f}s sent_away_in={sent_away_in:.2f}s serves_in={time.monotonic() - resumed:.2f}s",
        )

        # One home each, by the records and by what the nodes say.
        owners = homes(nodes, names)
        assert old not in owners.values()
        for name in names:
            assert sum(node.has_session(name) for node in nodes) == 1, name
            assert sum(node.has_client(name) for node in nodes) == (1 if name == "paused-mover" else 0), name
        # Nothing of what it had not written has come to anybody.
        assert not any(node.api(f"retained?filter={TOPIC}")["items"] for node in nodes)
        messages = _until(watcher, b"end", nodes[1])
        assert messages == [b"meanwhile", b"end"]
        # It is one of the cluster again: a client is served there, with its session from the others.
        stayer = enter(stack, paused, "paused-stayer")
        assert [stayer.expect_publication().payload for _ in range(2)] == [b"meanwhile", b"end"]
        back = homes(nodes, names)["paused-stayer"]
        assert back.number == old.number and back.boot > old.boot
        said = [node.api("sessions/paused-writer") for node in nodes if node.has_session("paused-writer")]
        assert [one["last_disconnect"] for one in said] == ["node_lost"]


def _serves(node: BrokerNode) -> bool:
    try:
        with Plain(node.port, version=5) as client:
            client.send(wire.connect("paused-probe", version=5))
            answer = client.receive(5)
            return answer is not None and answer.kind == wire.CONNACK and answer.reason() == 0
    except (OSError, TimeoutError):
        return False


def _until(client: Plain, last: bytes, node: BrokerNode) -> list[bytes]:
    """Everything up to a message that is published now."""
    with Plain(node.port, version=5) as writer:
        writer.connect("paused-closing")
        writer.publish(TOPIC, last, qos=1, packet_id=1)
        writer.expect(wire.PUBACK)
    payloads: list[bytes] = []
    while not payloads or payloads[-1] != last:
        message = client.expect_publication()
        payloads.append(message.payload)
        client.send(wire.ack(wire.PUBACK, message.packet_id))
    return payloads
