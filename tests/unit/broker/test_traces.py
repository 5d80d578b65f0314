"""Messages of watched clients are traced, those of all others are as they were."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from iot_mqtt.broker.cluster.arrivals import Arrivals
from iot_mqtt.broker.traces.tracer import PATIENCE, Tracer
from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.links.values import Data, Head
from iot_mqtt.codec import Ack
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.cluster import Interest
from iot_mqtt.ports.limits import Limits
from iot_mqtt.ports.tracing import Span, TracesSettings, context_of
from tests.unit.broker.harness import V311, Client, Node
from tests.unit.broker.test_peers import wanted_by

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Taken:
    """Takes spans."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.all: list[Span] = []

    def put(self, span: Span) -> None:
        self.all.append(span)

    def take(self) -> dict[str, list[Span]]:
        """By name, in the order in which they were over."""
        found: dict[str, list[Span]] = {}
        for span in self.all:
            found.setdefault(span.name, []).append(span)
        self.all = []
        return found


def traced(**settings: Any) -> tuple[Node, Taken, Tracer]:
    node, taken = Node(), Taken()
    tracer = node.broker.trace(TracesSettings(enabled=True, **settings), taken)
    return node, taken, tracer


def test_a_message_of_a_watched_client_has_a_span_and_one_for_each_delivery() -> None:
    """With who and how large, and without the payload."""
    node, taken, _ = traced(clients=("press-*",))
    one, two = node.connect("one"), node.connect("two", V311)
    one.subscribe("up/+")
    two.subscribe("up/#", qos=1)
    node.connect("press-1").publish("up/1", b"secret", qos=1)
    assert one.payloads() == two.payloads() == [b"secret"]
    spans = taken.take()
    (receive,) = spans["receive"]
    assert receive.parent == "" and receive.end >= receive.start
    assert receive.attributes == {
        "messaging.system": "mqtt",
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "messaging.destination.name": "up/1",
        "messaging.client.id": "press-1",
        "messaging.message.body.size": 6,
        "messaging.message.envelope.size": 17,
        "mqtt.qos": 1,
        "mqtt.retain": False,
    }
    delivered = {span.attributes["messaging.client.id"]: span for span in spans["deliver"]}
    assert sorted(delivered) == ["one", "two"]
    for span in delivered.values():
        assert span.context.trace_id == receive.context.trace_id and span.parent == receive.context.span_id
        assert span.attributes["iot_mqtt.delivery"] == "sent"


def test_messages_of_others_are_not_traced_and_stay_in_batches() -> None:
    """Nobody but the watched client is served by anything else than before."""
    node, taken, _ = traced(clients=("press-1",))
    node.connect("reader").subscribe("#")
    other, watched = node.connect("press-2"), node.connect("press-1")
    other.publish("up/1", b"x")
    assert not taken.all
    served = {one.session.client_id: one.serving.inbound for one in node.broker.clients.connections if one.session}
    assert served["press-2"] is served["reader"] is node.broker.serving().inbound
    assert served["press-1"] is not served["press-2"]
    watched.publish("up/1", b"1", b"2", b"3")
    assert len(taken.take()["receive"]) == 3


def test_what_is_stored_ends_with_its_commit() -> None:
    """Both the span of the message and that of a session that keeps it, which is sent to behind the commit."""
    node, taken, _ = traced(clients=("press",))
    keeper = node.connect("keeper", clean=False, expiry=600)
    keeper.subscribe("up/#", qos=1)
    press = node.connect("press")
    node.hold()
    assert press.publish("up/1", b"x", qos=1) == []
    assert not taken.all
    node.release()
    assert keeper.payloads() == [b"x"]
    spans = taken.take()
    (receive,), (commit,), (deliver,) = spans["receive"], spans["commit"], spans["deliver"]
    assert commit.parent == deliver.parent == receive.context.span_id
    assert deliver.attributes["iot_mqtt.delivery"] == "sent"


