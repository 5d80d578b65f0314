"""How many objects a node's clients take, as the collector reckons."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from iot_mqtt.app.node.collector import held
from tests.unit.broker.harness import Client, Node

#: As many of each, so that what grows by steps is even.
MANY = 400


def _clients(node: Node) -> None:
    for number in range(MANY):
        node.connect(f"clean-{number}")


def _durable(node: Node) -> None:
    for number in range(MANY):
        node.connect(f"kept-{number}", clean=False, expiry=600)


def _away(node: Node) -> None:
    for number in range(MANY):
        node.connect(f"away-{number}", clean=False, expiry=600).lose()
    node.clients.clear()


def _subscriptions(node: Node) -> None:
    client: Client = node.connect("one")
    for number in range(MANY):
        client.subscribe(f"plant/{number}/+")


def _retained(node: Node) -> None:
    client = node.connect("one")
    for number in range(MANY):
        client.publish(f"plant/{number}/state", b"on", retain=True)


@pytest.mark.parametrize("bring", [_clients, _durable, _away, _subscriptions, _retained])
def test_it_is_about_what_is_reckoned(bring: Callable[[Node], None]) -> None:
    """With the tests' own ends of connections, which are about as much again.

    Less would have a node search for garbage because clients have come; much more would hide what there is of it.
    """
    node = Node()
    gc.collect()
    blocks, reckoned = sys.getallocatedblocks(), held(node.broker)
    bring(node)
    gc.collect()
    taken, more = sys.getallocatedblocks() - blocks, held(node.broker) - reckoned
    assert 0.4 * taken < more < 4 * taken
