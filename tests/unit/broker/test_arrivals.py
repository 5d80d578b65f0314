"""What comes over a link from another node, and has been on its way for a while."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.ports.cluster import Interest
from tests.unit.broker.harness import Node
from tests.unit.broker.test_traces import Link


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("limits", [{}, {"topic_alias_maximum": 3}, {"maximum_packet_size": 5000}], ids=str)
@pytest.mark.parametrize(("waited", "left"), [(0, 60), (10.4, 49), (59.75, 1), (-5, 60)])
def test_the_time_on_the_way_counts(waited: float, left: int, limits: dict[str, Any], qos: int) -> None:
    """[MQTT-3.3.2-6] In whatever form a message leaves; a clock that is wrong adds nothing to it."""
    there, node = Node(), Node()
    if waited < 0:
        there.clock._wall -= waited
    link, reader = Link(there, node), node.connect("reader", **limits)
    reader.subscribe("t", qos=qos)
    link.routes.wants(2, [Interest("t", live=True)])
    there.connect("writer").publish("t", b"x", qos=qos, message_expiry_interval=60)
    node.advance(max(waited, 0))
    link.bring(there.store.committed)
    node.turn()
    (message,) = reader.messages()
    assert message.properties.message_expiry_interval == left
