"""The whole way through real parts: gateway or MQTT client, broker, Kafka, Spark, tables, alarms, and back to a device.

``WAY_READINGS`` makes the ledger larger, ``WAY_RATE`` (a second) faster and ``WAY_DRIVER_KILLS`` harder: 200,000, 2,000
and 5 are what the way is meant for. ``WAY_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pytest
from systemkit.durable import DurableClient
from systemkit.forking import clean_environment
from systemkit.listener import Listener
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import all_connected, run_all, stop_all, wait_until

from iot_mqtt.custom_protocols.gateway.wire import Type
from tests.doubles import gateway as client
from tests.enginekit.jvm import QUICK
from tests.enginekit.kafka import KafkaServer

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no uplink"),
    pytest.mark.timeout(1500),
]

READINGS = int(os.environ.get("WAY_READINGS", "6000"))
RATE = int(os.environ.get("WAY_RATE", "300"))
DRIVER_KILLS = int(os.environ.get("WAY_DRIVER_KILLS", "1"))
SEED = int(os.environ.get("WAY_SEED", random.SystemRandom().randrange(1_000_000)))
DEVICES = 20
TICK = 0.02
SPARK_SECONDS = 240.0
HOT = 90.0
RULES = f"""
clean:
  - match: {{tag: t}}
    unit: "°C"
    min: -50
    max: 1000
    outside: invalid
alarms:
  - name: too hot
    match: {{tag: t}}
    kind: threshold
    above: {HOT}
    clear: 80
    severity: critical
    command: {{target: valve, body: {{open: true}}, expires_in: 600}}
