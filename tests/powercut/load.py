"""A load on a real broker below the recorder, and when its clients learned that something is safe."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from systemkit import wire
from systemkit.durable import DurableClient, OnDelivery
from systemkit.process import BrokerProcess, Options
from systemkit.waiting import all_connected, run_all, stop_all
from systemkit.wire import Received

#: Publishers by name: QoS, protocol version, topic. Those below ``cut/up`` go to the uplink, too.
PUBLISHERS: Final = {
    "one-4": (1, 4, "cut/one-4"),
    "one-5": (1, 5, "cut/up/one-5"),
    "two-4": (2, 4, "cut/up/two-4"),
    "two-5": (2, 5, "cut/two-5"),
}
RETAINING: Final = "state-5"
RETAINED_TOPIC: Final = "state/of-the-plant"
#: Reads as it comes; and has subscribed and gone away.
HERE, AWAY = "here", "away"
FILTER: Final = "cut/#"
SETTINGS: Final = {"uplink.rules": "[{filter: 'cut/up/#', to: iot.readings}]", "uplink.file.rotate_seconds": 0.5}
#: Seconds between PUBREC and PUBREL, in which the broker has to know the packet id.
HELD: Final = 0.03
TOKEN: Final = re.compile(rb"<([a-z]+-\d):(\d{7})>")
SMALL: Final = Path(__file__).with_name("small.py")


@dataclass
class Books:
    """Nanoseconds of the monotonic clock, as the recorder's."""

    #: By publisher and number: when PUBACK or PUBREC came.
    acked: dict[tuple[str, int], int] = field(default_factory=dict)
    #: Client, packet id, from PUBREC to PUBREL.
    held: list[tuple[str, int, int, int]] = field(default_factory=list)
    #: When a reader was subscribed, by name.
    subscribed: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def acknowledge(self, payload: bytes) -> None:
        """PUBACK or PUBREC has come."""
        if (found := TOKEN.search(payload)) is not None:
            self.acked[found[1].decode(), int(found[2])] = time.monotonic_ns()


class Publisher(DurableClient):
    """Lets some time pass between PUBREC and PUBREL, and can retain."""

    def __init__(self, name: str, port: int, version: int, books: Books) -> None:
        super().__init__(name, port, version=version, on_acked=books.acknowledge)
        self._books = books
        self._holding: dict[int, int] = {}
        self._number = 0

    def send(self, topic: str, count: int, qos: int, dice: Random, *, retain: bool = False) -> None:
        """The next messages, of mixed sizes: texts of JSON, which go to the uplink as they are."""
        payloads = []
        for _ in range(min(count, self.room)):
            self._number += 1
            noise = dice.randbytes(dice.randrange(150)).hex()
            payloads.append(b'"<%s:%07d>%s"' % (self.client_id.encode(), self._number, noise.encode()))
        if payloads and not retain:
            self.publish(topic, payloads, qos)
        for payload in payloads if retain else ():
            assert self._transport is not None
            packet_id = self._next_id()
            frame = wire.publish(topic, payload, qos=qos, packet_id=packet_id, version=self.version, retain=True)
            self._unacked[packet_id] = frame, payload
            self._transport.write(frame)

    def _on_acked_publish(self, received: Received, replies: list[bytes]) -> None:
        before = len(replies)
        super()._on_acked_publish(received, replies)
        for release in replies[before:]:
            self._holding[received.packet_id] = time.monotonic_ns()
            asyncio.get_running_loop().call_later(HELD, self._release, received.packet_id, release)
        del replies[before:]

    def _release(self, packet_id: int, frame: bytes) -> None:
        if packet_id in self._holding:
            self._over(packet_id)
            if self._transport is not None:
                self._transport.write(frame)

    def _over(self, packet_id: int) -> None:
        self._books.held.append((self.client_id, packet_id, self._holding.pop(packet_id), time.monotonic_ns()))

    def _resend(self) -> None:
        for packet_id in list(self._holding):
            self._over(packet_id)
        super()._resend()


class Reader(DurableClient):
    """Subscribes to everything at QoS 2; ``known``: it has done so before."""

    def __init__(self, name: str, port: int, on_delivery: OnDelivery | None = None, *, known: bool = False) -> None:
        super().__init__(name, port, version=5, filters=((FILTER, 2),), on_delivery=on_delivery)
        self._has_session = known


class RecordedBroker(BrokerProcess):
    """Everything that it does in its folder is in the journals."""

    def __init__(
        self, folder: Path, recorder: Path, journals: Path, *, small: bool = False, coarse: bool = False
    ) -> None:
        super().__init__(folder, Options(settings=SETTINGS))
        folder.mkdir(parents=True)
        self._small = small
        self._environment: Mapping[str, object] = {
            "LD_PRELOAD": recorder,
            "POWERCUT_ROOT": folder,
            "POWERCUT_JOURNALS": journals,
            "POWERCUT_SYNC_MICROSECONDS": 3000,
        } | ({"POWERCUT_COARSE": 1} if coarse else {})

    def command(self) -> list[str]:
        return ["env", *(f"{key}={value}" for key, value in self._environment.items()), *self._plain()]

    def _plain(self) -> list[str]:
        words = super().command()
        return [sys.executable, str(SMALL), *words[words.index("serve") :]] if self._small else words


def run_load(broker: RecordedBroker, lives: Sequence[float], dice: Random) -> Books:
    """So many seconds of load for each life of the broker; killed and stopped in turns between them."""
    broker.start()
    try:
        books = asyncio.run(_lives(broker, lives, dice))
        broker.kill()
    except BaseException:
        broker.reap()
        raise
    broker.assert_no_traceback()
    return books


async def _lives(broker: RecordedBroker, lives: Sequence[float], dice: Random) -> Books:
    books, port = Books(), broker.ports["mqtt"]
    away, here = Reader(AWAY, port), Reader(HERE, port)
    tasks = run_all([away])
    await _subscribed(away, books)
    await stop_all(tasks)
    tasks = run_all([here])
    await _subscribed(here, books)
    publishers = {name: Publisher(name, port, version, books) for name, (_, version, _) in PUBLISHERS.items()}
    publishers[RETAINING] = Publisher(RETAINING, port, 5, books)
    tasks += run_all(publishers.values())
    try:
        for number, seconds in enumerate(lives):
            if number:
                await asyncio.to_thread(broker.restart, kill=number % 2 == 1)
            await all_connected([here, *publishers.values()])
            await _publish(publishers, seconds, dice)
    finally:
        await stop_all(tasks)
    books.faults += [fault for client in (away, here, *publishers.values()) for fault in client.faults]
    return books


async def _subscribed(reader: Reader, books: Books) -> None:
    await all_connected([reader])
    books.subscribed[reader.client_id] = time.monotonic_ns()


async def _publish(publishers: Mapping[str, Publisher], seconds: float, dice: Random) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, (qos, _, topic) in PUBLISHERS.items():
            publishers[name].send(topic, dice.randrange(12), qos, dice)
        publishers[RETAINING].send(RETAINED_TOPIC, dice.randrange(2), 1, dice, retain=True)
        await asyncio.sleep(dice.uniform(0.002, 0.03))
