"""Topics of a running node, as its API shows them: the busiest, the tree, a search, the last value."""

from __future__ import annotations

from typing import Any

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.users import call
from systemkit.waiting import wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="it has no API")


def asked(broker: BrokerProcess, path: str) -> Any:
    """What the API answers."""
    status, answer = call(broker, "GET", path)
    assert status == 200, answer
    return answer


def test_topics_are_counted_while_somebody_asks(shared_broker: BrokerProcess) -> None:
    """What came is shown for some seconds, so it is published again until it is seen."""
    with Plain(shared_broker.ports["mqtt"], version=5) as client:
        client.connect("flow-writer")

        def seen() -> bool:
            client.publish("flow-test/hall/temp", b'{"c": 21}', qos=1, packet_id=1)
            assert client.expect(wire.PUBACK).reason() in (0, 0x10)
            found = {one["topic"]: one for one in asked(shared_broker, "topics/top?limit=1000")["items"]}
            last = asked(shared_broker, "topics/flow-test%2Fhall%2Ftemp/last")
            top = found.get("flow-test/hall/temp")
            if top is None or last["source"] is None:
                return False
            assert top["messages_per_second"] > 0
            assert top["publishers"] == ["flow-writer"]
            assert (last["source"], last["publisher"], last["payload"]) == ("watched", "flow-writer", '{"c": 21}')
            return True

        wait_until(seen, 60)
        level = asked(shared_broker, "topics?prefix=flow-test/")["items"]
        assert [(one["topic"], one["deeper"]) for one in level] == [("flow-test/hall", True)]
        words = asked(shared_broker, "topics?contains=TEMP%20flow-test")["items"]
        assert [one["topic"] for one in words] == ["flow-test/hall/temp"]
