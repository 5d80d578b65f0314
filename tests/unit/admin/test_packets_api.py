"""``/api/v1/clients/{client_id}/packets``: the flight recorder, for operators."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.packet_resources import PacketResources
from iot_mqtt.codec.describing import PacketInfo
from tests.unit.admin.adminkit import FakeView, make_browser

PING = PacketInfo(1.5, "in", "PINGREQ", "PINGREQ", 1, 2)


class Kept:
    """Of one client."""

    async def of(self, client_id: str) -> Sequence[PacketInfo]:
        return [PING] if client_id == "a/b" else []


def test_the_packets_of_a_client_with_the_node_that_has_them() -> None:
    browser = make_browser(FakeView(), further=(PacketResources(Kept()),))
    found = browser.get("/api/v1/clients/a%2Fb/packets").json
    assert found["items"] == [
        {"at": 1.5, "direction": "in", "packet": "PINGREQ", "text": "PINGREQ", "packets": 1, "bytes": 2, "node": "n1"}
    ]
    assert browser.get("/api/v1/clients/nobody/packets").json["items"] == []


def test_topics_are_in_it_so_it_takes_an_operator() -> None:
    (route,) = PacketResources(Kept()).routes
    assert route.role is Role.OPERATOR
