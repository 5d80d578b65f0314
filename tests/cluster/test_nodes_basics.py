"""Three nodes are one broker: what is said at one is heard at all, and a session is where its client is."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from systemkit import wire
from systemkit.access import ANONYMOUS, attempt
from systemkit.plain import Plain
from systemkit.users import call
from systemkit.wire import Publication

from tests.cluster.nodes import BrokerNode, Nodes, eventually
from tests.otlp import Collector, attributes_of

VERSIONS = pytest.mark.parametrize("version", [4, 5], ids=["v3.1.1", "v5"])
QOS = pytest.mark.parametrize("qos", [0, 1, 2])
SESSION_TAKEN_OVER, NOT_AUTHORIZED = 0x8E, 0x87
_serial = itertools.count(1)


def unique(name: str) -> str:
    """The nodes serve all tests: topics and client ids are nobody else's."""
    return f"{name}-{next(_serial)}"


def enter(stack: ExitStack, node: BrokerNode, client_id: str = "", **options: object) -> Plain:
    """A client that is let in, and gone when the test is."""
    version = options.pop("version", 5)
    assert isinstance(version, int)
    client = stack.enter_context(Plain(node.port, version=version, timeout=20))
    client.connect(client_id or unique("guest"), **options)  # type: ignore[arg-type]
    return client