def test_what_waits_for_a_client_that_is_away_is_queued() -> None:
    """A delivery that cannot leave is given up waiting for."""
    node, taken, tracer = traced(clients=("press",))
    keeper = node.connect("keeper", clean=False, expiry=600)
    keeper.subscribe("up/#", qos=1)
    keeper.lose()
    node.connect("press").publish("up/1", b"x", qos=1)
    node.advance(PATIENCE + 0.1)
    tracer.sweep()
    (deliver,) = taken.take()["deliver"]
    assert deliver.attributes["iot_mqtt.delivery"] == "queued"


def test_qos_0_for_nobody_who_is_there_is_dropped() -> None:
    node, taken, _ = traced(clients=("press",))
    keeper = node.connect("keeper", clean=False, expiry=600)
    keeper.subscribe("up/#")
    keeper.lose()
    node.connect("press").publish("up/1", b"x")
    assert taken.take()["deliver"][0].attributes["iot_mqtt.delivery"] == "dropped"


def test_a_context_of_somebody_who_is_not_trusted_means_nothing() -> None:
    """It traces nothing, is not taken for a parent, and is passed on as any user property."""
    node, taken, _ = traced(clients=("press",), trusted_users=("gateway",), user_property=True)
    reader = node.connect("reader")
    reader.subscribe("#")
    said = (("traceparent", PARENT),)
    node.connect("liar").publish("up/1", b"x", user_properties=said)
    assert not taken.all
    assert [message.properties.user_properties for message in reader.messages()] == [said]
    node.connect("press").publish("up/1", b"x", user_properties=said)
    (receive,) = taken.take()["receive"]
    assert receive.parent == "" and receive.context.trace_id not in PARENT


@pytest.mark.parametrize("value", [PARENT[:-1] + "0", PARENT.upper(), "00-0-0-01", PARENT + "-x", "ff" + PARENT[2:]])
def test_a_context_that_is_none_or_not_sampled_traces_nothing(value: str) -> None:
    assert context_of(value) is None
    node, taken, _ = traced(trusted_users=("*",))
    node.connect("c").publish("up/1", b"x", user_properties=(("traceparent", value),))
    assert not taken.all


def test_a_trusted_user_says_which_messages_are_traced() -> None:
    """They go on with the trace that they came with, and have it for their receivers as it came [MQTT-3.3.2-17]."""
    node, taken, _ = traced(trusted_users=("*",), user_property=True)
    reader = node.connect("reader")
    reader.subscribe("#", qos=1)
    client, said = node.connect("c"), (("a", "1"), ("traceparent", PARENT), ("b", "2"))
    client.publish("up/1", b"1", b"2", qos=1)
    assert not taken.all and reader.drain() == [b"1", b"2"]
    client.publish("up/1", b"x", qos=1, user_properties=said)
    (receive,) = taken.take()["receive"]
    assert (receive.context.trace_id, receive.parent) == (PARENT[3:35], PARENT[36:52])
    assert [message.properties.user_properties for message in reader.messages()] == [said]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_subscribers_of_version_5_get_the_context_where_that_is_on(qos: int) -> None:
    """Each that of its own delivery, behind what the publisher said; not those whose largest packet is bounded."""
    node, taken, _ = traced(clients=("press",), user_property=True)
    five, three, small = (
        node.connect("five"),
        node.connect("three", V311),
        node.connect("small", maximum_packet_size=99),
    )
    for one in (five, three, small):
        one.subscribe("#", qos=qos)
    node.connect("press").publish("up/1", b"x", qos=qos, user_properties=(("a", "1"),))
    deliver = {span.attributes["messaging.client.id"]: span for span in taken.take()["deliver"]}
    (message,) = five.messages()
    assert message.properties.user_properties == (("a", "1"), ("traceparent", deliver["five"].context.traceparent))
    assert three.payloads() == [b"x"]
    assert [one.properties.user_properties for one in small.messages()] == [(("a", "1"),)]


