"""The load: clients of one process, on one selector.

Each message says who sent it, as the how manieth, and when it was due. So a broker that makes its publishers wait does
not look fast: what leaves late counts from when it should have left.

::

    payload    | run, 8 bytes | publisher, 4 | number, 4 | nanoseconds, 8 | filler
"""

from __future__ import annotations

import math
import random
import selectors
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from iot_mqtt.app.client.client import Client
from iot_mqtt.codec import Properties, Publish, Request

_HEAD: Final = struct.Struct(">8sIIq")
#: The smallest payload.
LEAST: Final = _HEAD.size
#: Messages between two looks at what has come, at most; and bytes that may wait for one connection.
_BURST, _HIGH = 64, 65_536


_STEP: Final = math.log(1.02)
#: Seconds; what is less is this.
_FLOOR: Final = 1e-6


class Histogram:
    """How many seconds things took, in steps of two percent: of any number of them in the same few kilobytes."""

    def __init__(self) -> None:
        self.count = 0
        self.most = 0.0
        self._steps: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        self.count += 1
        self.most = max(self.most, seconds)
        step = int(math.log(max(seconds, _FLOOR) / _FLOOR) / _STEP)
        self._steps[step] = self._steps.get(step, 0) + 1

    def at(self, share: float) -> float | None:
        """What this share of them did not take longer than; None if there are none."""
        if not self.count:
            return None
        left = math.ceil(share * self.count)
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return min(self.most, _FLOOR * math.exp((step + 1) * _STEP))
        return self.most

    def milliseconds(self, shares: Iterable[float] = (0.5, 0.9, 0.99, 0.999)) -> dict[str, float | None]:
        """``p50`` and so on, and ``max``."""
        found = {f"p{share * 100:g}": self.at(share) for share in shares} | {"max": self.most if self.count else None}
        return {name: None if value is None else round(value * 1000, 3) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    prefix: str
    topics: int
    smallest: int
    largest: int
    qos: int
    #: Messages a second, of all publishers; None: as fast as they are acknowledged.
    rate: float | None
    seconds: float
    #: Every subscriber gets everything; else each its share.
    fanout: bool
    run: bytes
    patience: float


@dataclass(slots=True)
class Found:
    """What became of it."""

    sent: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0
    acknowledged: int = 0
    refused: int = 0
    expected: int = 0
    received: int = 0
    #: Numbers that came again, or before a smaller one.
    repeated: int = 0
    latency: Histogram = field(default_factory=Histogram)
    acks: Histogram = field(default_factory=Histogram)
    cpu: float = 0.0

    @property
    def lost(self) -> int:
        return max(0, self.expected - self.received)


@dataclass(slots=True)
class _Publisher:
    client: Client
    number: int
    sent: int = 0
    #: Packet id → when it left.
    open: dict[int, float] = field(default_factory=dict)


class Load:
    """``subscribe``, then ``run``. Raises what clients raise."""

    def __init__(
        self,
        plan: Plan,
        publishers: list[Client],
        subscribers: list[Client],
        idle: list[Client],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._publishers = [_Publisher(client, number) for number, client in enumerate(publishers)]
        self._subscribers = subscribers
        self._clients = [*publishers, *subscribers, *idle]
        self._now = now
        self._began = 0.0
        self._due = 0
        self._found = Found()
        #: Subscriber, publisher, topic → the last number.
        self._last: dict[tuple[int, int, bytes], int] = {}
        self._random = random.Random(plan.run)
        shares = max(1, len(subscribers))
        self._topics = [f"{plan.prefix}/{number % shares}/{number}".encode() for number in range(plan.topics)]
        self._filler = bytes(self._random.randrange(32, 127) for _ in range(plan.largest))

    def subscribe(self) -> None:
        for number, client in enumerate(self._subscribers):
            filter = f"{self._plan.prefix}/#" if self._plan.fanout else f"{self._plan.prefix}/{number}/#"
            client.subscribe((Request(filter, self._plan.qos),), Properties(), self._plan.patience)

    def run(self) -> Found:
        """The load, and then as long as something comes that is still expected."""
        found, plan = self._found, self._plan
        with selectors.DefaultSelector() as selector:
            for client in self._clients:
                selector.register(client, selectors.EVENT_READ)
            cpu = time.process_time()
            self._began = self._now()
            end = self._began + plan.seconds
            while self._now() < end:
                self._send(end)
                self._turn(selector, self._wait(end))
            found.seconds = self._now() - self._began
            found.cpu = (time.process_time() - cpu) / found.seconds
            self._settle(selector)
        return found

    def _settle(self, selector: selectors.BaseSelector) -> None:
        until = self._now() + self._plan.patience
        while self._unfinished() and self._now() < until:
            before = self._found.received + self._found.acknowledged
            self._turn(selector, 0.1)
            if self._found.received + self._found.acknowledged > before:
                until = self._now() + self._plan.patience

    def _unfinished(self) -> bool:
        return self._found.received < self._found.expected or any(one.open for one in self._publishers)

    def _wait(self, end: float) -> float:
        """Seconds until the next message is due."""
        rate, now = self._plan.rate, self._now()
        if rate is None:
            return 0.0 if self._plan.qos == 0 else 0.01
        return max(0.0, min(end, self._began + self._due / rate) - now)

    def _send(self, end: float) -> None:
        rate, now = self._plan.rate, self._now()
        for _ in range(_BURST):
            due = now if rate is None else self._began + self._due / rate
            if due > now or due >= end:
                return
            publisher = self._publishers[self._due % len(self._publishers)]
            if not self._has_room(publisher.client):
                if rate is not None or all(not self._has_room(one.client) for one in self._publishers):
                    return
                self._due += 1
                continue
            self._publish(publisher, due, now)
            self._due += 1

    def _has_room(self, client: Client) -> bool:
        return len(client.protocol.out) < _HIGH and (self._plan.qos == 0 or client.protocol.room > 0)

    def _publish(self, publisher: _Publisher, due: float, now: float) -> None:
        plan, found = self._plan, self._found
        size = self._random.randint(plan.smallest, plan.largest) - LEAST
        head = _HEAD.pack(plan.run, publisher.number, publisher.sent, int(due * 1e9))
        topic = self._topics[found.sent % len(self._topics)]
        number = publisher.client.publish(Publish(topic, head + self._filler[:size], plan.qos))
        if number:
            publisher.open[number] = now
        publisher.sent += 1
        found.sent += 1
        found.sent_bytes += size + LEAST
        found.expected += len(self._subscribers) if plan.fanout else bool(self._subscribers)

    def _turn(self, selector: selectors.BaseSelector, seconds: float) -> None:
        for publisher in self._publishers:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if publisher.client.writing else 0)
            if selector.get_key(publisher.client).events != wanted:
                selector.modify(publisher.client, wanted)
        for key, _ in selector.select(seconds):
            client = key.fileobj
            assert isinstance(client, Client)
            client.pump()
        now = self._now()
        for publisher in self._publishers:
            self._acknowledged(publisher, now)
        for number, client in enumerate(self._subscribers):
            self._arrived(number, client, now)

    def _acknowledged(self, publisher: _Publisher, now: float) -> None:
        settled = publisher.client.settled
        while settled:
            one = settled.popleft()
            self._found.acks.add(now - publisher.open.pop(one.packet_id, now))
            if one.reason < 0x80:
                self._found.acknowledged += 1
            else:
                self._found.refused += 1
                self._found.expected -= len(self._subscribers) if self._plan.fanout else bool(self._subscribers)

    def _arrived(self, number: int, client: Client, now: float) -> None:
        found, arrived = self._found, client.arrived
        while arrived:
            message = arrived.popleft()
            client.protocol.accept(message)
            if len(message.payload) < LEAST or not message.payload.startswith(self._plan.run):
                continue
            _, publisher, count, due = _HEAD.unpack_from(message.payload)
            place = (number, publisher, message.topic)
            if count <= self._last.get(place, -1):
                found.repeated += 1
                continue
            self._last[place] = count
            found.received += 1
            found.latency.add(now - due / 1e9)
