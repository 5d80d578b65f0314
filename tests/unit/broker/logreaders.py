"""What the tests of readers of the log share: durable clients, numbered messages, a disk that can't be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import Client, Node

#: Nothing stays decoded, so that every read goes to the grid.
NO_PAGES = LogSettings(page_cache_bytes=0)
#: A generation for every ten seconds, kept for twenty.
SHORT = LogSettings(generation_seconds=10.0, retention_seconds=20.0, page_cache_bytes=0)


def durable(node: Node, name: str = "reader", window: int | None = None, **properties: Any) -> Client:
    """A client whose session is durable, new or again."""
    return node.connect(name, clean=False, expiry=600, receive_maximum=window, **properties)


def numbers(start: int, stop: int) -> list[bytes]:
    """Payloads in a row."""
    return [b"%d" % number for number in range(start, stop)]


def publish(node: Node, start: int, stop: int, topic: str = "t", qos: int = 1, *, together: bool = True) -> None:
    """Numbered messages, as a run or one by one."""
    writer = node.connect("writer")
    for run in [numbers(start, stop)] if together else [[one] for one in numbers(start, stop)]:
        assert len(writer.publish(topic, *run, qos=qos)) == (len(run) if qos else 0)
        if qos == 2:
            writer.drain()


def once_recorded(node: Node, topic: str) -> None:
    """The log has a message of this topic, and nobody wants any more."""
    keeper = durable(node, "once")
    keeper.subscribe(topic, qos=1)
    publish(node, 0, 1, topic)
    keeper.drain()
    keeper.unsubscribe(topic)


def check(node: Node) -> None:
    """The drop identity, from figures that anybody can scrape."""
    counters = node.counters
    out = counters.messages_delivered + sum(counters.dropped.values()) + node.view.info().waiting
    assert counters.messages_matched + counters.messages_restored == out, node.dropped()


def forget_old(node: Node) -> None:
    """Time passes until the retention has removed all there is in the log."""
    node.advance(10.5)
    # What is appended now is of another generation.
    publish(node, 0, 1, "somewhere/else")
    node.broker.log.due(node.clock.wall())
    node.broker.turn.plan()
    node.advance(25)
    node.broker.readers.upkeep.begin()
    node.turn()


@contextmanager
def unreadable(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The grid has no pages to give; the list grows by one with every attempt."""
    attempts: list[int] = []

    async def refuse(cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        attempts.append(len(keys))
        raise Unavailable("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(node.grid, "get_many", refuse)
        yield attempts


def lost(node: Node) -> int:
    """Messages that retention took from somebody."""
    return node.counters.dropped[Drop.RETENTION]
