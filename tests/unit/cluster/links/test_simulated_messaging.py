"""The simulated network does what its weather says, and the same again with the same seed."""

from __future__ import annotations

import random

from iot_mqtt.pipeline.clock import ManualClock
from tests.simulation.messaging import FINE, Network, SimulatedMessaging, Weather
from tests.unit.cluster.links.linkskit import finish


class Pair:
    """Node one sends numbers to node two."""

    def __init__(self, weather: Weather = FINE, seed: int = 1) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock, random.Random(seed), weather)
        self.one, self.two = self.network.join("one"), self.network.join("two")
        self.heard: list[int] = []
        self.listen(self.two)

    def listen(self, node: SimulatedMessaging) -> None:
        finish(node.listen("two", lambda payload: self.heard.append(payload[0])))

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.one.send("two", bytes((number,)))

    def wait(self, seconds: float = 1.0) -> list[int]:
        self.clock.advance(seconds)
        heard = list(self.heard)
        self.heard.clear()
        return heard


def test_in_fine_weather_messages_come_in_order_after_the_delay() -> None:
    pair = Pair(Weather(delay=(0.1, 0.5)))
    pair.send(*range(100))
    assert pair.wait(0.09) == []
    assert pair.wait() == list(range(100))


def test_bad_weather_loses_repeats_and_disorders() -> None:
    lossy = Pair(Weather(loss=0.5))
    lossy.send(*range(100))
    heard = lossy.wait()
    assert 20 < len(heard) < 80 and heard == sorted(heard)
    assert lossy.network.lost == 100 - len(heard)
    doubling = Pair(Weather(duplicate=0.5))
    doubling.send(*range(100))
    assert 120 < len(doubling.wait()) < 180
    disorderly = Pair(Weather(disorder=0.5))
    disorderly.send(*range(100))
    heard = disorderly.wait()
    assert heard != sorted(heard) and sorted(heard) == list(range(100))


def test_a_run_is_the_same_with_the_same_seed() -> None:
    def heard(seed: int) -> list[int]:
        pair = Pair(Weather((0.0, 0.1), loss=0.3, duplicate=0.3, disorder=0.3), seed)
        pair.send(*range(50))
        return pair.wait()

    assert heard(1) == heard(1) != heard(2)


def test_a_cut_is_one_way_and_takes_what_is_under_way() -> None:
    pair = Pair()
    back: list[bytes] = []
    finish(pair.one.listen("one", back.append))
    pair.send(1)
    pair.network.cut("one", "two")
    pair.send(2)
    pair.two.send("one", b"b")
    assert pair.wait() == [] and back == [b"b"]
    pair.network.part("one", "two")
    pair.two.send("one", b"c")
    assert pair.wait() == [] and back == [b"b"]
    pair.network.heal()
    pair.send(3)
    assert pair.wait() == [3]


def test_weather_may_differ_by_pair() -> None:
    pair = Pair()
    pair.network.weather["one", "two"] = Weather(loss=1.0)
    pair.send(1)
    assert pair.wait() == []


def test_a_paused_node_finds_its_timers_and_then_its_messages_when_it_goes_on() -> None:
    pair = Pair()
    pair.two.clock.call_later(0.5, lambda: pair.heard.append(0))
    pair.two.clock.call_later(0.6, lambda: pair.heard.append(99)).cancel()
    pair.network.pause("two")
    pair.send(1, 2)
    assert pair.wait() == []
    pair.network.resume("two")
    assert pair.wait(0.0) == [0, 1, 2]


def test_a_killed_node_is_silent_and_another_life_hears_what_is_sent_from_then_on() -> None:
    pair = Pair()
    pair.two.clock.call_later(0.5, lambda: pair.heard.append(0))
    pair.send(1)
    pair.network.kill("two")
    two = pair.network.join("two")
    assert pair.wait() == []
    pair.send(2)
    assert pair.wait() == []
    pair.listen(two)
    pair.send(3)
    assert pair.wait() == [3]


def test_a_broken_connection_says_so_and_loses_what_is_under_way() -> None:
    pair = Pair()
    flows: list[bool] = []
    pair.one.on_flow = flows.append
    pair.send(1)
    pair.one.break_flow()
    assert not pair.one.send("two", b"\x02") and not pair.one.flowing
    pair.one.restore_flow()
    pair.send(3)
    assert pair.wait() == [3] and flows == [False, True]


def test_a_stalled_connection_holds_everything_back() -> None:
    pair = Pair()
    pair.one.stall()
    pair.send(1, 2)
    assert pair.wait() == [] and pair.one.waiting == 2
    pair.one.release()
    assert pair.wait() == [1, 2] and pair.one.waiting == 0
