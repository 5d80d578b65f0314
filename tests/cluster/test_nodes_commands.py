"""Commands among several nodes: accepted on one, brought by another, each ended once."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from systemkit import wire
from systemkit.plain import Plain

from tests.cluster.nodes import BrokerNode, Nodes, eventually
from tests.doubles.gateway import login

SECONDS = 3


def client(node: BrokerNode, client_id: str, *filters: str) -> Plain:
    """A v5 client with a session."""
    made = Plain(node.port, version=5, timeout=20)
    made.connect(client_id, clean=False, expiry=3600)
    if filters:
        made.subscribe(*((filter, 1) for filter in filters))
    return made


def send(sender: Plain, target: str, command_id: str, *, packet_id: int = 1, deadline: int = 0) -> None:
    """A command with an id, and its PUBACK."""
    properties = b"\x26" + wire.text("command-id") + wire.text(command_id)
    if deadline:
        properties += b"\x02" + deadline.to_bytes(4, "big")
    body = command_id.encode()
    sender.send(wire.publish(f"down/{target}", body, qos=1, packet_id=packet_id, version=5, properties=properties))
    assert sender.expect(wire.PUBACK).reason() < 0x80


def told(listener: Plain, seconds: float) -> list[dict[str, Any]]:
    """Everything that is told within this time."""
    found: list[dict[str, Any]] = []
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            got = listener.receive(left)
        except TimeoutError:
            break
        assert got is not None
        message = wire.publication(got, 5)
        listener.send(wire.ack(wire.PUBACK, message.packet_id))
        found.append(json.loads(message.payload))
    return found


def state(node: BrokerNode, command_id: str) -> str:
    found: str = node.api(f"commands/{command_id}")["state"]
    return found


def is_in(node: BrokerNode, command_id: str, wanted: str) -> Callable[[], bool]:
    return lambda: state(node, command_id) == wanted


def test_the_home_keeps_the_deadline_and_others_see_it(nodes: Nodes) -> None:
    """Accepted on one node for a device that is at home, and away, on the other: expired once, in time."""
    client(nodes[0], "away", "down/away").disconnect()
    assert eventually(lambda: nodes[0].has_session("away"))
    listener = client(nodes[1], "away-listener", "status/away/#")
    began = time.monotonic()
    send(client(nodes[1], "away-sender"), "away", "late", deadline=SECONDS)
    assert state(nodes[0], "late") == state(nodes[1], "late") == "queued"
    assert eventually(is_in(nodes[1], "late", "expired"))
    assert SECONDS - 0.1 < time.monotonic() - began < SECONDS + 1.5
    assert [status["state"] for status in told(listener, 1.0)] == ["queued", "expired"]


def test_a_command_follows_its_device_and_is_not_sent_twice(nodes: Nodes) -> None:
    """It waits at home on one node, is brought by the other, and is not repeated by the first."""
    client(nodes[0], "roving", "down/roving/#").disconnect()
    sender = client(nodes[1], "roving-sender")
    send(sender, "roving/x", "first", packet_id=1)
    device = client(nodes[1], "roving")
    message = device.expect_publication()
    assert message.payload == b"first"
    device.send(wire.ack(wire.PUBACK, message.packet_id))
    assert eventually(is_in(nodes[0], "first", "acked"))
    send(sender, "roving/x", "second", packet_id=2)
    assert device.expect_publication().payload == b"second"
    moved = client(nodes[0], "roving")
    moved.expect_silence(1.0)
    assert eventually(is_in(nodes[1], "second", "uncertain"))
    send(sender, "roving/x", "third", packet_id=3)
    assert moved.expect_publication().payload == b"third"


def test_a_dead_nodes_commands_go_on(nodes: Nodes) -> None:
    """The session is adopted, and with it what waits for it and what was sent."""
    device = client(nodes[0], "orphan", "down/orphan")
    sender = client(nodes[1], "orphan-sender")
    send(sender, "orphan", "sent", packet_id=1)
    assert device.expect_publication().payload == b"sent"
    assert eventually(is_in(nodes[1], "sent", "sent"))
    nodes[0].kill()
    try:
        send(sender, "orphan", "timed", packet_id=2, deadline=15)
        send(sender, "orphan", "waits", packet_id=3)
        assert eventually(lambda: any(node.has_session("orphan") for node in nodes if node.running), 40)
        device = client(nodes[1], "orphan")
        came = {device.expect_publication().payload}
        if state(nodes[1], "timed") == "sent":
            came.add(device.expect_publication().payload)
        assert b"sent" not in came
        assert b"waits" in came
        assert eventually(is_in(nodes[1], "sent", "uncertain"))
        assert state(nodes[1], "timed") in ("sent", "expired", "acked")
    finally:
        nodes[0].start()


def test_the_gateways_of_a_dead_node_are_offline(nodes: Nodes) -> None:
    """Its successor says so; and that one is online that came back, wherever it was before."""
    names = ["lost-gateway", "found-gateway"]
    links = [socket.create_connection(("127.0.0.1", nodes[0].ports["gateway"])) for _ in names]

    def online(name: str, *asked: BrokerNode) -> set[bool]:
        return {any(one["online"] for one in node.api(f"devices?gateway={name}")["items"]) for node in asked}

    lost, found = names
    for link, name in zip(links, names, strict=True):
        link.sendall(login(name, heartbeat=60))
        assert eventually(lambda name=name: online(name, *nodes) == {True})  # type: ignore[misc]
    nodes[0].kill()
    try:
        with socket.create_connection(("127.0.0.1", nodes[2].ports["gateway"])) as link:
            link.sendall(login(found, heartbeat=60))
            assert eventually(lambda: online(lost, nodes[1], nodes[2]) == {False}, 60)
            assert eventually(lambda: nodes[2].has_session(found), 60)
            assert online(found, nodes[1], nodes[2]) == {True}
            nodes[0].start()
            assert (online(lost, *nodes), online(found, *nodes)) == ({False}, {True})
    finally:
        nodes.mend()
        for link in links:
            link.close()
