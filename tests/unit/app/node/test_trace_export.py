"""Spans that are posted to a collector: as OTLP has it, again where nobody takes them, never more than have room."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry
from twisted.internet.defer import ensureDeferred
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from iot_mqtt import __version__
from iot_mqtt.app.config import ConfigError, read_config
from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.node.trace_export import AGAIN, AT_ONCE, AT_THE_END, GATHER, TraceExport
from iot_mqtt.auth.web import AgentWeb
from iot_mqtt.metrics.collectors import TracesCollector
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.ports.tracing import Context, Kind, Span, TracesSettings
from tests.otlp import attributes_of, request_of, spans_of
from tests.reactor import reactor, turn, until


class Receiver(Resource):
    """Takes what is posted, and answers with the statuses and bodies of a list, then 200."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.isLeaf = True
        self.got: list[ExportTraceServiceRequest] = []
        self.answers: list[tuple[int, bytes]] = []
        self.silent = False

    def render_POST(self, request: Request) -> bytes | int:
        assert request.content is not None and request.getHeader("Content-Type") == "application/json"
        self.got.append(request_of(request.content.read()))
        if self.silent:
            return NOT_DONE_YET
        status, body = self.answers.pop(0) if self.answers else (200, b"{}")
        request.setResponseCode(status)
        return body


