"""What links cost: ``python benchmarks/micro/bench_links.py [--seconds 0.5]``.

Datagrams of 100 publications, MQTT 5 at QoS 1, 64-byte payloads, in runs of 1, 10 and 50 messages on 1,000 topics.
First the protocol alone, then all of it between two nodes in one process: gathered, sent, numbered, kept for repair,
received and told.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt.cluster.links import Heartbeat, Item, Links, items_v1, proto_v1
from iot_mqtt.cluster.links.values import Head
from iot_mqtt.codec import Decoder, PublishRun, encode_publish
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.messaging import Receive
from iot_mqtt.ports.registry import Member
from iot_mqtt.values import ProtocolVersion

ITEMS = 100
PAYLOAD = b"x" * 64
HEAD = Head(1, 1, 2, 1)


def run_of(topic: bytes, count: int) -> PublishRun:
    wire = b"".join(
        encode_publish(topic, PAYLOAD, five=True, qos=1, retain=False, dup=False, packet_id=number + 1, properties=b"")
        for number in range(count)
    )
    (run,) = Decoder(version=ProtocolVersion.V5).feed(wire)
    assert isinstance(run, PublishRun)
    return run


def publications(count: int) -> list[Forwarded]:
    """One datagram's worth."""
    found = []
    for index in range(ITEMS):
        topic = b"site/line/plc/%04d" % (index * 10)
        reference = Reference(1, index, index << 24, count)
        found.append(Forwarded(run_of(topic, count), topic, f"gateway-{index:04}", 1_700_000_000.0, reference))
    return found


def write(items: Sequence[Item]) -> bytes:
    return proto_v1.write_data(HEAD, 1, 1, [items_v1.write_item(item) for item in items])


class Direct:
    """Messaging without a network."""

    def __init__(self, listeners: dict[str, Receive]) -> None:
        self.on_flow: Callable[[bool], None] = lambda _: None
        self.flowing = True
        self.waiting = 0
        self._listeners = listeners

    async def listen(self, topic: str, receive: Receive) -> None:
        self._listeners[topic] = receive

    def send(self, topic: str, payload: bytes) -> bool:
        self._listeners[topic](payload)
        return True


class Counting:
    """An owner that counts."""

    def __init__(self) -> None:
        self.items = 0

    def received(self, peer: int, items: Sequence[Item], end: int) -> None:
        self.items += len(items)

    def started(self, peer: int) -> None: ...
    def up(self, peer: int) -> None: ...
    def down(self, peer: int) -> None: ...
    def stood_still(self, peer: int) -> None: ...
    def gap(self, peer: int, lost: int) -> None: ...
    def heartbeat(self, peer: int, heartbeat: Heartbeat) -> None: ...
    def relieved(self, peer: int) -> None: ...


def rate(work: Callable[[], object], seconds: float) -> float:
    """Calls per second; the best of three."""
    best = 0.0
    for _ in range(3):
        calls = 0
        start = now = time.perf_counter()
        while now - start < seconds / 3:
            work()
            calls += 1
            now = time.perf_counter()
        best = max(best, calls / (now - start))
    return best


def through_links(items: Sequence[Item], seconds: float) -> float:
    """Datagrams per second from ``send`` to ``received``."""
    listeners: dict[str, Receive] = {}
    clock, owner = ManualClock(), Counting()
    nodes = [Links(Direct(listeners), clock, owner, number, 1) for number in (1, 2)]
    for links in nodes:
        with suppress(StopIteration):
            links.open().send(None)
    for links in nodes:
        links.members(Member(f"n{number}", number, 1, "0") for number in (1, 2))
    first = nodes[0]

    def turn() -> None:
        for item in items:
            first.send(2, item)
        first.flush(1)
        clock.advance(0.002)

    found = rate(turn, seconds)
    link = first.links[2]
    if owner.items != link.figures.items_sent or link.figures.unsent:
        raise AssertionError("not everything came")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each figure")
    seconds = parser.parse_args().seconds
    print(f"{'thousand per second':32}{'items':>10}{'messages':>10}{'MB/s':>8}")
    for count in (1, 10, 50):
        items = publications(count)
        payload = write(items)
        rates = {
            "write": rate(partial(write, items), seconds),
            "read": rate(partial(proto_v1.read, payload), seconds),
            "from node to node": through_links(items, seconds),
        }
        for name, found in rates.items():
            each = found * ITEMS / 1000
            label = f"{name}, runs of {count}"
            print(f"{label:32}{each:10.0f}{each * count:10.0f}{found * len(payload) / 1e6:8.0f}")


if __name__ == "__main__":
    main()
