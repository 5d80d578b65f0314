"""Clients that hang up while it is asked who they are: nobody is asked any more."""

from __future__ import annotations

import logging

import pytest
from twisted.internet.defer import CancelledError, Deferred

from iot_mqtt.codec import Connack, Pingreq, Pingresp
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from tests.unit.broker.harness import Node


class Slow:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Principal]] = []
        self.cancelled = 0

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        self.asked.append(Deferred())
        try:
            return await self.asked[-1]
        except CancelledError:
            self.cancelled += 1
            raise


def test_whoever_is_asked_is_told_that_the_client_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """And nobody else: it is no error."""
    slow = Slow()
    node = Node(authenticator=slow)
    with caplog.at_level(logging.ERROR):
        client = node.connect()
        assert client.connack is None
        assert client.wire.channel.reading, "else its end would not be noticed"
        assert (len(slow.asked), slow.cancelled) == (1, 0)
        client.wire.peer_closes()
    assert slow.cancelled == 1
    assert not caplog.records


def test_a_client_that_is_in_has_nothing_to_be_cancelled() -> None:
    """What had to be waited for is let go of."""
    slow = Slow()
    node = Node(authenticator=slow)
    client = node.connect()
    slow.asked[0].callback(Principal("c", "ann"))
    node.turn()
    assert client.take(Connack)
    client.wire.peer_closes()
    assert slow.cancelled == 0


def test_what_a_client_sends_meanwhile_is_bounded() -> None:
    """It is read on until something has to wait."""
    slow = Slow()
    client = Node(authenticator=slow).connect()
    client.send(Pingreq())
    assert not client.wire.channel.reading
    slow.asked[0].callback(Principal("c", "ann"))
    client.node.turn()
    assert [type(packet) for packet in client.take_all()] == [Connack, Pingresp]
    assert client.wire.channel.reading
