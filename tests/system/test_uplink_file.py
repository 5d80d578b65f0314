"""The uplink into files, with real processes: everything once and in order, whatever is killed or cannot be written."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from systemkit import wire
from systemkit.durable import DurableClient
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until
from systemkit.why import named

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no uplink")

SETTINGS = {
    "uplink.kind": "file",
    "uplink.file.rotate_seconds": 0.2,
    "mqtt.sys_interval": 0,
    "listeners.gateway.enabled": "false",
}
MESSAGES = 10_000
KILLS = 6
#: From trouble to an alarm.
TELL_SECONDS = 20.0


def lines(broker: BrokerProcess, topic: str = "iot.readings") -> list[dict[str, Any]]:
    """What a reader of the files finds, in the order of their names."""
    paths = sorted((broker.data_dir / "uplink" / topic).glob("dt=*/*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def status(broker: BrokerProcess) -> dict[str, Any]:
    token = (broker.data_dir / "admin.token").read_text().strip()
    found: dict[str, Any] = json.loads(broker.http("/api/v1/uplink", token=token))
    return found


def drained(broker: BrokerProcess) -> bool:
    return int(status(broker)["lag_messages"]) == 0


def logged(broker: BrokerProcess) -> int:
    token = (broker.data_dir / "admin.token").read_text().strip()
    return int(json.loads(broker.http("/api/v1/log", token=token))["messages"])


async def _publish(client: DurableClient, qos: int, count: int) -> None:
    sent = 0
    while sent < count:
        burst = min(client.room, 25, count - sent)
        if burst:
            payloads = [b'{"n": %d}' % number for number in range(sent, sent + burst)]
            client.publish(f"up/{client.client_id}/d", payloads, qos)
            sent += burst
        await asyncio.sleep(0.03)
    while client.pending:  # noqa: ASYNC110 - of a client that knows no events
        await asyncio.sleep(0.01)


async def _load(broker: BrokerProcess, dice: random.Random) -> list[str]:
    """Four publishers, two of them at QoS 2, and a broker that is killed under them."""
    clients = {f"q{qos}-{number}": qos for qos in (1, 2) for number in (1, 2)}
    made = {name: DurableClient(name, broker.ports["mqtt"], version=5) for name in clients}
    running = [asyncio.create_task(client.run()) for client in made.values()]
    try:
        await asyncio.gather(*(client.connected() for client in made.values()))
        each = MESSAGES // len(made)
        publishing = [asyncio.create_task(_publish(made[name], qos, each)) for name, qos in clients.items()]
        for _ in range(KILLS):
            # After a file was finished at least, and then at any moment of the next one.
            before, began = len(_files(broker)), time.monotonic()
            while len(_files(broker)) == before and time.monotonic() - began < 3:  # noqa: ASYNC110 - files
                await asyncio.sleep(0.02)
            await asyncio.sleep(dice.uniform(0, 0.4))
            await asyncio.to_thread(broker.restart)
        await asyncio.wait_for(asyncio.gather(*publishing), 60)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return [fault for client in made.values() for fault in client.faults]


def test_kill_9_leaves_every_record_once_and_in_order(start_broker: StartBroker) -> None:
    """10,000 messages, six kills: QoS 2 once from end to end, QoS 1 as often as the log has it, order per client."""
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"KILL_SEED={seed}")
    broker = start_broker(settings=SETTINGS)
    assert asyncio.run(_load(broker, random.Random(seed))) == []
    took = wait_until(lambda: drained(broker), 30)
    found = lines(broker)
    ids = [line["id"] for line in found]
    print(f"{len(found)} records in {len(_files(broker))} files, drained in {took:.1f}s")
    assert len(_files(broker)) > KILLS, "no kill came between files"
    assert len(ids) == len(set(ids)), "a record is there twice"
    assert len(found) == logged(broker), "the files are not what the log is"
    each = MESSAGES // 4
    for client in ("q1-1", "q1-2", "q2-1", "q2-2"):
        numbers = [line["payload"]["n"] for line in found if line["client"] == client]
        first_seen = list(dict.fromkeys(numbers))
        assert first_seen == list(range(each)), f"{client}: lost or out of order"
        if client.startswith("q2"):
            assert len(numbers) == each, f"{client}: {len(numbers)} records"
    assert not list((broker.data_dir / "uplink" / ".open").iterdir()), "something was left behind"


def _enter(broker: BrokerProcess, name: str) -> Plain:
    client = Plain(broker.ports["mqtt"], version=5)
    client.connect(name)
    return client


def _publish_one(client: Plain, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> int:
    """Publish and wait for the acknowledgement; its reason."""
    client.publish(topic, payload, qos=qos, packet_id=1 if qos else 0, retain=retain)
    return client.expect(wire.PUBACK).reason() if qos else 0


def test_rules_say_what_goes_up_and_who_else_gets_it(start_broker: StartBroker) -> None:
    """The first rule that matches counts; ``only`` keeps it from subscribers and from being retained."""
    rules = "[{filter: only/#, to: quiet, mode: only}, {filter: +/a, to: loud, key: topic}]"
    broker = start_broker(settings=SETTINGS | {"uplink.rules": rules})
    with _enter(broker, "reader") as reader, _enter(broker, "writer") as writer:
        reader.subscribe(("#", 0))
        assert _publish_one(writer, "only/a", b"\xff", retain=True) == 0
        assert _publish_one(writer, "also/a", b'{"x": 1.50}', qos=0) == 0
        assert _publish_one(writer, "none/b", b"3") == 0
        assert [reader.expect_publication().topic for _ in range(2)] == ["also/a", "none/b"]
        with _enter(broker, "late") as late:
            late.subscribe(("only/#", 0))
            late.expect_silence()
    wait_until(lambda: drained(broker) and bool(lines(broker, "loud")), 10)
    (quiet,), (loud,) = lines(broker, "quiet"), lines(broker, "loud")
    assert (quiet["topic"], quiet["payload_b64"], quiet["qos"]) == ("only/a", "/w==", 1)
    assert (loud["topic"], loud["payload"], loud["client"]) == ("also/a", {"x": 1.5}, "writer")


def test_a_restart_in_peace_goes_on_where_it_was(start_broker: StartBroker) -> None:
    """What was sent is finished at the stop, and nothing comes again."""
    broker = start_broker(settings=SETTINGS | {"uplink.file.rotate_seconds": 3600})
    for life in range(3):
        with _enter(broker, "writer") as writer:
            for number in range(20):
                _publish_one(writer, "up/w", b"%d" % (life * 20 + number))
        wait_until(lambda: status(broker)["unread_messages"] == 0)
        broker.restart(kill=False)
    assert [line["payload"] for line in lines(broker)] == list(range(60))


def test_an_unwritable_directory_is_told_and_costs_publishers_nothing(start_broker: StartBroker) -> None:
    """A file stands where the directory should be: alarm within 5 s, publishers served, all there when it is gone."""
    broker = start_broker(settings=SETTINGS)
    broker.terminate()
    folder = broker.data_dir / "uplink"
    folder.rename(broker.data_dir / "aside")
    folder.write_bytes(b"in the way")
    broker.start()
    began = time.monotonic()
    with _enter(broker, "writer") as writer:
        for number in range(50):
            assert _publish_one(writer, "up/w", b"%d" % number) == 0
        wait_until(lambda: json.loads(broker.http("/health"))["status"] == "alarm", TELL_SECONDS)
        print(f"told after {time.monotonic() - began:.1f}s: {status(broker)['alarms']}")
        assert status(broker)["lag_messages"] == 50
        named(broker, "writer", "uplink_down", "50 messages wait")
        metrics = broker.metrics()
        assert metrics is not None
        assert (metrics["iot_mqtt_uplink_alarm"], metrics["iot_mqtt_uplink_lag_messages"]) == (1.0, 50.0)
        folder.unlink()
        took = wait_until(lambda: drained(broker), 10)
        print(f"drained {took:.1f}s after it could be written again")
        assert _publish_one(writer, "up/w", b"50") == 0
    wait_until(lambda: len(lines(broker)) == 51, 10)
    assert [line["payload"] for line in lines(broker)] == list(range(51))
    assert json.loads(broker.http("/health")) == {"status": "ok"}


def test_files_that_take_all_they_may_make_the_log_keep_the_rest(start_broker: StartBroker) -> None:
    """Nothing is deleted, and it goes on as soon as somebody has read and removed what is there."""
    broker = start_broker(settings=SETTINGS | {"uplink.file.limit": 20_000, "uplink.file.rotate_bytes": 4096})
    taken: list[int] = []
    with _enter(broker, "writer") as writer:
        for number in range(300):
            assert _publish_one(writer, "up/w", b"%d" % number) == 0
    wait_until(lambda: "uplink.file.limit" in str(status(broker)["trouble"]), TELL_SECONDS)
    began = time.monotonic()
    while not drained(broker) or _files(broker):
        for path in _files(broker):
            taken += [json.loads(line)["payload"] for line in path.read_bytes().splitlines()]
            path.unlink()
        time.sleep(0.1)
        assert len(taken) <= 300
        assert time.monotonic() - began < 60, f"{len(taken)} taken: {status(broker)}"
    assert taken == list(range(300))


def _files(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data_dir / "uplink").glob("*/dt=*/*.jsonl"))
