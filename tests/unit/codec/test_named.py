"""Runs with an alias for their topic, as nodes of earlier releases forward them."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Decoder, Properties, Publish, PublishRun, encode, named
from iot_mqtt.values import ProtocolVersion


def run_of(topic: bytes, qos: int, **properties: object) -> PublishRun:
    packets = [
        Publish(topic, b"%d" % n, qos, False, False, n if qos else 0, Properties(**properties))  # type: ignore[arg-type]
        for n in (1, 2)
    ]
    wire = b"".join(encode(packet, ProtocolVersion.V5) for packet in packets)
    (run,) = Decoder(version=ProtocolVersion.V5).feed(wire)
    assert isinstance(run, PublishRun)
    return run


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("topic", [b"", b"a/b"])
def test_the_topic_stands_for_the_alias(topic: bytes, qos: int) -> None:
    """All else stays: ids, payloads, what is passed on, the expiry."""
    run = named(run_of(topic, qos, topic_alias=3, message_expiry_interval=60, content_type="x"), b"a/b")
    assert run == run_of(b"a/b", qos, message_expiry_interval=60, content_type="x")
    assert (run.topic, run.ids, run.payloads()) == (b"a/b", [1, 2] if qos else [], [b"1", b"2"])
    assert run.properties.topic_alias is None


def test_a_run_without_one_is_what_it_was() -> None:
    run = run_of(b"a/b", 0, content_type="x")
    assert named(run, b"a/b") is run
