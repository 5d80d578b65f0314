"""Batches of mixed topics: whatever is published, everybody gets what he would get topic by topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from iot_mqtt.auth.acl import parse_brought, parse_rules
from iot_mqtt.auth.rights import RuleAuthorizer
from iot_mqtt.auth.sections import Book
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publishing.accompanying import SPECIAL
from iot_mqtt.broker.publishing.steps import Step
from iot_mqtt.broker.settings import BudgetSettings, LogUse, MqttSettings
from iot_mqtt.codec import (
    NO_PROPERTIES,
    Ack,
    Decoder,
    Packet,
    PacketType,
    Properties,
    Publish,
    PublishBatch,
    Request,
    Suback,
)
from iot_mqtt.ports.access import Action
from iot_mqtt.values import ProtocolVersion
from tests.doubles.rights import AnyForm
from tests.seeds import seeds_of
from tests.unit.broker.harness import V5, V31, V311, Client, Node, subscribe

TOPICS = [f"{kind}/{number}" for kind in ("a", "b", "$c") for number in range(4)] + ["down/x", "r/kept"]
FILTERS = ["a/+", "a/1", "b/#", "#", "+/2", "a/#", "$c/+", "$share/g/a/+", "$share/g/b/1"]


def packets(client: Client, rng: Random, count: int, *, topics: Sequence[str] = TOPICS) -> list[Packet]:
    """A read of mixed traffic, some of it out of the ordinary."""
    found: list[Packet] = []
    while len(found) < count:
        qos = rng.choice((0, 0, 0, 1, 1, 2))
        same = rng.choice((1, 1, 2, 5))
        retain = rng.random() < 0.15
        for _ in range(same):
            packet_id = client.next_id() if qos else 0
            payload, carried = b"%d" % rng.randrange(10**9), properties(rng) if client.version is V5 else NO_PROPERTIES
            found.append(Publish(rng.choice(topics).encode(), payload, qos, retain, False, packet_id, carried))
    return found


def properties(rng: Random) -> Properties:
    """What a message of version 5 may carry."""
    return rng.choice(
        (
            NO_PROPERTIES,
            NO_PROPERTIES,
            Properties(content_type="text/plain"),
            Properties(correlation_data=rng.randbytes(4), response_topic="answers"),
            Properties(user_properties=(("unit", "°C"), ("unit", "K"))),
            Properties(message_expiry_interval=rng.choice((1, 50)), payload_format_indicator=1),
            Properties(topic_alias=rng.randrange(1, 4)),
        )
    )


def story(seed: int, *, batches: bool, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What everybody got, in order, and what was counted."""
    rng = Random(seed)
    with monkeypatch.context() as patch:
        if not batches:
            patch.setattr(Decoder, "routes", property(lambda _: None, lambda _, _routes: None))
        node = Node(
            MqttSettings(max_inflight=rng.choice((3, 20, 1000)), max_queued_messages=rng.choice((2, 1000))),
            log_use=LogUse(record=("a/3",) if rng.random() < 0.5 else ()),
        )
        clients: list[Client] = []
        for number in range(5):
            version = rng.choice((V5, V5, V311, V31))
            options: dict[str, Any] = {}
            if version is V5:
                options["receive_maximum"] = rng.choice((2, 50, 65_535))
                options["maximum_packet_size"] = rng.choice((None, None, 30, 1000))
                options["topic_alias_maximum"] = rng.choice((None, None, 5))
                options["expiry"] = rng.choice((None, None, 1000))
            client = node.connect(f"c{number}", version, clean=rng.random() < 0.6, **options)
            clients.append(client)
            for _ in range(rng.randrange(3)):
                join(client, rng)
        seen: list[Any] = []
        aliases: dict[Client, dict[int, bytes]] = defaultdict(dict)
        for _ in range(12):
            client = rng.choice(clients)
            if rng.random() < 0.2:
                join(client, rng)
            elif rng.random() < 0.1:
                node.hold()
            elif rng.random() < 0.2:
                node.release()
            elif rng.random() < 0.1:
                node.clock.advance(10)
            else:
                sent = packets(client, rng, rng.randrange(1, 12))
                if rng.random() < 0.2:
                    sent.insert(rng.randrange(len(sent)), subscribe(client.next_id(), rng.choice(FILTERS[:6]), qos=1))
                client.send(*sent)
            present = [one for one in clients if not one.wire.closed]
            seen.append([take(one, aliases[one], answering=rng.random() < 0.7) for one in present])
            clients = [one for one in clients if not one.closed]
            if not clients:
                break
        node.release()
        seen.append([take(one, aliases[one], answering=True) for one in clients])
        counters = node.counters
        seen.append((counters.messages_received, counters.messages_matched, counters.messages_delivered))
        seen.append((counters.messages_unmatched, counters.messages_restored, node.dropped(), node.log.end))
        return seen


