"""Traces of a real node, at a collector that reads them as the official messages."""

from __future__ import annotations

from systemkit import wire
from systemkit.plain import Plain
from systemkit.starting import StartBroker

from tests.otlp import attributes_of, collecting


def test_a_node_that_ends_sends_what_waits(start_broker: StartBroker) -> None:
    """All of one message's way, a moment after it was published."""
    with collecting() as collector:
        broker = start_broker(
            settings={
                "telemetry.traces.enabled": "true",
                "telemetry.traces.endpoint": collector.url,
                "telemetry.traces.clients": '["press-*"]',
            }
        )
        with Plain(broker.ports["mqtt"], version=5) as client:
            client.connect("press-1")
            client.send(wire.subscribe(1, [("up/#", 0)], version=5))
            client.expect(wire.SUBACK)
            client.publish("up/1", b"secret", qos=1, packet_id=1)
            assert {client.receive().kind, client.receive().kind} == {wire.PUBLISH, wire.PUBACK}  # type: ignore[union-attr]
            assert broker.terminate() == 0
        (receive,), (deliver,) = collector.named("receive"), collector.named("deliver")
        assert (deliver.trace_id, deliver.parent_span_id) == (receive.trace_id, receive.span_id)
        assert attributes_of(receive)["messaging.client.id"] == "press-1"
        assert b"secret" not in receive.SerializeToString() + deliver.SerializeToString()
