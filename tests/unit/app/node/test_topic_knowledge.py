"""What a node knows of a topic: who has published to it, and who of them is held off now."""

from __future__ import annotations

import pytest

from iot_mqtt.app.node import topic_knowledge
from iot_mqtt.app.node.topic_knowledge import publishers
from iot_mqtt.ports.limits import Limits
from tests.unit.broker.test_rates import node_of, packets


def test_a_publisher_is_held_off_until_what_it_has_sent_has_passed() -> None:
    """By the rate that it has used up; of others, and of itself a moment later, nothing is said."""
    node, _ = node_of(Limits(message_rate=10, message_burst=5))
    ann, other = node.connect("a", username="ann"), node.connect("b")

    def limited() -> dict[str, str | None]:
        found = publishers(node.view, node.broker.monitoring.recorder, "t")
        return {one.client_id: one.limited for one in found if one.connected}

    other.feed(packets(25))
    ann.feed(packets(25))
    assert limited() == {"a": "message_rate of 10 a second", "b": None}
    node.advance(2.05)
    assert limited() == {"a": None, "b": None}
    other.lose()
    assert limited() == {"a": None}


def test_publishers_that_are_there_are_found_behind_many_that_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of those that went the last ones."""
    monkeypatch.setattr(topic_knowledge, "_LOOKED_THROUGH", 2)
    node, _ = node_of()
    for number in range(5):
        client = node.connect(f"c{number}")
        client.publish("t", b"x")
        node.advance(1)
        if number:
            client.lose()
    found = publishers(node.view, node.broker.monitoring.recorder, "t")
    assert [(one.client_id, one.connected) for one in found] == [("c4", False), ("c3", False), ("c0", True)]