def test_more_spans_than_the_limit_are_counted_and_messages_arrive_all_the_same() -> None:
    node, taken, _ = traced(clients=("press",), max_spans_per_second=3)
    readers = [node.connect(f"r{number}") for number in range(4)]
    for reader in readers:
        reader.subscribe("#")
    press = node.connect("press")
    press.publish("up/1", b"1", b"2")
    assert [reader.payloads() for reader in readers] == [[b"1", b"2"]] * 4
    assert len(taken.all) == 3 and taken.dropped == {"rate": 3}
    node.advance(1.0)
    press.publish("up/1", b"3")
    assert len(taken.all) == 6


def test_names_stay_out_of_spans_where_that_is_wanted() -> None:
    node, taken, _ = traced(clients=("press",), names=False)
    node.connect("reader").subscribe("#")
    node.connect("press").publish("hall/1", b"x")
    told = str([(span.name, span.attributes) for span in taken.all])
    assert len(taken.all) == 2
    assert not any(name in told for name in ("hall", "press", "reader"))


def test_a_message_that_may_not_be_published_says_so() -> None:
    node, taken, _ = traced(clients=("press",))
    (ack,) = node.connect("press").publish("$SYS/x", b"x", qos=1)
    assert isinstance(ack, Ack) and ack.reason is ReasonCode.NOT_AUTHORIZED
    assert taken.take()["receive"][0].attributes["iot_mqtt.outcome"] == "not_handed_on"


def test_a_watched_client_keeps_to_its_rate() -> None:
    """It is led before its client is known, and what is held is traced once, when it goes on."""
    node, taken = Node(limits=lambda who: Limits(message_rate=1.0, message_burst=2.0) if _is(who) else None), Taken()
    node.broker.trace(TracesSettings(enabled=True, clients=("press",)), taken)
    reader = node.connect("reader")
    reader.subscribe("#")
    node.connect("press").publish("up/1", b"1", b"2", b"3")
    assert reader.payloads() == [b"1", b"2"]
    assert len(taken.take()["receive"]) == 2
    node.advance(1.5)
    assert reader.payloads() == [b"3"]
    assert len(taken.take()["receive"]) == 1


def test_a_bracket_in_a_pattern_is_a_bracket() -> None:
    """As in all patterns of names; * and ? are the only signs."""
    _, _, tracer = traced(clients=("press[1]*",), trusted_users=("hall[ab]",))
    assert tracer.samples("press[1]-west") and not tracer.samples("press1-west")
    assert tracer.trusts("hall[ab]") and not tracer.trusts("halla")


class Link:
    """Of one node to another: what is forwarded goes as bytes, and is handed to ``Arrivals``."""

    def __init__(self, source: Node, target: Node) -> None:
        self.routes = wanted_by(source, 2)
        self.lines: Any = self.routes._peers
        broker = target.broker
        logs = links = cast(Any, self)
        self.arrivals = Arrivals(
            broker.publishing.path,
            broker.sessions,
            broker.readers.groups,
            logs,
            links,
            broker.publishing.retention.news,
            broker.turn,
            broker.clock,
        )

    def bring(self, committed: int) -> None:
        """The turn of the source is over, and this commit."""
        peer = self.routes.peer(2)
        peer.end_turn(committed)
        peer.committed(committed)
        items, self.lines.items = tuple(self.lines.items), []
        _, data = proto_v1.read(proto_v1.write(Head(1, 1, 2, 2), Data(1, 0, items)))
        assert isinstance(data, Data)
        self.arrivals.received(1, cast(Any, data.items), 0)

    def announce(self, peer: int, end: int) -> None: ...

    def grew(self, peer: int) -> None: ...