"""


class Way:
    """A broker that feeds a Kafka, with topics of its own, and the jobs behind it."""

    def __init__(self, kafka: KafkaServer, start_broker: StartBroker, folder: Path) -> None:
        name = uuid4().hex[:8]
        self.kafka = kafka
        self.readings, self.dead = (kafka.make_topic(f"{kind}.{name}") for kind in ("readings", "dead"))
        self.commands, self.alarms = (kafka.make_topic(f"{kind}.{name}") for kind in ("commands", "alarms"))
        rules = folder / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        self.settings: Mapping[str, object] = {
            "uplink.kind": "kafka",
            "uplink.kafka.bootstrap_servers": f"[{kafka.address}]",
            "uplink.kafka.dead_letters": self.dead,
            "uplink.rules": f'[{{filter: "up/#", to: {self.readings}}}]',
            "uplink.commands.topic": self.commands,
            "uplink.commands.dead_letters": self.dead,
            "uplink.commands.group": f"group-{name}",
            "pipeline.topics": f"[{self.readings}]",
            "pipeline.rules": str(rules),
            "pipeline.memory": "768m",
            "pipeline.trigger_seconds": 1,
            "pipeline.clean.topic": "null",
            "pipeline.clean.invalid_topic": "null",
            "pipeline.alarm.topic": self.alarms,
            "pipeline.alarm.commands_topic": self.commands,
        }
        self.broker: BrokerProcess = start_broker(settings={**self.settings, "mqtt.sys_interval": 0})
        self.log = self.broker.folder / "jobs.log"

    def command(self, *words: str) -> list[str]:
        told = [f"{key}={value}" for key, value in self.settings.items()] + [f"node.data_dir={self.broker.data_dir}"]
        return [*our_command(), "pipeline", *words, *(word for one in told for word in ("--set", one))]

    @contextmanager
    def job(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that goes on, and is gone afterwards."""
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                self.command("run", name),
                stdout=log,
                stderr=log,
                cwd=self.broker.folder,
                env=clean_environment() | QUICK,
            )
        try:
            yield child
        finally:
            kill_all(child.pid)
            child.wait()

    def once(self, name: str) -> None:
        """Everything that is there by now."""
        done = subprocess.run(
            self.command("run", name, "--once"),
            capture_output=True,
            text=True,
            timeout=SPARK_SECONDS,
            check=False,
            cwd=self.broker.folder,
            env=clean_environment() | QUICK,
        )
        assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr[-4000:]}"

    def status(self, name: str) -> dict[str, Any]:
        path = self.broker.data_dir / "pipeline" / "status" / f"{name}.json"
        with suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads(path.read_bytes())
            return found
        return {}

    @property
    def batch(self) -> int:
        """The last one that clean has done; -1 before the first."""
        batch = self.status("clean").get("batch")
        return -1 if batch is None else int(batch)

    def running(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until a job says that it runs."""
        wait_until(lambda: process.poll() is not None or self.status(name).get("running"), SPARK_SECONDS)
        assert process.poll() is None, self.log.read_text()[-4000:]

    def rows(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        """What any reader of Parquet finds in a table."""
        files = sorted((self.broker.data_dir / "pipeline" / "tables" / table).glob("dt=*/batch=*/*.parquet"))
        if not files:
            return []
        found: list[tuple[Any, ...]] = duckdb.sql(
            f"SELECT {columns} FROM read_parquet({list(map(str, files))})"
        ).fetchall()
        return found


def kill_all(pid: int) -> None:
    """A process and all that it has started, with SIGKILL."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                kill_all(int(child))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def way(kafka: KafkaServer, start_broker: StartBroker, tmp_path: Path) -> Way:
    return Way(kafka, start_broker, tmp_path)


def test_from_a_frame_to_a_row_an_alarm_and_a_command_at_a_device(way: Way) -> None:
    """A gateway posts a reading that is too hot; the valve, which speaks MQTT, is told to open."""
    broker = way.broker
    valve = Listener(broker, "down/valve")
    with way.job("clean") as clean, way.job("alarm") as alarm:
        way.running("clean", clean)
        way.running("alarm", alarm)
        with socket.create_connection(("127.0.0.1", broker.ports["gateway"]), timeout=10) as gateway:
            gateway.sendall(client.login("line-7", heartbeat=30))
            assert gateway.recv(65_536)
            began = time.time()
            for number, value in enumerate((71.5, HOT + 5), start=1):
                at = int(time.time() * 1000)
                reading = [("press", [("t", Type.F64, value)])]
                gateway.sendall(client.data(reading, sequence=number, time=at, wants_ack=True))
            wait_until(lambda: len(way.rows("seq", "clean")) == 2, 120)
            cleaned = time.time() - began
            wait_until(lambda: valve.messages, 120)
            taken = time.time() - began
            # The command leaves before the row is written, and leaving the job kills it.
            wait_until(lambda: way.rows("rule", "alarms"), 60)
    valve.close()
    ((topic, body),) = valve.messages
    assert (topic, body) == ("down/valve", {"open": True})
    found = way.rows("gateway, device, tag, seq, value, unit, quality", "clean")
    assert sorted(found) == [
        ("line-7", "press", "t", 1, 71.5, "°C", "good"),
        ("line-7", "press", "t", 2, HOT + 5, "°C", "good"),
    ]
    ((rule, state, value),) = way.rows("rule, state, value", "alarms")
    assert (rule, state, value) == ("too hot", "raised", HOT + 5)
    (order,) = way.kafka.read_all(way.commands)
    assert order.value is not None and json.loads(order.value)["target"] == "valve"
    print(f"from the frame to the row {cleaned:.1f} s, to the command at the device {taken:.1f} s")


class Fleet:
    """Devices that publish numbered readings: some twice, some late, some wrong; and what each of them was."""

    def __init__(self, port: int, dice: random.Random) -> None:
        self.good: set[tuple[str, int]] = set()
        self.bad: set[tuple[str, int]] = set()
        self.acked = 0
        self._dice = dice
        self._clients = [DurableClient(f"press-{number}", port, version=5) for number in range(DEVICES)]
        for one in self._clients:
            one.on_acked(self._acked)
        self._numbers: dict[str, int] = defaultdict(int)
        self._running: list[asyncio.Task[None]] = []

    def _acked(self, payload: bytes) -> None:
        self.acked += 1

    async def connect(self) -> None:
        self._running = run_all(self._clients)
        await all_connected(self._clients, 30)

    async def publish(self, count: int) -> None:
        """So many, at the rate; returns when all are acknowledged."""
        owed, last, sent = 0.0, time.monotonic(), 0
        while sent < count:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            owed, last = min(owed + (now - last) * RATE, RATE), now
            for one in self._dice.sample(self._clients, DEVICES):
                while owed >= 1 and one.room and sent < count:
                    owed -= 1
                    sent += 1
                    payloads = self._next(one.client_id)
                    one.publish(f"up/{one.client_id}/t", payloads, 1)
                    if self._dice.random() < 0.5:
                        break
        while any(one.pending for one in self._clients):  # noqa: ASYNC110 - clients know no events
            await asyncio.sleep(0.05)

    def _next(self, device: str) -> list[bytes]:
        self._numbers[device] += 1
        number = self._numbers[device]
        lot = self._dice.random()
        at = int(time.time() * 1000)
        if lot < 0.02:
            self.bad.add((device, number))
            wrong: list[bytes] = [
                b"\xff broken %d" % number,
                json.dumps({"seq": number, "t": 99_999}).encode(),
                json.dumps({"seq": number, "t": 20.5, "ts": at + 86_400_000}).encode(),
            ]
            return [self._dice.choice(wrong)]
        self.good.add((device, number))
        late = lot < 0.07
        payload = json.dumps({"seq": number, "t": 20.5, "ts": at - 7_200_000 if late else at}).encode()
        return [payload, payload] if lot > 0.95 else [payload]

    async def leave(self) -> None:
        await stop_all(self._running)


def _trouble(way: Way, fleet: Fleet, dice: random.Random) -> None:
    """Everything that dies dies. In the main thread: what a thread has started ends with it."""

    def at(share: float) -> None:
        wait_until(lambda: fleet.acked >= READINGS * share, 600)

    at(0.1)
    way.kafka.kill()
    time.sleep(5)
    way.kafka.start()
    at(0.35)
    way.kafka.stop()
    time.sleep(8)
    way.kafka.cont()
    at(0.6)
    time.sleep(dice.uniform(0, 0.3))
    way.broker.kill()
    way.broker.start()


def _driver(way: Way, pause: float) -> None:
    """A clean job that is killed in the middle of its work: a batch is done, and another one under way or not."""
    before = way.batch
    with way.job("clean") as job:
        wait_until(lambda: way.batch > before or job.poll() is not None, SPARK_SECONDS)
        time.sleep(pause)
        assert job.poll() is None, way.log.read_text()[-4000:]


async def _publish(way: Way, fleet: Fleet, dice: random.Random) -> None:
    await fleet.connect()
    try:
        # A part of the readings for each driver, or those that start slowly would have nothing to do.
        part = READINGS // (DRIVER_KILLS + 1)
        for _ in range(DRIVER_KILLS):
            driver = asyncio.create_task(asyncio.to_thread(_driver, way, dice.uniform(0, 1.5)))
            await fleet.publish(part)
            await driver
        await fleet.publish(READINGS - DRIVER_KILLS * part)
    finally:
        await fleet.leave()


def _run(way: Way) -> Fleet:
    dice = random.Random(SEED)
    fleet = Fleet(way.broker.ports["mqtt"], random.Random(SEED))
    with ThreadPoolExecutor(1) as beside:
        publishing = beside.submit(asyncio.run, _publish(way, fleet, random.Random(SEED)))
        _trouble(way, fleet, dice)
        publishing.result()
    return fleet


def _published(value: bytes) -> tuple[str, int]:
    """Device and number of a record of the broker's."""
    record = json.loads(value)
    if "payload_b64" in record:
        return record["client"], int(b64decode(record["payload_b64"]).split()[-1])
    return record["client"], record["payload"]["seq"]


def test_the_ledger_of_the_whole_way(way: Way) -> None:
    """Killed and hanging as they are: every valid reading is a row once, every invalid one a dead letter."""
    print(f"WAY_SEED={SEED} readings={READINGS} rate={RATE} driver kills={DRIVER_KILLS}")
    began = time.monotonic()
    fleet = _run(way)
    published = time.monotonic() - began
    token = (way.broker.data_dir / "admin.token").read_text().strip()
    wait_until(lambda: json.loads(way.broker.http("/api/v1/uplink", token=token))["lag_messages"] == 0, 120)

    kept = way.kafka.read_all(way.readings, 120)
    wrong_order = repeated = 0
    seen: dict[str, set[int]] = defaultdict(set)
    newest: dict[str, int] = defaultdict(int)
    for one in kept:
        assert one.value is not None and one.key is not None
        device, number = _published(one.value)
        assert one.key.decode() == device
        if number in seen[device]:
            repeated += 1
            continue
        wrong_order += number < newest[device]
        newest[device] = max(newest[device], number)
        seen[device].add(number)
    arrived = {(device, number) for device, numbers in seen.items() for number in numbers}
    assert arrived == fleet.good | fleet.bad, "not everything that was acknowledged is in Kafka"
    assert not wrong_order, f"{wrong_order} readings came out of order"

    way.once("clean")
    rows = way.rows("device, seq", "clean")
    letters = {_published(raw.encode()) for (raw,) in way.rows("raw", "invalid")}
    print(
        f"{READINGS} readings in {published:.0f} s: {len(kept)} records in Kafka, {repeated} of them again; "
        f"{len(rows)} rows, {len(letters)} dead letters; {time.monotonic() - began:.0f} s in all"
    )
    assert len(rows) == len(set(rows)), "a reading is in the table twice"
    assert set(rows) == fleet.good
    assert letters == fleet.bad
