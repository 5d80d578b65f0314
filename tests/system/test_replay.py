"""Replays with real clients: from a time or an offset on, and then live, while publishing goes on all the time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import paho.mqtt.client as paho
import pytest
from ledger import Ledger
from paho.mqtt.enums import CallbackAPIVersion
from systemkit.durable import DurableClient
from systemkit.forking import clean_environment
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import all_connected, run_all, stop_all, until

TOPIC = "feed/1"
#: Messages per second, and how many there are before anybody asks for a replay.
RATE = 1000
HISTORY = 3000
#: How many a reader sees live before a test is content.
LIVE = 1000
WAIT = 30.0

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no replays")


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """One that logs what is published to ``feed/``, whether or not a durable session wants it."""
    return start_broker(settings={"log.record": "['feed/#']"})


class Feed:
    """Publishes numbered messages at a steady rate."""

    def __init__(self, broker: BrokerProcess, qos: int = 1) -> None:
        self.ledger = Ledger()
        self.ledger.publisher("feed", TOPIC, qos)
        self.client = DurableClient("feed", broker.ports["mqtt"], version=5, window=1000, on_acked=self._acked)
        self.acked = 0
        self.going = True
        self._qos = qos

    def _acked(self, payload: bytes) -> None:
        self.acked += 1
        self.ledger.acked(payload)

    async def flow(self) -> None:
        began, sent = time.monotonic(), 0
        while True:
            if self.going:
                due = int((time.monotonic() - began) * RATE) - sent
                if (count := min(due, self.client.room)) > 0:
                    self.client.publish(TOPIC, [self.ledger.next("feed") for _ in range(count)], self._qos)
                    sent += count
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def _flowing(feed: Feed, history: int = HISTORY) -> AsyncIterator[None]:
    """A feed that has some history when the body begins, and goes on until it ends."""
    tasks = run_all([feed.client])
    await all_connected([feed.client])
    tasks.append(asyncio.create_task(feed.flow()))
    try:
        assert await until(lambda: feed.acked >= history, WAIT)
        yield
    finally:
        await stop_all(tasks)


def _run(walk: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(90):
            await walk()

    asyncio.run(limited())


def _mosquitto_sub(broker: BrokerProcess, filter: str, version: str, qos: int, count: int) -> list[str]:
    """What mosquitto_sub prints until it has that many."""
    where = ["-h", "127.0.0.1", "-p", str(broker.ports["mqtt"]), "-V", version, "-q", str(qos)]
    command = ["mosquitto_sub", *where, "-t", filter, "-C", str(count), "-W", str(int(WAIT)), "-F", "%t %p"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT, check=False)
    assert done.returncode == 0, f"{len(done.stdout.splitlines())} of {count}: {done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_the_last_hour_and_then_live(broker: BrokerProcess, version: str, qos: int) -> None:
    """Everything from the first message on, each once, in order, under its own topic, and on into the present."""
    feed = Feed(broker)

    async def walk() -> None:
        async with _flowing(feed):
            count = HISTORY + LIVE
            lines = await asyncio.to_thread(_mosquitto_sub, broker, "$replay/1h/feed/+", version, qos, count)
            assert lines == [f"{TOPIC} feed {number}" for number in range(1, count + 1)]
            assert feed.acked > HISTORY

    _run(walk)
    assert not feed.client.faults


def _log_end(broker: BrokerProcess) -> int:
    """Behind the newest message, as ``ctl log info`` tells it."""
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), "--json", "log", "info"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["end"])


class _Paho:
    """A paho client that collects payloads."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, "paho-replay", protocol=paho.MQTTv5)
        self.got: queue.Queue[bytes] = queue.Queue()
        self._subscribed: queue.Queue[Any] = queue.Queue()
        self.client.on_message = lambda client, data, message: self.got.put(bytes(message.payload))
        self.client.on_subscribe = lambda client, data, mid, reasons, properties: self._subscribed.put(reasons)
        self.client.connect("127.0.0.1", broker.ports["mqtt"], 60)
        self.client.loop_start()

    def subscribe(self, filter: str) -> None:
        self.client.subscribe(filter, qos=1)
        assert not any(reason.is_failure for reason in self._subscribed.get(timeout=WAIT))

    def take(self, count: int) -> list[bytes]:
        return [self.got.get(timeout=WAIT) for _ in range(count)]

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_from_an_offset_on(broker: BrokerProcess) -> None:
    """An offset that was noted leads to what was published behind it, as often as it is asked for."""
    feed = Feed(broker)

    async def walk() -> None:
        async with _flowing(feed):
            feed.going = False
            assert await until(lambda: not feed.client.pending, WAIT)
            known, end = feed.acked, await asyncio.to_thread(_log_end, broker)
            feed.going = True
            assert await until(lambda: feed.acked > known + LIVE, WAIT)
            reader = _Paho(broker)
            try:
                for begin, first in ((end, known + 1), (0, 1)):
                    filter = f"$replay/{begin}/feed/#"
                    await asyncio.to_thread(reader.subscribe, filter)
                    got = await asyncio.to_thread(reader.take, known + 2 * LIVE)
                    assert got == [b"feed %d" % number for number in range(first, first + len(got))]
                    reader.client.unsubscribe(filter)
                    await asyncio.sleep(0.5)
                    while not reader.got.empty():
                        reader.got.get()
            finally:
                reader.close()

    _run(walk)
    assert not feed.client.faults


@pytest.mark.parametrize("qos", [1, 2])
def test_a_durable_session_goes_on_with_its_replay_after_kill_9(broker: BrokerProcess, qos: int) -> None:
    """Killed in the midst of the history, and again when it is live: no gap, and at QoS 2 no double."""
    feed = Feed(broker, qos)
    feed.ledger.subscribe("replayer", ["feed"])
    got: list[bytes] = []

    def delivered(name: str, topic: str, payload: bytes) -> None:
        got.append(payload)
        feed.ledger.delivered(name, topic, payload)

    reader = DurableClient(
        "replayer",
        broker.ports["mqtt"],
        version=5,
        filters=(("$replay/1h/feed/#", qos),),
        on_delivery=delivered,
    )

    async def walk() -> None:
        async with _flowing(feed, 2 * HISTORY):
            tasks = run_all([reader])
            try:
                assert await until(lambda: len(got) > 100, WAIT)
                before = len(got)
                await asyncio.to_thread(broker.restart, kill=True)
                assert await until(lambda: len(got) > 2 * HISTORY + LIVE, WAIT)
                await asyncio.to_thread(broker.restart, kill=True)
                seen = len(got)
                assert await until(lambda: len(got) > seen + LIVE, WAIT)
                feed.going = False
                assert await until(lambda: not feed.client.pending and not feed.ledger.missing(), WAIT)
                await asyncio.sleep(0.3)  # what comes twice comes late
                print(f"killed at {before} of {2 * HISTORY}, and at {seen}; {feed.ledger.check()}")
            finally:
                await stop_all(tasks)

    _run(walk)
    assert not feed.client.faults
    assert not reader.faults, reader.faults[:5]
    try:
        feed.ledger.check().assert_clean()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{feed.ledger.details()}") from None