def test_a_state_goes_with_its_context_to_all_spans_here_and_there() -> None:
    """Of who is trusted, in as many pieces as it came in; one that is malformed is dropped, and its context is not."""
    (a, here, _), (b, there, _) = traced(trusted_users=("*",)), traced()
    link, reader = Link(a, b), b.connect("reader")
    reader.subscribe("up/#")
    link.routes.wants(2, [Interest("up/#", live=True)])
    for states, carried in ((("a=1", "b@c=2 2"), "a=1,b@c=2 2"), (("A=1",), ""), (("a=1", "a=2"), ""), ((), "")):
        said = (("traceparent", PARENT), *(("tracestate", one) for one in states))
        a.connect("press").publish("up/1", b"x", user_properties=said)
        link.bring(a.store.committed)
        b.turn()
        assert [one.properties.user_properties for one in reader.messages()] == [said]
        spans = [*here.all, *there.all]
        assert sorted(span.name for span in spans) == ["deliver", "forward", "receive", "receive"]
        assert {(span.context.trace_id, span.context.state) for span in spans} == {(PARENT[3:35], carried)}
        here.all, there.all = [], []


@pytest.mark.parametrize("qos", [0, 1])
def test_a_trace_goes_on_at_another_node(qos: int) -> None:
    """One trace: receive and forward here, receive and deliver there."""
    (a, here, _), (b, there, _) = traced(clients=("press",)), traced()
    link, reader = Link(a, b), b.connect("reader")
    reader.subscribe("up/#", qos=qos)
    link.routes.wants(2, [Interest("up/#", live=True)])
    a.connect("press").publish("up/1", b"x", qos=qos)
    a.connect("other").publish("up/1", b"y", qos=qos)
    link.bring(a.store.committed)
    b.turn()
    assert reader.payloads() == [b"x", b"y"]
    first, second = here.take(), there.take()
    (receive,), (forward,) = first["receive"], first["forward"]
    (arrived,), (deliver,) = second["receive"], second["deliver"]
    assert forward.parent == receive.context.span_id
    assert arrived.parent == forward.context.span_id
    assert deliver.parent == arrived.context.span_id
    assert len({one.context.trace_id for one in (receive, forward, arrived, deliver)}) == 1
    assert arrived.attributes["messaging.client.id"] == "press"


def test_a_node_that_traces_nothing_delivers_what_is_traced() -> None:
    (a, here, _), b = traced(clients=("press",)), Node()
    link, reader = Link(a, b), b.connect("reader")
    reader.subscribe("up/#")
    link.routes.wants(2, [Interest("up/#", live=True)])
    a.connect("press").publish("up/1", b"x")
    link.bring(a.store.committed)
    b.turn()
    assert reader.payloads() == [b"x"] and len(here.take()["forward"]) == 1


def _is(who: Principal) -> bool:
    return who.client_id == "press"


def test_a_share_of_clients_is_the_same_ones_everywhere() -> None:
    node, other = traced(share=0.25)[2], traced(share=0.25)[2]
    ids = [f"device-{number}" for number in range(2000)]
    sampled = [id for id in ids if node.samples(id)]
    assert 400 < len(sampled) < 600
    assert sampled == [id for id in ids if other.samples(id)]
    assert not any(traced()[2].samples(id) for id in ids)


def play(node: Node) -> list[object]:
    """What all see of a story with every QoS, retained messages, a group and a session that stays."""
    readers: list[Client] = [node.connect("a"), node.connect("b", V311), node.connect("k", clean=False, expiry=99)]
    for reader in readers:
        reader.subscribe("up/#", qos=2)
    readers.append(node.connect("member"))
    readers[-1].subscribe("$share/g/up/#", qos=1)
    press = node.connect("press")
    seen: list[object] = []
    for qos in (0, 1, 2):
        seen.append(press.publish("up/1", b"1", b"2", qos=qos, retain=qos == 1, content_type="t"))
        press.take_all()
        seen += [reader.take_all() for reader in readers]
    late = node.connect("late")
    late.subscribe("#")
    seen += [late.take_all(), node.dropped(), node.counters.messages_matched, node.counters.messages_received]
    return seen


def test_traced_or_not_everybody_gets_the_same() -> None:
    node, taken, _ = traced(clients=("press",))
    assert play(node) == play(Node())
    assert len(taken.take()["receive"]) == 6
