"""Traced messages that go up to Kafka: their records have the context, and a span is over when they are safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iot_mqtt.ports.tracing import TracesSettings
from iot_mqtt.ports.uplink import Record
from tests.unit.broker.test_traces import PARENT, Taken
from tests.unit.uplink.sinkkit import UplinkedNode


class Traced(UplinkedNode):
    """A node that traces, with a sink that is Kafka's as far as traces know."""

    def __init__(self, *rules: dict[str, object], kind: str = "kafka", **settings: Any) -> None:
        self._kind = kind
        self._settings = TracesSettings(enabled=True, **settings)
        super().__init__(*rules)

    def begin(self, *, feed: bool = True) -> None:
        self.taken = Taken()
        self.sink.kind = self._kind
        self.node.broker.trace(self._settings, self.taken)
        super().begin(feed=feed)


def context_of(record: Record) -> str:
    return dict(record.headers).get("traceparent", b"").decode()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_traced_record_has_the_context_of_its_span(qos: int) -> None:
    """Which is below that of its arrival and over when the record is safe; all else is as ever."""
    it = Traced(clients=("press",))
    it.sink.at_once = False
    it.publish(b"0", qos=qos)
    it.node.connect("press").publish("up/1", b"1", b"2", qos=qos)
    it.publish(b"3", qos=qos)
    it.node.turn()
    assert "send" not in it.taken.take()
    it.sink.settle()
    sent = it.taken.take()["send"]
    assert [context_of(record) for record in it.sink.kept] == ["", *(one.context.traceparent for one in sent), ""]
    assert len(sent) == 2 and len({one.context.trace_id for one in sent}) == 2
    assert sent[0].kind == 4 and sent[0].attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": it.sink.kept[0].topic,
    }


def test_it_goes_on_with_the_trace_of_a_trusted_publisher() -> None:
    it = Traced(trusted_users=("*",), names=False)
    it.node.connect("c").publish("up/1", b"x", qos=1, user_properties=(("traceparent", PARENT), ("tracestate", "a=1")))
    assert dict(it.sink.kept[0].headers)["tracestate"] == b"a=1"
    spans = it.taken.take()
    (receive,), (send,) = spans["receive"], spans["send"]
    assert send.parent == receive.context.span_id and send.context.trace_id == PARENT[3:35]
    assert "messaging.destination.name" not in send.attributes


def test_what_subscribers_do_not_get_is_traced_as_well() -> None:
    it = Traced({"filter": "up/#", "mode": "only"}, clients=("press",))
    it.node.connect("press").publish("up/1", b"x", qos=1)
    (send,) = it.taken.take()["send"]
    assert context_of(it.sink.kept[0]) == send.context.traceparent


def test_a_record_that_is_sent_again_has_the_same_context() -> None:
    it = Traced(clients=("press",))
    it.sink.at_once = False
    it.node.connect("press").publish("up/1", b"x", qos=1)
    ((first, *_), _) = it.sink.sent[0]
    it.sink.break_it()
    assert "send" not in it.taken.take()
    it.sink.trouble, it.sink.at_once = None, True
    it.node.advance(1)
    assert it.sink.kept == [first] and context_of(first) == it.taken.take()["send"][0].context.traceparent


def restarted(it: Traced) -> None:
    it.restart()


def too_many(it: Traced) -> None:
    """No room for another context; the records of before are still away."""


@pytest.mark.parametrize(("lose", "contexts"), [(restarted, 0), (too_many, 2)])
def test_a_context_may_be_lost_and_a_message_is_not(lose: Callable[[Traced], None], contexts: int) -> None:
    it = Traced(clients=("press",), max_queued_spans=2)
    it.sink.break_it()
    it.node.connect("press").publish("up/1", b"0", b"1", b"2", qos=1)
    lose(it)
    it.sink.trouble = None
    it.node.advance(1)
    assert it.sink.payloads == [b"0", b"1", b"2"]
    assert [bool(context_of(record)) for record in it.sink.kept].count(True) == contexts


def test_a_message_that_no_rule_takes_after_all_is_forgotten() -> None:
    it = Traced({"filter": "up/#", "when": "payload > 1"}, clients=("press",), max_queued_spans=2)
    press = it.node.connect("press")
    for number in (0, 1, 2, 0, 1, 2):
        press.publish("up/1", b"%d" % number, qos=1)
    assert it.sink.payloads == [b"2", b"2"]
    assert len(it.taken.take()["send"]) == 2


@pytest.mark.parametrize("kind", ["kafka", "file"])
def test_records_of_others_are_what_they_are_without_traces(kind: str) -> None:
    it, other = Traced(kind=kind, clients=("press",)), UplinkedNode()
    for node in (it, other):
        node.node.connect("press" if kind == "file" else "c").publish("up/1", b"1", b"2", qos=1)
    assert it.sink.payloads == other.sink.payloads == [b"1", b"2"]
    assert not any(context_of(record) for record in it.sink.kept)
    assert "send" not in it.taken.take()
