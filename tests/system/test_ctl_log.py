"""The tools of an operator against a served broker: what waits and why, what the log holds, and a disk that is full."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no such tools")

MB = 1_000_000
QUOTA_EXCEEDED = 0x97
#: Large, and nothing that could be compressed.
LUMP = 250_000


def ctl(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), *arguments]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, cwd=broker.folder, env=clean_environment()
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def ask(broker: BrokerProcess, *arguments: str) -> Any:
    """What it answers in JSON."""
    return json.loads(ctl(broker, *arguments, "--json"))


def figure(broker: BrokerProcess, name: str) -> float:
    """One of its metrics."""
    return (broker.metrics() or {})[name]


def soon(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait for it, but no longer; whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def reader(broker: BrokerProcess, *filters: tuple[str, int], client_id: str = "reader") -> Plain:
    """A client with a durable session."""
    client = Plain(broker.ports["mqtt"], version=5)
    client.connect(client_id, clean=False, expiry=3600)
    if filters:
        client.subscribe(*filters)
    return client


def publish(writer: Plain, topic: str, *payloads: bytes) -> list[int]:
    """At QoS 1, one after the other; the reasons of their acknowledgements."""
    reasons = []
    for number, payload in enumerate(payloads, 1):
        writer.publish(topic, payload, qos=1, packet_id=number)
        reasons.append(writer.expect(wire.PUBACK).reason())
    return reasons


def test_an_operator_sees_who_is_behind_and_what_is_kept(start_broker: StartBroker) -> None:
    """From a subscription to a dropped generation, with nothing but ``ctl``."""
    broker = start_broker(settings={"log.generation": 1})
    reader(broker, ("plant/+/t", 1)).disconnect()
    with Plain(broker.ports["mqtt"], version=5) as writer:
        writer.connect("writer")
        publish(writer, "plant/1/t", b"1", b"22", b"333")
        time.sleep(1.1)  # the generation's time
        publish(writer, "plant/2/t", b"4444")

    [session] = [one for one in ask(broker, "sessions", "list") if one["client_id"] == "reader"]
    assert (session["state"], session["backlog"], session["connected"]) == ("offline", 4, False)
    assert session["lag"] >= 4
    shown = ask(broker, "sessions", "show", "reader")
    assert (shown["waiting"]["messages"], shown["waiting"]["bytes"]) == (4, 4 * 9 + 10)
    assert [claim["filter"] for claim in shown["waiting"]["claims"]] == ["plant/+/t"]
    screen = ctl(broker, "sessions", "show", "reader")
    assert "offline since" in screen
    assert "4 messages, 46 B" in screen

    info = ask(broker, "log", "info")
    assert (info["messages"], info["generations"], info["trouble"]) == (4, 2, None)
    assert info["disk_used"] > 0
    assert [one["messages"] for one in ask(broker, "log", "generations")] == [3, 1]
    assert sum(one["messages"] for one in ask(broker, "log", "shards")) == 4
    streams = ask(broker, "log", "streams", "--generation", "1")
    assert sum(one["messages"] for one in streams) == 3
    assert "every page is readable" in ctl(broker, "log", "verify")
    assert ask(broker, "cluster", "identity")["unexplained"] == 0
    assert ctl(broker, "cluster", "identity").split()[:2] == ["unexplained", "0"]

    assert "no generation 77" in ctl(broker, "log", "drop", "77", code=1)
    assert ctl(broker, "log", "drop", "1") == "dropped 1\n"
    shown = ask(broker, "sessions", "show", "reader")
    assert (shown["dropped"], shown["backlog"]) == ({"retention": 3}, 1)
    back = reader(broker)
    assert back.expect_publication().payload == b"4444"
    assert ctl(broker, "sessions", "kick", "reader") == "kicked reader\n"
    assert back.expect(wire.DISCONNECT).reason() == 0x98
    assert ctl(broker, "sessions", "purge", "reader") == "purged reader\n"
    assert "no session" in ctl(broker, "sessions", "show", "reader", code=1)


def test_what_waits_can_be_read_from_the_metrics(start_broker: StartBroker) -> None:
    """received = delivered + waiting + dropped, before and after a kill -9."""
    broker = start_broker()
    for name in ("a", "b"):
        reader(broker, ("t", 1), client_id=name).disconnect()
    with Plain(broker.ports["mqtt"], version=5) as writer:
        writer.connect("writer")
        publish(writer, "t", *[b"x"] * 50)
    samples = broker.metrics() or {}
    assert samples["iot_mqtt_messages_waiting"] == samples["iot_mqtt_messages_matched_total"] == 100
    assert samples["iot_mqtt_backlog_largest_messages"] == 50
    assert samples["iot_mqtt_log_messages"] == 50
    assert samples["iot_mqtt_grid_commit_latency_seconds_count"] == samples["iot_mqtt_grid_commits_total"] > 0
    broker.restart()
    assert soon(lambda: figure(broker, "iot_mqtt_backlog_uncounted") == 0)
    assert figure(broker, "iot_mqtt_messages_waiting") == 100


def test_retention_drops_by_itself_and_gives_room_back(start_broker: StartBroker) -> None:
    """Nobody has to ask: what is over its time goes, and the session that missed it shows how much."""
    broker = start_broker(settings={"log.generation": 1, "log.retention": 2})
    reader(broker, ("t", 1)).disconnect()
    with Plain(broker.ports["mqtt"], version=5) as writer:
        writer.connect("writer")
        publish(writer, "t", *[os.urandom(LUMP) for _ in range(120)])
    assert soon(lambda: figure(broker, "iot_mqtt_disk_used_bytes") > 30 * MB)
    before = figure(broker, "iot_mqtt_disk_used_bytes")
    assert soon(lambda: figure(broker, "iot_mqtt_log_messages") == 0, 25)
    assert soon(lambda: figure(broker, "iot_mqtt_disk_used_bytes") < before / 2)
    assert ask(broker, "sessions", "show", "reader")["dropped"] == {"retention": 120}


def test_a_full_disk_refuses_or_pauses_and_recovers_by_itself(start_broker: StartBroker) -> None:
    """The limit is reached: v5 is told 0x97, 3.1.1 is not read from, QoS 0 goes on; when there is room, so does all."""
    broker = start_broker(settings={"log.generation": 2, "log.disk_limit": 40 * MB, "log.disk_reserve": 0})
    reader(broker, ("t", 1)).disconnect()
    live = Plain(broker.ports["mqtt"], version=5)
    live.connect("live")
    live.subscribe(("zero", 0))
    writer = Plain(broker.ports["mqtt"], version=5)
    writer.connect("writer")

    # Full for good: for a while, the database gives back what its own log took twice.
    acknowledged = refused = in_a_row = 0
    while in_a_row < 30:
        assert acknowledged * LUMP < 100 * MB, "the limit is not kept"
        [reason] = publish(writer, "t", os.urandom(LUMP))
        acknowledged += reason == 0
        refused += reason == QUOTA_EXCEEDED
        in_a_row = in_a_row + 1 if reason == QUOTA_EXCEEDED else 0
        time.sleep(0.1 if in_a_row else 0.01)
    assert json.loads(broker.http("/health"))["status"] == "alarm"
    assert "FULL" in ctl(broker, "log", "info")
    assert figure(broker, "iot_mqtt_disk_alarm") == 2
    assert figure(broker, 'iot_mqtt_messages_refused_total{reason="disk_full"}') == refused

    old = Plain(broker.ports["mqtt"], version=4)
    old.connect("old", keep_alive=2)
    old.publish("t", b"waits", qos=1, packet_id=7)
    old.expect_silence(4)
    assert "until the disk has room" in ctl(broker, "why", "old")
    writer.publish("zero", b"goes on")
    assert live.expect_publication().payload == b"goes on"

    # The time of the newest generation has to be over before it can go.
    assert soon(lambda: all(one["closed"] for one in ask(broker, "log", "generations")))
    for generation in ask(broker, "log", "generations"):
        ctl(broker, "log", "drop", str(generation["generation"]))
    assert old.expect(wire.PUBACK).packet_id == 7
    assert publish(writer, "t", b"again") == [0]
    # Of the disk there is none any more; that a session has lost messages is told for an hour.
    (alarm,) = json.loads(broker.http("/health"))["alarms"]
    assert f"sessions have lost {acknowledged} messages: an operator dropped them" in alarm
    assert ask(broker, "sessions", "show", "reader")["dropped"] == {"retention": acknowledged}
    back = reader(broker)
    assert [back.expect_publication().payload for _ in range(2)] == [b"waits", b"again"]
    for client in (back, live, writer, old):
        client.sock.close()
