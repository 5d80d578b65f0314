"""Commands to MQTT devices through a served broker: their states, over kills, reconnects and takeovers.

``COMMANDS`` and ``DEVICES`` make the crowd larger; ``KILL_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from systemkit import wire
from systemkit.durable import DurableClient
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import AIR

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no commands")

COMMANDS = int(os.environ.get("COMMANDS", "1000"))
DEVICES = int(os.environ.get("DEVICES", "100"))
FINAL = {"acked", "failed", "expired", "uncertain"}


def pair(name: str, value: str) -> bytes:
    """A user property."""
    return b"\x26" + wire.text(name) + wire.text(value)


def order(target: str, body: bytes, packet_id: int, *properties: bytes, dup: bool = False) -> bytes:
    """The PUBLISH of a command."""
    frame = wire.publish(f"down/{target}", body, qos=1, packet_id=packet_id, version=5, properties=b"".join(properties))
    return wire.as_duplicate(frame) if dup else frame


def client(broker: BrokerProcess, client_id: str, *filters: tuple[str, int], expiry: int = 3600) -> Plain:
    """A v5 client with a session."""
    made = Plain(broker.ports["mqtt"], version=5)
    made.connect(client_id, clean=False, expiry=expiry)
    if filters:
        made.subscribe(*filters)
    return made


def confirm(device: Plain, packet_id: int) -> None:
    device.send(wire.ack(wire.PUBACK, packet_id))


def told(listener: Plain) -> dict[str, Any]:
    """The next state that is told."""
    message = listener.expect_publication()
    confirm(listener, message.packet_id)
    status: dict[str, Any] = json.loads(message.payload)
    return status


def call(broker: BrokerProcess, path: str, method: str = "GET", body: object = None) -> Any:
    """The admin API; errors are given back as (status, detail)."""
    data = None if body is None else json.dumps(body).encode()
    token = (broker.data_dir / "admin.token").read_text().strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.ports['admin']}/api/v1/{path}",
        data,
        {"Authorization": f"Bearer {token}"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=50) as response:
            text = response.read()
            return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["detail"]


def everything(broker: BrokerProcess) -> list[dict[str, Any]]:
    """All commands."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = call(broker, f"commands?limit=1000{after}")
        found += page["items"]
        if page["after"] is None:
            return found
        after = f"&after={page['after']}"


