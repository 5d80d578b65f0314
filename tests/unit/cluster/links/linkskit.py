"""What the tests of links share: runs, samples of items, and nodes on a simulated network."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from iot_mqtt.cluster.links import Heartbeat, Item, LinkEvents, Links, LinkSettings, Retained
from iot_mqtt.codec import Decoder, PublishRun, encode_publish
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.registry import Member
from iot_mqtt.values import ProtocolVersion
from tests.simulation.messaging import FINE, Network, SimulatedMessaging, Weather

T = TypeVar("T")


def run_of(wire: bytes, *, five: bool = False) -> PublishRun:
    """The run that these packets are."""
    (run,) = Decoder(version=ProtocolVersion.V5 if five else ProtocolVersion.V311).feed(wire)
    assert isinstance(run, PublishRun)
    return run


def publishes(topic: bytes, payloads: Iterable[bytes], *, five: bool = False, qos: int = 0) -> PublishRun:
    """A run with these payloads."""
    wires = [
        encode_publish(
            topic, payload, five=five, qos=qos, retain=False, dup=False, packet_id=index if qos else 0, properties=b""
        )
        for index, payload in enumerate(payloads, 1)
    ]
    return run_of(b"".join(wires), five=five)


def numbered(number: int) -> Retained:
    """A small item that can be told from others."""
    return Retained(b"t", number, None)


def member(number: int, boot: int = 1, **more: Any) -> Member:
    return Member(f"n{number}", number, boot, "0", **more)


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


class Diary:
    """An owner of links that writes down what it is told, as (what, peer, details …)."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.on_items: Callable[[int, Sequence[Item]], None] = lambda *_: None

    def started(self, peer: int) -> None:
        self.entries.append(("started", peer))

    def up(self, peer: int) -> None:
        self.entries.append(("up", peer))

    def down(self, peer: int) -> None:
        self.entries.append(("down", peer))

    def stood_still(self, peer: int) -> None:
        self.entries.append(("stood still", peer))

    def received(self, peer: int, items: Sequence[Item], end: int) -> None:
        if items:
            self.entries.append(("received", peer, tuple(items), end))
            self.on_items(peer, items)
        else:
            self.entries.append(("end", peer, end))

    def gap(self, peer: int, lost: int) -> None:
        self.entries.append(("gap", peer, lost))

    def heartbeat(self, peer: int, heartbeat: Heartbeat) -> None:
        self.entries.append(("heartbeat", peer, heartbeat))

    def relieved(self, peer: int) -> None:
        self.entries.append(("relieved", peer))

    def told(self, *what: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.entries if entry[0] in what]

    def items(self, peer: int) -> list[Item]:
        return [item for entry in self.told("received") if entry[1] == peer for item in entry[2]]


class Cluster:
    """Nodes 1 to ``count`` with fine weather between them, unless something else is said."""

    def __init__(
        self, count: int = 2, settings: LinkSettings | None = None, seed: int = 0, weather: Weather = FINE
    ) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock, random.Random(seed), weather)
        self.settings = settings or LinkSettings()
        self.boots: dict[int, int] = {}
        self.diaries: dict[int, Diary] = {}
        self.links: dict[int, Links] = {}
        self.ends: dict[int, SimulatedMessaging] = {}
        for number in range(1, count + 1):
            self.start(number)
        self.announce()

    def start(self, number: int, owner: LinkEvents | None = None) -> Links:
        """Another life of a node; nobody knows of it yet."""
        if number in self.links:
            self.network.kill(f"n{number}")
        self.boots[number] = self.boots.get(number, 0) + 1
        end = self.ends[number] = self.network.join(f"n{number}")
        diary = self.diaries[number] = Diary()
        links = Links(end, end.clock, owner or diary, number, self.boots[number], self.settings)
        self.links[number] = links
        finish(links.open())
        return links

    def announce(self, *to: int, without: Sequence[int] = ()) -> None:
        """The list of members as it is, to some nodes or to all."""
        members = [member(number, boot) for number, boot in self.boots.items() if number not in without]
        for number in to or tuple(self.links):
            self.links[number].members(members)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