class Rig:
    """A collector, and what is told it. The time of the export goes by hand, that of HTTP by itself."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.receiver = Receiver()
        self.port = reactor.listenTCP(0, Site(self.receiver), interface="127.0.0.1")
        self.export = self.started(self.port.getHost().port)

    def started(self, port: int) -> TraceExport:
        settings = TracesSettings(endpoint=f"http://127.0.0.1:{port}/v1/traces", max_queued_spans=AT_ONCE + 2)
        return TraceExport(settings, "n1", lambda: AgentWeb(reactor, ReactorClock(reactor)), self.clock)

    def put(self, count: int) -> None:
        for number in range(count):
            context = Context("4bf92f3577b34da6a3ce929d0e0e4736", f"{number + 1:016x}", "a=1")
            span = Span(context, "00f067aa0ba902b7", "deliver", Kind.PRODUCER, 1_700_000_000_000_000_001, {"a": "x"})
            span.attributes |= {"n": number, "yes": True}
            span.end = span.start + 5
            self.export.put(span)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.export.close()
    made.port.stopListening()
    turn()


def test_spans_are_what_otlp_says(rig: Rig) -> None:
    rig.put(2)
    rig.clock.advance(GATHER)
    until(lambda: rig.export.sent == 2)
    (request,) = rig.receiver.got
    resource = attributes_of(request.resource_spans[0].resource)
    assert resource == {"service.name": "iot-mqtt", "service.instance.id": "n1", "service.version": __version__}
    span = spans_of(request)[1]
    assert (span.trace_id.hex(), span.span_id.hex()) == ("4bf92f3577b34da6a3ce929d0e0e4736", "0000000000000002")
    assert (span.parent_span_id.hex(), span.name, span.kind) == ("00f067aa0ba902b7", "deliver", 4)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        1_700_000_000_000_000_001,
        1_700_000_000_000_000_006,
    )
    assert span.trace_state == "a=1"
    assert attributes_of(span) == {"a": "x", "n": 1, "yes": True}
    assert rig.export.waiting == 0


def test_what_a_collector_does_not_take_now_is_sent_again_and_what_has_no_room_is_counted(rig: Rig) -> None:
    rig.receiver.answers = [(503, b"")]
    rig.put(AT_ONCE + 5)
    assert (rig.export.waiting, rig.export.dropped) == (AT_ONCE + 2, {"queue_full": 3})
    rig.clock.advance(GATHER)
    until(lambda: rig.export.retries == 1)
    assert rig.export.sent == 0
    rig.clock.advance(AGAIN)
    until(lambda: rig.export.sent == AT_ONCE + 2)
    assert [len(spans_of(one)) for one in rig.receiver.got] == [AT_ONCE, AT_ONCE, 2]


def test_a_collector_that_is_not_there_is_asked_again(rig: Rig) -> None:
    """Whoever makes spans does not notice."""
    number = rig.port.getHost().port
    rig.port.stopListening()
    turn()
    rig.put(1)
    rig.clock.advance(GATHER)
    until(lambda: rig.export.retries == 1)
    rig.port = reactor.listenTCP(number, Site(rig.receiver), interface="127.0.0.1")
    rig.clock.advance(AGAIN)
    until(lambda: rig.export.sent == 1)


def test_what_a_collector_refuses_is_counted_and_not_sent_again(rig: Rig) -> None:
    some = json.dumps({"partialSuccess": {"rejectedSpans": "2"}}).encode()
    rig.receiver.answers = [(400, b"no"), (200, some)]
    rig.put(3)
    rig.clock.advance(GATHER)
    until(lambda: rig.export.dropped["refused"] == 3)
    rig.put(3)
    rig.clock.advance(GATHER)
    until(lambda: rig.export.dropped["refused"] == 5)
    assert (rig.export.sent, rig.export.retries, rig.export.waiting) == (1, 0, 0)


def test_what_waits_at_the_end_is_sent(rig: Rig) -> None:
    """At once, also a batch that waits to be sent again."""
    rig.receiver.answers = [(503, b"")]
    rig.put(AT_ONCE + 1)
    rig.clock.advance(GATHER)
    until(lambda: rig.export.retries == 1)
    done = ensureDeferred(rig.export.finish())
    until(lambda: bool(done.called))
    rig.export.close()
    assert (rig.export.sent, rig.export.waiting, rig.export.dropped.total()) == (AT_ONCE + 1, 0, 0)
    rig.clock.advance(60)
    assert [len(spans_of(one)) for one in rig.receiver.got] == [AT_ONCE, AT_ONCE, 1]


def test_what_is_left_at_the_end_is_counted_and_told(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """A collector that never answers is not waited for longer than a second; one that wants it later, not at all."""
    rig.receiver.answers = [(503, b"")] * 2
    rig.put(2)
    done = ensureDeferred(rig.export.finish())
    until(lambda: bool(done.called))
    assert rig.export.waiting == 2
    rig.receiver.silent = True
    done = ensureDeferred(rig.export.finish())
    until(lambda: len(rig.receiver.got) == 2)
    assert not done.called
    rig.clock.advance(AT_THE_END)
    assert done.called
    rig.export.close()
    assert (rig.export.dropped, rig.export.waiting) == ({"stopped": 2}, 0)
    assert "2 spans that nobody took are lost" in caplog.text
    rig.put(1)
    assert (rig.export.dropped, rig.export.waiting) == ({"stopped": 3}, 0)


def test_metrics_say_what_became_of_spans(rig: Rig) -> None:
    registry = CollectorRegistry()
    registry.register(TracesCollector(lambda: rig.export))
    rig.put(AT_ONCE + 5)
    assert registry.get_sample_value("iot_mqtt_trace_waiting_spans") == AT_ONCE + 2
    assert registry.get_sample_value("iot_mqtt_trace_dropped_spans_total", {"reason": "queue_full"}) == 3


@pytest.mark.parametrize(
    ("endpoint", "served"),
    [
        ("https://otel.plant.example/v1/traces", True),
        ("http://localhost:4318/v1/traces", True),
        ("http://otel.plant.example:4318/v1/traces", False),
        ("http://localhost@evil.example/", False),
        ("https://user:word@otel.example/", False),
    ],
)
def test_names_of_clients_leave_this_machine_encrypted_alone(endpoint: str, served: bool) -> None:
    told = ["telemetry.traces.enabled=true", f"telemetry.traces.endpoint={endpoint}"]
    if served:
        assert serving_problems(read_config(None, told, {})) == []
    else:
        with pytest.raises(ConfigError, match=r"telemetry\.traces\.endpoint"):
            read_config(None, told, {})