def ctl(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        [*our_command(), "ctl", "--data-dir", str(broker.data_dir), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=broker.folder,
        env=clean_environment(),
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """It takes no longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_command_waits_over_a_kill_and_is_acked(broker: BrokerProcess) -> None:
    """Queued while the device is away, told to the sender, delivered after kill -9, acked by PUBACK."""
    client(broker, "valve", ("down/valve", 1)).disconnect()
    listener = client(broker, "listener", ("status/#", 1))
    sender = client(broker, "sender")
    sender.send(order("valve", b'{"open":1}', 1, pair("command-id", "c1")))
    assert sender.expect(wire.PUBACK).reason() == 0
    status = told(listener)
    assert (status["id"], status["target"], status["state"]) == ("c1", "valve", "queued")
    broker.restart()
    assert call(broker, "commands/c1")["state"] == "queued"
    device = client(broker, "valve")
    message = device.expect_publication()
    assert message.payload == b'{"open":1}'
    shown = call(broker, "commands/c1")
    assert (shown["state"], shown["body"], shown["sender"]) == ("sent", '{"open":1}', "sender")
    confirm(device, message.packet_id)
    device.ping()
    assert call(broker, "commands/c1")["state"] == "acked"


def test_a_deadline_is_kept_to_the_second(broker: BrokerProcess) -> None:
    """Expired not before and at most a second after; the device that comes then gets nothing."""
    client(broker, "valve", ("down/valve", 1)).disconnect()
    listener = client(broker, "listener", ("status/#", 1))
    sender = client(broker, "sender")
    began = time.monotonic()
    sender.send(order("valve", b"x", 1, b"\x02" + (2).to_bytes(4, "big")))
    assert told(listener)["state"] == "queued"
    assert told(listener)["state"] == "expired"
    assert 1.9 < time.monotonic() - began < 3.0 + AIR
    client(broker, "valve").expect_silence()


@pytest.mark.parametrize("how", ["takeover", "reconnect", "kill"])
def test_what_was_sent_is_not_sent_again(broker: BrokerProcess, how: str) -> None:
    """Another connection with the same session, one that comes later, one after kill -9: openly uncertain each time."""
    device = client(broker, "valve", ("down/valve", 1))
    sender = client(broker, "sender")
    sender.send(order("valve", b"once", 1, pair("command-id", "once")))
    sender.send(order("valve", b"twice", 2, pair("command-id", "twice"), pair("retry", "yes")))
    assert [device.expect_publication().payload for _ in range(2)] == [b"once", b"twice"]
    if how == "reconnect":
        device.sock.close()
    elif how == "kill":
        broker.restart()
    device = client(broker, "valve")
    again = device.expect_publication()
    assert (again.payload, again.dup) == (b"twice", True)
    confirm(device, again.packet_id)
    device.expect_silence()
    assert {one["id"]: one["state"] for one in everything(broker)} == {"once": "uncertain", "twice": "acked"}


def test_a_device_answers_with_values(broker: BrokerProcess) -> None:
    """To the response topic of the sender, with its correlation data."""
    device = client(broker, "valve", ("down/valve/#", 1))
    sender = client(broker, "sender", ("answers/sender", 1))
    properties = (
        b"\x08" + wire.text("answers/sender"),
        b"\x09" + wire.text(b"42"),
        pair("command-id", "c1"),
        pair("wants-reply", "yes"),
    )
    sender.send(order("valve/motor", b"go", 1, *properties))
    confirm(device, device.expect_publication().packet_id)
    device.send(wire.publish("reply/c1", b'{"ok":true,"values":{"rpm":900}}', qos=1, packet_id=1, version=5))
    assert device.expect(wire.PUBACK).reason() < 0x80
    came: list[dict[str, Any]] = []
    while len(came) < 3:
        got = sender.receive()
        assert got is not None
        if got.kind == wire.PUBLISH:
            message = wire.publication(got, 5)
            assert message.topic == "answers/sender"
            confirm(sender, message.packet_id)
            came.append(json.loads(message.payload))
    assert [one["state"] for one in came] == ["queued", "sent", "acked"]
    assert came[-1]["values"] == {"rpm": 900}


def test_an_operator_sends_looks_and_takes_back(broker: BrokerProcess) -> None:
    """REST and ``ctl`` are the same thing."""
    client(broker, "valve", ("down/valve", 1)).disconnect()
    sent = json.loads(ctl(broker, "commands", "send", "valve", '{"open":1}', "--key", "k", "--json"))
    assert sent["state"] == "queued"
    assert json.loads(ctl(broker, "commands", "send", "valve", "x", "--key", "k", "--json"))["id"] == sent["id"]
    assert sent["id"] in ctl(broker, "commands", "list", "--state", "queued", "--target", "valve")
    assert '{"open":1}' in ctl(broker, "commands", "show", sent["id"])
    assert ctl(broker, "commands", "cancel", sent["id"]) == f"cancelled {sent['id']}\n"
    assert "only one that was never sent" in ctl(broker, "commands", "cancel", sent["id"], code=1)
    assert "no command" in ctl(broker, "commands", "show", "nobody", code=1)
    client(broker, "valve").expect_silence()
    assert "the command is failed" in ctl(broker, "commands", "send", "ghost", "x", "--wait", "5", code=1)
    assert call(broker, "commands", "POST", {"target": "valve", "expires_in": 0})["state"] == "expired"
    assert call(broker, "commands", "POST", {"target": "#"})[0] == 400
    assert call(broker, "commands", "POST", {"body": "x"}) == (400, "target is missing")
    assert call(broker, "commands/nobody", "DELETE")[0] == 404
    assert call(broker, "commands?state=lost")[0] == 400


def test_a_shadow_is_desired_reported_and_equal(broker: BrokerProcess) -> None:
    """The difference is published until there is none; versions keep two writers apart."""
    listener = client(broker, "listener", ("shadow/valve/delta", 1))
    found = json.loads(ctl(broker, "shadow", "set", "valve", "open=1", "mode=auto", "--json"))
    assert (found["desired"]["version"], found["delta"]) == (1, {"open": 1, "mode": "auto"})
    assert told(listener)["delta"] == {"open": 1, "mode": "auto"}
    assert "version 1, not 0" in ctl(broker, "shadow", "set", "valve", "open=2", "--version", "0", code=1)
    device = client(broker, "valve")
    device.send(wire.publish("shadow/valve/reported", b'{"open":1,"mode":"auto"}', qos=1, packet_id=1, version=5))
    device.expect(wire.PUBACK)
    assert told(listener)["delta"] == {}
    broker.restart()
    shown = call(broker, "shadows/valve")
    assert shown["reported"]["values"] == shown["desired"]["values"] == {"open": 1, "mode": "auto"}
    assert "auto" in ctl(broker, "shadow", "get", "valve")
    assert ctl(broker, "devices", "list").startswith("TARGET")
    assert "never seen" in ctl(broker, "devices", "show", "gw/d", code=1)


class Crowd:
    """Devices that come and go, a sender that sends until each command is accepted, and what they saw."""

    def __init__(self, port: int, dice: random.Random) -> None:
        self.port, self.dice = port, dice
        self.came: Counter[str] = Counter()
        self.retry: set[str] = set()
        self.accepted: set[str] = set()
        self.flapping = True
        self.devices = [
            DurableClient(f"d{number}", port, version=5, filters=((f"down/d{number}/#", 1),), on_delivery=self._came)
            for number in range(DEVICES)
        ]
        self._by_name = {device.client_id: device for device in self.devices}

    def _came(self, device: str, topic: str, payload: bytes) -> None:
        self.came[payload.decode()] += 1
        if self.flapping and self.dice.random() < 0.2:
            # Before its PUBACK is written.
            self._by_name[device].drop()

    def send(self) -> None:
        """All of them, each until it is acknowledged; over as many connections as that takes."""
        frames: dict[int, tuple[str, list[bytes], str]] = {}
        for number in range(COMMANDS):
            name = f"c{number}"
            properties = [pair("command-id", name)]
            if self.dice.random() < 0.2:
                self.retry.add(name)
                properties.append(pair("retry", "yes"))
            if self.dice.random() < 0.1:
                properties.append(b"\x02" + self.dice.randint(1, 3).to_bytes(4, "big"))
            frames[number % 60_000 + 1] = (f"d{number % DEVICES}/x", properties, name)
        waiting = dict(frames)
        while waiting:
            try:
                self._send(waiting)
            except (OSError, AssertionError, TimeoutError):
                time.sleep(0.05)

    def _send(self, waiting: dict[int, tuple[str, list[bytes], str]]) -> None:
        with Plain(self.port, version=5) as sender:
            sender.connect("sender")
            for ids in [list(waiting)[start : start + 50] for start in range(0, len(waiting), 50)]:
                sender.send(
                    b"".join(order(waiting[one][0], waiting[one][2].encode(), one, *waiting[one][1]) for one in ids)
                )
                for _ in ids:
                    got = sender.expect(wire.PUBACK)
                    assert got.reason() < 0x80, got
                    self.accepted.add(waiting.pop(got.packet_id)[2])
                time.sleep(0.02)

    async def flap(self) -> None:
        """Connections break all the time."""
        while self.flapping:
            await asyncio.sleep(0.01)
            self.dice.choice(self.devices).drop()


async def _run(broker: BrokerProcess, crowd: Crowd) -> list[dict[str, Any]]:
    tasks = [asyncio.create_task(device.run()) for device in crowd.devices]
    try:
        await asyncio.wait_for(asyncio.gather(*(device.connected() for device in crowd.devices)), 60)
        tasks.append(asyncio.create_task(crowd.flap()))
        sending = asyncio.create_task(asyncio.to_thread(crowd.send))
        for _ in range(3):
            await asyncio.sleep(crowd.dice.uniform(0.2, 0.8))
            await asyncio.to_thread(broker.restart)
        await asyncio.wait_for(sending, 120)
        await asyncio.sleep(1.0)
        crowd.flapping = False
        for device in crowd.devices:
            device.drop()
        deadline = time.monotonic() + 30 + COMMANDS / 200
        while True:
            found = await asyncio.to_thread(everything, broker)
            if all(one["state"] in FINAL for one in found) or time.monotonic() > deadline:
                await asyncio.sleep(0.5)
                return found
            await asyncio.sleep(0.2)
    finally:
        crowd.flapping = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.timeout(600)
def test_every_command_to_a_crowd_ends_and_none_is_sent_twice(start_broker: StartBroker) -> None:
    """Devices that disconnect before they confirm, reconnect, and kill -9: nothing silent, nothing twice."""
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(1_000_000)))
    broker = start_broker()
    crowd = Crowd(broker.ports["mqtt"], random.Random(seed))
    found = asyncio.run(_run(broker, crowd))
    by_id = {one["id"]: one for one in found}
    states = Counter(one["state"] for one in found)
    repeated = Counter(name for name, count in crowd.came.items() if count > 1)
    print(f"KILL_SEED={seed} commands={COMMANDS} devices={DEVICES} {dict(states)} retried={len(repeated)}")
    assert by_id.keys() == crowd.accepted, "a command that was accepted is nowhere"
    assert len(crowd.accepted) == COMMANDS
    assert {one["state"] for one in found} <= FINAL, states
    assert repeated.keys() <= crowd.retry, f"seed {seed}: sent twice without leave: {repeated.keys() - crowd.retry}"
    lost = [one for one in found if one["state"] == "acked" and not crowd.came[one["id"]]]
    assert not lost, f"seed {seed}: acked, and never came: {lost[:3]}"
    untrue = [one for one in found if one["state"] in ("expired", "failed") and crowd.came[one["id"]]]
    assert not untrue, f"seed {seed}: came, and is said not to have been sent: {untrue[:3]}"
    assert states["acked"] > COMMANDS / 2
    assert states["uncertain"]
