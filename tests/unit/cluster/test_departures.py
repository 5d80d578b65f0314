"""Who has ended, by what gateways tell of connections."""

from __future__ import annotations

import random

import pytest

from iot_mqtt.cluster.departures import GONE, HERE, NOTICE, Departures
from iot_mqtt.cluster.roster import Life
from iot_mqtt.pipeline.clock import ManualClock
from tests.simulation.messaging import Network

OWN, PEER = 1, 2


class Watch:
    """What a node hears, and what it makes of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        messaging = Network(self.clock, random.Random(0)).join("own")
        self.heard: float | None = self.clock.monotonic()
        self.ended: list[Life] = []
        self.departures = Departures(OWN, messaging, self.clock, 1.0, lambda _: self.heard, self.ended.append)

    def tell(self, kind: int, boot: int, connection: int, number: int = PEER) -> None:
        self.departures.told(NOTICE.pack(kind, number, boot, connection))


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_node_whose_last_connection_is_gone_has_ended(watch: Watch) -> None:
    """Once, and after a moment."""
    watch.tell(HERE, 7, 1)
    watch.tell(GONE, 7, 1)
    watch.clock.advance(0.9)
    assert watch.ended == []
    watch.clock.advance(5.0)
    assert watch.ended == [Life(PEER, 7)]


def test_of_a_node_that_was_never_heard_of_too(watch: Watch) -> None:
    """Whoever starts to listen has not heard who was there before."""
    watch.heard = None
    watch.tell(GONE, 7, 3)
    watch.clock.advance(1.0)
    assert watch.ended == [Life(PEER, 7)]


@pytest.mark.parametrize(("boot", "connection"), [(7, 2), (8, 1)])
def test_who_comes_again_has_not_ended(watch: Watch, boot: int, connection: int) -> None:
    """Through another gateway, or as another life; whichever notice comes first."""
    watch.tell(GONE, 7, 1)
    watch.clock.advance(0.9)
    watch.tell(HERE, boot, connection)
    watch.clock.advance(5.0)
    watch.tell(GONE, 7, 1)
    watch.clock.advance(5.0)
    assert watch.ended == []


def test_who_is_still_heard_has_not_ended(watch: Watch) -> None:
    """The notice of its next connection may be lost. What it sent before its end may come a moment later."""
    watch.tell(GONE, 7, 1)
    watch.clock.advance(0.5)
    watch.heard = watch.clock.monotonic()
    watch.clock.advance(5.0)
    assert watch.ended == []
    watch.tell(GONE, 7, 2)
    watch.heard = watch.clock.monotonic() + 0.1
    watch.clock.advance(5.0)
    assert watch.ended == [Life(PEER, 7)]


def test_it_is_never_this_node(watch: Watch) -> None:
    """Nor anybody when the life is over, nor by what is no notice."""
    watch.heard = None
    watch.tell(GONE, 7, 1, OWN)
    watch.departures.told(b"nonsense")
    watch.tell(GONE, 7, 1)
    watch.departures.close()
    watch.clock.advance(5.0)
    assert watch.ended == []
