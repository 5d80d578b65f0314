"""The disk runs full, and has space again: publishers wait or are told, nothing acknowledged is lost, all goes on."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, Options
from systemkit.smalldisk import MIB, SmallDiskBroker
from systemkit.why import named

PAYLOAD = 16 * 1024
#: Messages sent before their answers are read.
WINDOW = 8
QUOTA_EXCEEDED = 0x97
#: Without an answer for so long, a publisher is held off.
PATIENCE = 3.0
#: From the space to the first acknowledgement.
RESUME_SECONDS = 20.0

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto writes its file at its end")


@pytest.fixture
def start_small(tmp_path: Path) -> Iterator[Callable[[int], SmallDiskBroker]]:
    """Start a broker on a small disk, so many bytes of which it leaves alone."""
    brokers: list[SmallDiskBroker] = []

    def start(reserve: int) -> SmallDiskBroker:
        settings = {"log.disk_reserve": reserve, "mqtt.sys_interval": 0}
        brokers.append(SmallDiskBroker(tmp_path / "broker", Options(settings=settings)))
        brokers[0].start()
        return brokers[0]

    try:
        yield start
    except BaseException:
        brokers[0].reap()
        raise
    brokers[0].close()


class Publisher:
    """Publishes numbers to one topic, and knows what became of each."""

    def __init__(self, broker: SmallDiskBroker, version: int) -> None:
        self.name = f"publisher-{version}"
        self.acked: list[int] = []
        self.refused: list[int] = []
        self.outstanding: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._client = Plain(broker.ports["mqtt"], version=version)
        self._client.connect(self.name)

    def send(self, count: int = WINDOW) -> None:
        for _ in range(count):
            number = next(self._numbers)
            packet_id = number % 60_000 + 1
            self.outstanding[packet_id] = number
            payload = f"{self.name} {number} ".encode() + random.randbytes(PAYLOAD)  # cannot be compressed
            self._client.publish(f"full/{self.name}", payload, qos=1, packet_id=packet_id)

    def answered(self, seconds: float) -> bool:
        """Read answers until nothing is outstanding; False: for so long there was none."""
        while self.outstanding:
            try:
                answer = self._client.receive(seconds)
            except TimeoutError:
                return False
            assert answer is not None and answer.kind == wire.PUBACK, answer
            number = self.outstanding.pop(answer.packet_id)
            reason = answer.reason()
            assert reason in (0, QUOTA_EXCEEDED), f"{reason:#x}"
            (self.refused if reason else self.acked).append(number)
        return True

    def close(self) -> None:
        self._client.sock.close()


def _fill(broker: SmallDiskBroker, five: Publisher, four: Publisher, pace: float) -> None:
    """Publish until one is refused or waits, and the other waits too: tidying up may give back some room at first."""
    for _ in range(4 * broker.size // (WINDOW * PAYLOAD)):
        five.send()
        if five.answered(PATIENCE) and not five.refused:
            time.sleep(pace)
            continue
        if not four.outstanding:
            four.send(1)
        if not four.answered(PATIENCE):
            return
    pytest.fail(f"{len(five.acked)} messages were taken; {broker.free():,} bytes are free")


def _numbers(reader: Plain, publishers: list[Publisher], count: int) -> dict[str, list[int]]:
    """What the reader gets, by publisher."""
    found: dict[str, list[int]] = {publisher.name: [] for publisher in publishers}
    for _ in range(count):
        message = reader.expect_publication()
        reader.send(wire.ack(wire.PUBACK, message.packet_id))
        name, number, _ = message.payload.split(b" ", 2)
        found[name.decode()].append(int(number))
    return found


def _enter(broker: SmallDiskBroker) -> Plain:
    reader = Plain(broker.ports["mqtt"], version=5)
    reader.connect("reader", clean=False, expiry=3600, receive_maximum=100)
    return reader


@pytest.mark.parametrize(
    ("reserve", "pace"), [pytest.param(16 * MIB, 0.01, id="reserve"), pytest.param(0, 0.0, id="to-the-last-byte")]
)
def test_a_full_disk_holds_publishers_off_and_nothing_more(
    start_small: Callable[[int], SmallDiskBroker], reserve: int, pace: float
) -> None:
    """v5 is told 0x97 while there is a reserve, and waits as 3.1.1 does when there is nothing left; with space again,
    all goes on by itself and everything is there.
    """
    broker = start_small(reserve)
    reader = _enter(broker)
    reader.subscribe(("full/#", 1))
    reader.disconnect()
    five, four = Publisher(broker, 5), Publisher(broker, 4)
    _fill(broker, five, four, pace)
    before = len(five.acked)
    print(f"full after {before} messages, {len(five.refused)} refused, {broker.free():,} bytes free")
    assert before > 100
    if reserve:
        assert five.refused, "not told"
        assert broker.free() > 0, "the reserve is used up"
    for publisher in (five, four):
        named(broker, publisher.name, "disk_full")
    with Plain(broker.ports["mqtt"]) as bystander:
        bystander.connect("bystander")
        bystander.subscribe(("other", 0))
        bystander.publish("other", b"still served")
        assert bystander.expect_publication().payload == b"still served"

    broker.resize(4 * broker.size)
    began = time.monotonic()
    assert four.answered(RESUME_SECONDS), "not acknowledged, though there is space"
    while five.outstanding or not five.acked[before:]:
        assert time.monotonic() - began < RESUME_SECONDS
        if not five.outstanding:
            five.send(1)
        five.answered(0.5)
    print(f"resumed in {time.monotonic() - began:.1f}s")

    reader = _enter(broker)
    found = _numbers(reader, [five, four], len(five.acked) + len(four.acked))
    print(f"delivered in {time.monotonic() - began:.1f}s")
    assert found == {five.name: sorted(five.acked), four.name: sorted(four.acked)}
    reader.expect_silence()
    reader.disconnect()
    five.close()
    four.close()
