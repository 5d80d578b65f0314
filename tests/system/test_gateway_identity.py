"""Who is a gateway, and whose readings are whose: users and rules at the gateway port, forged readings over MQTT."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from systemkit import wire
from systemkit.access import enter, password_of, set_password
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers
from systemkit.waiting import wait_until

from iot_mqtt.custom_protocols.gateway import client
from iot_mqtt.custom_protocols.gateway.wire import Code, Type

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no gateways")

NOT_AUTHORIZED = 0x87
USERS = ("plant", "bob", "carol", "boss")
RULES = """\
[user plant]
allow gateway   line-*
allow all       up/#
allow subscribe down/#

# may publish there and nowhere else; nobody wrote which names are his
[user bob]
allow publish   up/own/#
allow subscribe down/own/#

[user carol]
allow gateway   carol-*
allow all       up/#
allow subscribe down/#

[user boss]
allow publish   down/#
allow subscribe status/#
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with users, rules and an uplink into files."""
    folder = tmp_path_factory.mktemp("identity")
    for user in USERS:
        set_password(folder / "users", user, password_of(user))
    (folder / "acl").write_text(RULES)
    settings = {
        "auth.users_file": folder / "users",
        "auth.acl_file": folder / "acl",
        "auth.allow_anonymous": "false",
        "uplink.kind": "file",
        "uplink.file.rotate_seconds": 0.2,
        "devices.seen_interval": 1,
    }
    with brokers(folder) as start:
        yield start(settings=settings)


class Gateway:
    """One connection to the gateway port, on which a login was sent."""

    def __init__(self, broker: BrokerProcess, name: str, user: str, secret: str | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.ports["gateway"]), timeout=5)
        host, port = self.socket.getsockname()
        self.address = f"{host}:{port}"
        self._inbox = client.Inbox()
        self._came: list[client.Message] = []
        secret = password_of(user) if secret is None else secret
        self.socket.sendall(client.login(name, user=user, secret=secret.encode(), heartbeat=30))

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def receive(self) -> client.Message | None:
        """The next message; None once the broker has closed."""
        while not self._came:
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._came += self._inbox.feed(data)
        return self._came.pop(0)

    def let_in(self) -> Gateway:
        answer = self.receive()
        assert isinstance(answer, client.LoginAnswer) and answer.code is Code.WELCOME, answer
        return self

    def refused(self) -> str:
        """Why; and the connection is closed."""
        answer = self.receive()
        assert isinstance(answer, client.LoginAnswer) and answer.code is Code.REFUSED, answer
        assert self.receive() is None
        return answer.detail

    def post(self, number: int, device: str = "press") -> None:
        """One reading, and wait until it is safe."""
        self.socket.sendall(client.data([(device, [("temp", Type.U32, number)])], sequence=number, wants_ack=True))
        assert self.receive() == client.Ack(number)


def command(broker: BrokerProcess, target: str, body: bytes) -> None:
    boss = enter(broker, "boss", "boss")
    boss.publish(f"down/{target}", body, qos=1, packet_id=1)
    boss.expect(wire.PUBACK)
    boss.disconnect()


def devices(broker: BrokerProcess) -> dict[str, dict[str, Any]]:
    """What ``devices list`` shows, by target."""
    token = (broker.data_dir / "admin.token").read_text().strip()
    page = json.loads(broker.http("/api/v1/devices?limit=1000", token=token))
    return {"/".join(name for name in (one["gateway"], one["device"]) if name): one for one in page["items"]}


def records(broker: BrokerProcess) -> list[dict[str, Any]]:
    """What the uplink has written."""
    paths = sorted((broker.data_dir / "uplink").glob("*/dt=*/[!.]*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


# Readings.


def forged(gateway: str, number: int) -> dict[str, Any]:
    """Just what a codec would have made."""
    return {
        "id": f"{gateway}/press/{number}",
        "node": "node-1",
        "gateway": gateway,
        "device": "press",
        "ts": 1_790_000_000_000,
        "ingest_ts": 1_790_000_000_000,
        "seq": number,
        "values": {"temp": 999},
        "codec": "gateway/1",
        "schema": 1,
    }


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto's clients are not installed")
def test_a_reading_is_what_a_codec_made_and_not_what_looks_like_one(broker: BrokerProcess) -> None:
    """Bob may publish to up/own/# only, and calls himself line-7: what he writes is a message of his."""
    words = ["mosquitto_pub", "-p", str(broker.ports["mqtt"]), "-V", "mqttv5", "-i", "line-7", "-u", "bob"]
    words += ["-P", password_of("bob"), "-t", "up/own/press", "-D", "publish", "user-property", "gateway", "line-7"]
    for number, more in enumerate((["-q", "0"], ["-q", "1", "-r"], ["-q", "2"])):
        subprocess.run([*words, *more, "-m", json.dumps(forged("line-7", number))], check=True, timeout=10)
    with Gateway(broker, "line-8", "plant").let_in() as real:
        for number in range(1, 4):
            real.post(number)
    wait_until(lambda: len([one for one in records(broker) if one.get("gateway") == "line-8"]) == 3)
    wait_until(lambda: len([one for one in records(broker) if one.get("client") == "line-7"]) == 3)
    found = records(broker)
    assert [one for one in found if one.get("gateway") == "line-7"] == []
    for one in found:
        if one.get("client") == "line-7":
            assert one["user"] == "bob" and one["topic"] == "up/own/press" and "device" not in one
            assert one["payload"]["values"] == {"temp": 999}
    assert [one["values"]["temp"] for one in found if one.get("gateway") == "line-8"] == [1, 2, 3]


def test_a_gateways_own_user_makes_no_readings_over_mqtt(broker: BrokerProcess) -> None:
    """Not even the right client id, user and topic make a reading of what no codec made."""
    with Gateway(broker, "line-6", "plant").let_in() as real:
        real.post(1)
    plant = enter(broker, "plant", "line-6")
    plant.publish("up/line-6/press", json.dumps(forged("line-6", 2)).encode(), qos=1, packet_id=1)
    plant.expect(wire.PUBACK)
    plant.disconnect()
    wait_until(lambda: any(one.get("client") == "line-6" for one in records(broker)))
    readings = [one for one in records(broker) if one.get("gateway") == "line-6"]
    assert [one["seq"] for one in readings] == [1]