def join(client: Client, rng: Random) -> None:
    """Another subscription."""
    filter = rng.choice(FILTERS)
    options = {"no_local": True} if client.version is V5 and rng.random() < 0.2 and filter[0] != "$" else {}
    identifier = rng.choice((None, 7)) if client.version is V5 else None
    client.send(subscribe(client.next_id(), Request(filter, rng.randrange(3), **options), identifier=identifier))


def take(client: Client, aliases: dict[int, bytes], *, answering: bool) -> list[Packet]:
    """All that came, under the names that are meant; confirmed, perhaps."""
    # What comes between what belongs together is nobody's business.
    came = [named(packet, aliases) for packet in sorted(client.take_all(), key=lambda packet: packet.type)]
    answers = []
    for packet in came:
        if isinstance(packet, Publish) and packet.qos:
            answers.append(Ack(PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.type is PacketType.PUBREC and not packet.reason:
            answers.append(Ack(PacketType.PUBREL, packet.packet_id))
        elif isinstance(packet, Ack) and packet.type is PacketType.PUBREL:
            answers.append(Ack(PacketType.PUBCOMP, packet.packet_id))
    if answering and answers and not client.wire.closed:
        client.send(*answers)
    return came


def named(packet: Packet, aliases: dict[int, bytes]) -> Packet:
    """A message without its alias: only what comes by itself has one."""
    if not isinstance(packet, Publish) or packet.properties.topic_alias is None:
        return packet
    topic = aliases[packet.properties.topic_alias] = packet.topic or aliases[packet.properties.topic_alias]
    return replace(packet, topic=topic, properties=replace(packet.properties, topic_alias=None))


@pytest.mark.parametrize("seed", seeds_of("batches", 60))
def test_a_batch_is_what_its_messages_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same packets to everybody, in the same order, and the same figures, whether or not there are batches."""
    assert story(seed, batches=True, monkeypatch=monkeypatch) == story(seed, batches=False, monkeypatch=monkeypatch)


def served(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches that are served from now on."""
    sizes: list[int] = []
    serve = node.broker.inbound.handlers[PublishBatch]

    def note(connection: Connection, batch: PublishBatch) -> None:
        sizes.append(batch.count)
        serve(connection, batch)

    monkeypatch.setitem(node.broker.inbound.handlers, PublishBatch, note)
    return sizes


@pytest.mark.parametrize("version", [V31, V311, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topics_that_go_the_same_way_are_one_batch(
    version: ProtocolVersion, qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first packet on, however many topics there are."""
    node = Node()
    sizes = served(node, monkeypatch)
    reader = node.connect("reader", version)
    reader.subscribe("a/#", qos=2)
    writer = node.connect("writer", version)
    sent = [Publish(b"a/%d" % n, b"%d" % n, qos, False, False, n + 1 if qos else 0) for n in range(100)]
    writer.send(*sent)
    assert sizes == [100]
    assert [(one.topic, one.payload, one.qos) for one in reader.messages()] == [
        (one.topic, one.payload, qos) for one in sent
    ]
    answers = [packet.packet_id for packet in writer.take(Ack)]
    assert answers == (list(range(1, 101)) if qos else [])


def test_a_subscription_of_the_same_read_counts() -> None:
    """What the decoder knew is old by then."""
    node = Node()
    client = node.connect()
    client.publish("a/1", b"0")
    client.send(Publish(b"a/1", b"1"), subscribe(client.next_id(), "a/+"), Publish(b"a/1", b"2"), Publish(b"a/2", b"3"))
    assert client.payloads() == [b"2", b"3"]
    client.take(Suback)


class Some(AnyForm):
    """May publish to what begins with ``a``, while that is so."""

    all = True

    def allows(self, action: Action, asked: str) -> bool:
        return action is not Action.PUBLISH or (self.all and asked.startswith("a"))


def test_only_what_is_allowed_is_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic is asked for once; rights that are taken back are asked for again."""
    access = Some()
    node = Node(authorizer=access)
    sizes = served(node, monkeypatch)
    reader, writer = node.connect("reader"), node.connect("writer")
    reader.subscribe("#")
    mixed = [Publish(topic, topic) for topic in (b"a/1", b"a/2", b"b/1", b"a/1")]
    writer.send(*mixed)
    writer.send(*mixed)
    assert reader.payloads() == [b"a/1", b"a/2", b"a/1"] * 2
    assert sizes[-2:] == [2, 1]
    access.all = False
    access.version += 1
    writer.send(*mixed)
    assert not reader.payloads()
    assert node.counters.denied["publish"] == 6


def test_topics_that_rules_do_not_tell_apart_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the rules are others, and not where one of them is named, at another QoS, or a level deeper."""
    book = ["deny publish b/2\nallow publish a/+\nallow publish qos<=0 noretain c/+\nallow publish b/#\nallow read #"]
    access = RuleAuthorizer(lambda: Book([parse_rules(f"[all]\n{book[0]}", "acl")], parse_brought))
    node = Node(authorizer=access)
    sizes = served(node, monkeypatch)
    reader, writer = node.connect("reader"), node.connect("writer")
    reader.subscribe("#", qos=1)

    def sent(first: str, names: str) -> list[bytes]:
        writer.send(*(Publish(f"{first}/{name}".encode(), name.encode()) for name in names.split()))
        return reader.payloads()

    assert sent("a", "0") == [b"0"]
    asked = node.counters.denied["publish"]
    for _ in range(2):
        assert sent("a", "1 2 3") == [b"1", b"2", b"3"]
        assert sent("a", "1 x/y 3") == [b"1", b"3"]
        assert sent("b", "1 2 3") == [b"1", b"3"]
        assert sent("c", "1 2") == [b"1", b"2"]
        writer.send(*(Publish(b"c/%d" % number, b"no", 1, False, False, writer.next_id()) for number in range(3)))
        assert not reader.payloads()
    assert node.counters.denied["publish"] - asked == 2 * (1 + 1 + 3)
    assert 3 in sizes
    sent("a", "4")
    book[0] = "deny publish a/5\nallow publish b/#\nallow read #"
    access.renew()
    assert sent("a", "4 5 6") == [] and sent("b", "1 2") == [b"1", b"2"]


class Looking(Step):
    """What commands are to the publish path."""

    alone = True

    def concerns(self, topic: bytes) -> bool:
        return topic.startswith(SPECIAL)


@pytest.mark.parametrize("topic", [b"$SYS/x", b"status/x", b"down/x", b"shadow/x/delta"])
def test_no_batch_has_what_must_be_looked_at(topic: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics of the broker's, those of a step, and what they stand between."""
    node = Node()
    node.broker.routing.steps.add(Looking())
    sizes = served(node, monkeypatch)
    reader, writer = node.connect("reader"), node.connect("writer")
    reader.subscribe("#", "$SYS/#")
    for _ in range(2):
        writer.send(Publish(b"a", b"1"), Publish(topic, b"2"), Publish(b"b", b"3"))
    assert sizes == [1, 1, 1, 1]
    assert [one for one in reader.payloads() if one != b"2"] == [b"1", b"3"] * 2


def test_a_batch_is_held_like_any_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """While too much waits for a commit nothing more is read; then all of it comes, in order."""
    node = Node(budget=BudgetSettings(uncommitted_bytes=1000))
    keeper = node.connect("keeper", expiry=1000)
    keeper.subscribe("a/#", qos=1)
    writer = node.connect("writer")
    node.hold()
    names = [b"%d" % number for number in range(200)]
    for start in range(0, 200, 20):
        writer.send(
            *(Publish(b"a/" + name, name, 1, False, False, writer.next_id()) for name in names[start : start + 20])
        )
    assert not keeper.payloads()
    node.release()
    got = keeper.drain()
    for _ in range(50):
        node.release()
        got += keeper.drain()
    assert got == names
    assert len(writer.acks(PacketType.PUBACK)) == 200


def test_what_an_uplink_records_is_in_no_batch_as_soon_as_there_is_one() -> None:
    """Topics that were found before are looked at again."""
    node = Node()
    node.connect("writer").publish("up/x", b"1")
    assert node.broker.routing.routes.classes[b"up/x"] is not None
    node.broker.routing.steps.changed()
    assert not node.broker.routing.routes.classes


@pytest.mark.parametrize("qos", [0, 1])
def test_aliases_are_for_what_comes_by_itself(qos: int) -> None:
    """What comes in bulk goes in bulk, by its name."""
    node = Node()
    reader, writer = node.connect("reader", topic_alias_maximum=5), node.connect("writer")
    reader.subscribe("#", qos=1)
    for topics in ("a", "ab", "a", "aaa", "b"):
        writer.send(*(Publish(name.encode(), b"", qos, packet_id=writer.next_id() if qos else 0) for name in topics))
    got = [(one.topic, one.properties.topic_alias) for one in reader.messages()]
    assert got == [(b"a", 1), (b"a", None), (b"b", None), (b"", 1), *[(b"a", None)] * 3, (b"b", 2)]