def send(client: Plain, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
    """Publish to the end of the exchange."""
    packet_id = next(_serial) % 65_000 + 1
    client.publish(topic, payload, qos=qos, packet_id=packet_id, retain=retain)
    if qos == 1:
        client.expect(wire.PUBACK)
    elif qos == 2:
        client.expect(wire.PUBREC)
        client.send(wire.ack(wire.PUBREL, packet_id))
        client.expect(wire.PUBCOMP)


def burst(client: Plain, topic: str, payloads: list[bytes], qos: int) -> None:
    """Publish them in one write, to the end of all exchanges."""
    ids = range(1, len(payloads) + 1) if qos else [0] * len(payloads)
    frames = [
        wire.publish(topic, payload, qos=qos, packet_id=packet_id, version=client.version)
        for packet_id, payload in zip(ids, payloads, strict=True)
    ]
    client.send(b"".join(frames))
    for packet_id in ids if qos else ():
        assert client.expect(wire.PUBACK if qos == 1 else wire.PUBREC).packet_id == packet_id
    if qos == 2:
        client.send(b"".join(wire.ack(wire.PUBREL, packet_id) for packet_id in ids))
        for packet_id in ids:
            assert client.expect(wire.PUBCOMP).packet_id == packet_id


def take(client: Plain) -> Publication:
    """The next message, received to the end of the exchange."""
    message = client.expect_publication()
    if message.qos == 1:
        client.send(wire.ack(wire.PUBACK, message.packet_id))
    elif message.qos == 2:
        client.send(wire.ack(wire.PUBREC, message.packet_id))
        client.expect(wire.PUBREL)
        client.send(wire.ack(wire.PUBCOMP, message.packet_id))
    return message


def retained(client: Plain, topic: str) -> Publication:
    """Subscribe, and the retained message that there must be; it may come before SUBACK [MQTT-3.8.4]."""
    client.send(wire.subscribe(1, [(topic, 0)], version=client.version))
    came = [client.receive(), client.receive()]
    kinds = {received.kind: received for received in came if received is not None}
    assert set(kinds) == {wire.SUBACK, wire.PUBLISH}, came
    return wire.publication(kinds[wire.PUBLISH], client.version)


def take_all(client: Plain, count: int) -> list[bytes]:
    """So many messages; exchanges of QoS 2 may be interleaved."""
    payloads: list[bytes] = []
    completing: set[int] = set()
    while len(payloads) < count or completing:
        received = client.receive()
        assert received is not None, "closed"
        if received.kind == wire.PUBREL:
            completing.discard(received.packet_id)
            client.send(wire.ack(wire.PUBCOMP, received.packet_id))
            continue
        assert received.kind == wire.PUBLISH, received
        message = wire.publication(received, client.version)
        payloads.append(message.payload)
        if message.qos == 1:
            client.send(wire.ack(wire.PUBACK, message.packet_id))
        elif message.qos == 2:
            completing.add(message.packet_id)
            client.send(wire.ack(wire.PUBREC, message.packet_id))
    return payloads


def drain(client: Plain) -> list[bytes]:
    """What comes until a second of silence."""
    payloads: list[bytes] = []
    while True:
        try:
            received = client.receive(1.0)
        except TimeoutError:
            return payloads
        assert received is not None, "closed"
        if received.kind == wire.PUBREL:
            client.send(wire.ack(wire.PUBCOMP, received.packet_id))
        else:
            message = wire.publication(received, client.version)
            payloads.append(message.payload)
            if message.qos:
                client.send(wire.ack(wire.PUBACK if message.qos == 1 else wire.PUBREC, message.packet_id))


@VERSIONS
@QOS
def test_a_message_reaches_subscribers_at_all_nodes(nodes: Nodes, version: int, qos: int) -> None:
    """Published at each node in turn; once per subscriber, with sessions that are kept and without."""
    topic = unique("all")
    with ExitStack() as stack:
        readers = [enter(stack, node, version=version) for node in nodes]
        readers += [enter(stack, node, unique("kept"), version=version, clean=False, expiry=60) for node in nodes]
        for reader in readers:
            reader.subscribe((f"{topic}/#", qos))
        for index, node in enumerate(nodes):
            send(enter(stack, node, version=version), f"{topic}/x", b"%d" % index, qos)
            for reader in readers:
                message = take(reader)
                assert (message.payload, message.qos) == (b"%d" % index, qos)
        for reader in readers:
            reader.ping()


@VERSIONS
def test_a_retained_message_is_the_whole_clusters(nodes: Nodes, version: int) -> None:
    """Set at the first node, seen by new subscribers at the others, cleared at the third."""
    topic = unique("retained")
    with ExitStack() as stack:
        send(enter(stack, nodes[0], version=version), topic, b"kept", 1, retain=True)
        for node in nodes:
            reader = enter(stack, node, version=version)
            assert eventually(lambda node=node: bool(node.api(f"retained?filter={topic}")["items"]))  # type: ignore[misc]
            message = retained(reader, topic)
            assert (message.payload, message.retain) == (b"kept", True)
        send(enter(stack, nodes[2], version=version), topic, b"", 1, retain=True)
        for node in nodes:
            assert eventually(lambda node=node: not node.api(f"retained?filter={topic}")["items"])  # type: ignore[misc]
            reader = enter(stack, node, version=version)
            reader.subscribe((topic, 1))
            reader.ping()


@VERSIONS
def test_a_will_is_heard_at_all_nodes(nodes: Nodes, version: int) -> None:
    """The connection of its owner is cut."""
    topic = unique("will")
    with ExitStack() as stack:
        readers = [enter(stack, node, version=version) for node in nodes]
        for reader in readers:
            reader.subscribe((topic, 2))
        enter(stack, nodes[1], version=version, will=(topic, b"gone", 2, False)).sock.close()
        for reader in readers:
            assert take(reader).payload == b"gone"


@pytest.mark.parametrize("expiry", [0, 60], ids=["not kept", "kept"])
def test_a_client_that_connects_elsewhere_is_taken_over(nodes: Nodes, expiry: int) -> None:
    """[MQTT-3.1.4-3] The older connection is told so, and only one node has the client."""
    name = unique("taken")
    with ExitStack() as stack:
        old = enter(stack, nodes[0], name, clean=False, expiry=expiry)
        new = enter(stack, nodes[1], name, clean=False, expiry=expiry)
        (last,) = old.until_closed()
        assert (last.kind, last.reason()) == (wire.DISCONNECT, SESSION_TAKEN_OVER)
        assert [node.has_client(name) for node in nodes] == [False, True, False]
        new.ping()
        third = Plain(nodes[2].port, version=5, timeout=20)
        stack.enter_context(third)
        answer = third.connect(name, clean=True)
        assert not answer.body[0] & 1, "a clean start has no session"
        (last,) = new.until_closed()
        assert last.reason() == SESSION_TAKEN_OVER


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_goes_on_at_another_node(nodes: Nodes, version: int, qos: int) -> None:
    """In flight, waiting, and published meanwhile at every node: everything comes, once at QoS 2, with its old ids."""
    topic, name = unique("moving"), unique("mover")
    with ExitStack() as stack:
        first = enter(stack, nodes[0], name, version=version, clean=False, expiry=60)
        first.subscribe((topic, qos))
        writers = [enter(stack, node, version=version) for node in nodes]
        for index, writer in enumerate(writers):
            send(writer, topic, b"in flight %d" % index, qos)
        begun = [first.expect_publication() for _ in nodes]
        # Of the first, the exchange is half done: at QoS 2 it must not come again.
        if qos == 2:
            first.send(wire.ack(wire.PUBREC, begun[0].packet_id))
            first.expect(wire.PUBREL)
        first.sock.close()
        for index, writer in enumerate(writers):
            send(writer, topic, b"waiting %d" % index, qos)

        second = stack.enter_context(Plain(nodes[1].port, version=version, timeout=20))
        answer = second.connect(name, clean=False, expiry=60)
        assert answer.body[0] & 1, "the session is there"
        again: dict[int, Publication] = {}
        # An id that is free again may be given out again.
        released: list[int] = []
        payloads: list[bytes] = []
        wanted = 6 if qos == 1 else 5
        while len(payloads) < wanted or (qos == 2 and len(released) < 6):
            received = second.receive()
            assert received is not None
            if received.kind == wire.PUBREL:
                released.append(received.packet_id)
                second.send(wire.ack(wire.PUBCOMP, received.packet_id))
                continue
            message = wire.publication(received, version)
            payloads.append(message.payload)
            if message.dup:
                again[message.packet_id] = message
            second.send(wire.ack(wire.PUBACK if qos == 1 else wire.PUBREC, message.packet_id))
        begun_again = begun if qos == 1 else begun[1:]
        assert {(one.packet_id, one.payload) for one in begun_again} == {
            (one.packet_id, one.payload) for one in again.values()
        }
        expected = [one.payload for one in begun_again] + [b"waiting %d" % index for index in range(3)]
        assert sorted(payloads) == sorted(expected)
        # It is at home there now: live, and from everywhere.
        for index, writer in enumerate(writers):
            send(writer, topic, b"live %d" % index, qos)
            assert take(second).payload == b"live %d" % index
        second.ping()
        assert [node.has_session(name) for node in nodes] == [False, True, False]


@QOS
def test_each_message_goes_to_one_member_of_a_shared_group(nodes: Nodes, qos: int) -> None:
    """Three members at three nodes; published at each node."""
    topic, count = unique("shared"), 60
    with ExitStack() as stack:
        members = [enter(stack, node) for node in nodes]
        for member in members:
            member.subscribe((f"$share/group/{topic}", qos))
        writers = [enter(stack, node) for node in nodes]
        for index in range(count):
            send(writers[index % len(writers)], topic, b"%d" % index, qos)
        got = [drain(member) for member in members]
        assert sorted(itertools.chain(*got)) == sorted(b"%d" % index for index in range(count))
        assert all(got), "a member got nothing"


@QOS
def test_messages_of_a_publisher_arrive_in_order(nodes: Nodes, qos: int) -> None:
    """Sent in bursts, read at three nodes with sessions that are kept and without."""
    topic, count = unique("order"), 300
    with ExitStack() as stack:
        readers = [enter(stack, node) for node in nodes]
        readers += [enter(stack, node, unique("kept"), clean=False, expiry=60) for node in nodes]
        for reader in readers:
            reader.subscribe((topic, qos))
        writer = enter(stack, nodes[0])
        expected = [b"%d" % index for index in range(count)]
        for start in range(0, count, 20):
            burst(writer, topic, expected[start : start + 20], qos)
        for reader in readers:
            assert take_all(reader, count) == expected


def ask(stack: ExitStack, node: BrokerNode, user: str, client_id: str, *, clean: bool = False) -> tuple[Plain, int]:
    """A client of this user that has asked for a session which is kept, and what it was told."""
    client, answer = attempt(node, user, client_id, version=5, clean=clean, expiry=60)
    stack.enter_context(client)
    return client, answer.reason()


def test_a_session_stays_its_users_at_every_node(nodes: Nodes) -> None:
    """Connected or waiting, another user and nobody are refused at other nodes; its own user finds all of it there."""
    client_id, topic = unique("mine"), unique("topic")
    with ExitStack() as stack:
        alice, reason = ask(stack, nodes[0], "alice", client_id)
        assert reason == 0
        alice.subscribe((topic, 1))
        feeder = enter(stack, nodes[1])
        for stranger, clean in (("bob", False), ("bob", True), (ANONYMOUS, False)):
            assert ask(stack, nodes[1], stranger, client_id, clean=clean)[1] == NOT_AUTHORIZED
        alice.ping()
        send(feeder, topic, b"live", 1)
        assert take(alice).payload == b"live"
        alice.sock.close()
        assert eventually(lambda: not nodes[0].has_client(client_id))
        send(feeder, topic, b"kept", 1)
        for node in nodes:
            assert ask(stack, node, "bob", client_id)[1] == NOT_AUTHORIZED
        again, reason = ask(stack, nodes[2], "alice", client_id)
        assert reason == 0
        assert take(again).payload == b"kept"
        assert nodes[2].has_session(client_id)


@pytest.mark.parametrize("far", [0, 1], ids=["at-home", "elsewhere"])
def test_a_list_of_sessions_says_how_many_messages_wait(nodes: Nodes, far: int) -> None:
    """Wherever they were published: all of them, at the home of the session."""
    reader, topic = unique("away"), unique("t")
    with ExitStack() as stack:
        enter(stack, nodes[0], reader, clean=False, expiry=3600).subscribe((topic, 1))
        stack.pop_all().close()
        writer = enter(stack, nodes[far])
        burst(writer, topic, [b"%d" % number for number in range(100)], qos=1)
        waiting: list[object] = []

        def counted() -> bool:
            items = nodes[0].api("sessions?limit=1000")["items"]
            waiting[:] = [item["backlog"] for item in items if item["client_id"] == reader]
            return waiting == [100]

        assert eventually(counted), waiting


def test_a_node_that_is_killed_is_missed_before_its_session_is_over(nodes: Nodes) -> None:
    """The registry would list it for another five seconds; its connection to the grid has ended with its process."""
    client_id = unique("orphan")
    with ExitStack() as stack:
        enter(stack, nodes[2], client_id, clean=False, expiry=60)
        nodes[2].kill()
        try:
            enter(stack, nodes[0], client_id, clean=False, expiry=60)
            said = nodes[0].log_text() + nodes[1].log_text()
        finally:
            nodes[2].start()
    assert "a node has ended without a word" in said


def test_a_start_and_an_end_say_nothing_that_somebody_would_worry_about(nodes: Nodes) -> None:
    """Whoever looks for warnings and errors in the log of a node finds what went wrong, and no more."""
    node = nodes[2]
    node.restart(kill=False)
    assert node.terminate() == 0
    said = node.log_text().splitlines()
    node.start()
    assert not [line for line in said if re.search("warning|error", line, re.IGNORECASE)]


def test_every_node_answers_for_all(nodes: Nodes) -> None:
    """Lists name the node of each item; what one node has is found, and acted on, from any other."""
    names = [node.name for node in nodes]
    with ExitStack() as stack:
        for node in nodes:
            enter(stack, node, f"everywhere-{node.name}").subscribe(("everywhere", 0))
        for asked in nodes:
            page = asked.api("clients?limit=1000")
            found = {one["client_id"]: one["node"] for one in page["items"]}
            assert {f"everywhere-{name}": name for name in names}.items() <= found.items()
            assert page["missing"] == []
            for name in names:
                assert asked.api(f"sessions/everywhere-{name}")["node"] == name
                assert asked.api(f"status?node={name}")["node_id"] == name
            assert [one["node_id"] for one in asked.api("status?node=*")["items"]] == names
        for name in names:
            assert call(nodes[0], "DELETE", f"sessions/everywhere-{name}")[0] == 204
        assert not any(nodes[2].has_client(f"everywhere-{name}") for name in names)


def test_a_trace_goes_over_the_link(nodes: Nodes, collector: Collector) -> None:
    """Both nodes tell their part of it, each below the one before; a message of another client is in none."""
    topic = unique("traced")
    with ExitStack() as stack:
        reader = enter(stack, nodes[1])
        reader.subscribe((f"{topic}/#", 1))
        send(enter(stack, nodes[0]), f"{topic}/other", b"0", 1)
        send(enter(stack, nodes[0], unique("traced-press")), f"{topic}/1", b"1", 1)
        assert sorted(take_all(reader, 2)) == [b"0", b"1"]

    def told() -> list[Span]:
        return [one for one in list(collector.spans) if topic in str(attributes_of(one))]

    assert eventually(lambda: len(told()) == 4), told()
    (deliver,) = [span for span in told() if span.name == "deliver"]
    (forward,) = [span for span in told() if span.name == "forward"]
    receives = {span.span_id: span for span in told() if span.name == "receive"}
    assert receives[deliver.parent_span_id].parent_span_id == forward.span_id
    assert not receives[forward.parent_span_id].parent_span_id
    assert len({span.trace_id for span in told()}) == 1
