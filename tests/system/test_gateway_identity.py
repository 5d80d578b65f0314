"""Who is a gateway, and whose readings are whose: users and rules at the gateway port, forged readings over MQTT."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from systemkit import wire
from systemkit.access import attempt, enter, password_of
from systemkit.forking import clean_environment
from systemkit.gateways import Gateway
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import brokers
from systemkit.waiting import wait_until

from iot_mqtt.auth.passwd import set_password
from tests.doubles import gateway as client

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
        set_password(str(folder / "users"), user, password_of(user).encode())
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


# Names.


def test_another_user_does_not_get_a_gateway_and_the_real_one_does_not_notice(broker: BrokerProcess) -> None:
    """Bob logs in as line-9: he is refused, it is written down, and the next command goes to the real one."""
    with Gateway(broker, "line-9", "plant").let_in() as real:
        with Gateway(broker, "line-9", "bob") as thief:
            assert thief.refused() == "not_authorized"
        command(broker, "line-9/press", b'{"speed": 3}')
        got = real.receive()
        assert isinstance(got, client.Ordered) and got.body == b'{"speed": 3}'
        real.post(1)
    said = next(line for line in broker.log_text().splitlines() if "line-9" in line and "refused" in line)
    assert "bob" in said and thief.address in said, said


def test_a_user_is_only_the_gateways_that_the_rules_allow(broker: BrokerProcess) -> None:
    """A name that nobody has yet is refused where the rules say so, as a wrong password is."""
    with Gateway(broker, "line-free", "carol") as other:
        assert other.refused() == "not_authorized"
    with Gateway(broker, "carol-1", "carol", secret="wrong") as wrong:
        assert wrong.refused() == "bad_user_name_or_password"
    with Gateway(broker, "carol-1", "") as nobody:
        assert nobody.refused() == "not_authorized"
    with Gateway(broker, "carol-1", "carol") as own:
        own.let_in()


def test_a_gateways_name_is_no_client_id_for_others_and_the_other_way_round(broker: BrokerProcess) -> None:
    """Both are names of sessions: what one user has on one port, another does not get on the other."""
    with Gateway(broker, "line-3", "plant").let_in() as real:
        thief, answer = attempt(broker, "bob", "line-3", version=5)
        assert answer.reason() == NOT_AUTHORIZED
        thief.sock.close()
        real.post(1)
    client_id = "bobs-own"
    bob = Plain(broker.ports["mqtt"], version=5)
    expiry = b"\x11" + (60).to_bytes(4, "big")
    bob.send(wire.connect(client_id, version=5, user="bob", password=password_of("bob").encode(), properties=expiry))
    assert bob.expect(wire.CONNACK).reason() == 0
    with Gateway(broker, client_id, "plant") as other:
        assert other.refused() == "not_authorized"
    bob.ping()
    bob.disconnect()


def test_who_was_not_let_in_is_not_among_the_devices(broker: BrokerProcess) -> None:
    """A refused login leaves nothing, whatever it called itself."""
    name = "<img src=x onerror=alert(1)>"
    with Gateway(broker, "line-4", "plant").let_in() as real:
        real.post(1)
        for number in range(5):
            with Gateway(broker, f"{name}{number}", "carol", secret="wrong") as bad:
                bad.refused()
        wait_until(lambda: "line-4/press" in devices(broker))
    assert [found for found in devices(broker) if "<img" in found] == []


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
        subprocess.run([*words, *more, "-m", json.dumps(forged("line-7", number))], check=True, timeout=50)
    will = ("up/own/press", json.dumps(forged("line-7", 3)).encode(), 1, False)
    dying, answer = attempt(broker, "bob", "line-7", version=5, will=will)
    assert answer.reason() == 0
    dying.sock.close()
    with Gateway(broker, "line-8", "plant").let_in() as real:
        for number in range(1, 4):
            real.post(number)
    wait_until(lambda: len([one for one in records(broker) if one.get("gateway") == "line-8"]) == 3)
    wait_until(lambda: len([one for one in records(broker) if one.get("client") == "line-7"]) == 4)
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


# What is said of them.


def test_devices_are_online_while_they_post_and_clients_that_take_commands_are_devices(broker: BrokerProcess) -> None:
    """Who is behind a gateway is online with it; an MQTT device is from its subscription on, until it is gone."""
    with Gateway(broker, "line-5", "plant").let_in() as real:
        real.post(1)
        plant = Plain(broker.ports["mqtt"], version=5)
        expiry = b"\x11" + (60).to_bytes(4, "big")
        word = password_of("plant").encode()
        plant.send(wire.connect("press-7", version=5, user="plant", password=word, properties=expiry))
        assert plant.expect(wire.CONNACK).reason() == 0
        plant.subscribe(("down/press-7/#", 1))
        wait_until(lambda: "line-5/press" in devices(broker) and "press-7" in devices(broker))
        found = devices(broker)
        assert [found[name]["online"] for name in ("line-5", "line-5/press", "press-7")] == [True, True, True]
        assert (found["press-7"]["codec"], found["press-7"]["version"]) == ("mqtt", "5.0")
        told = ctl(broker, "why", "line-5")
        assert "codec gateway" in told and "MQTT" not in told
        plant.disconnect()
    wait_until(lambda: not devices(broker)["line-5/press"]["online"])
    wait_until(lambda: not devices(broker)["press-7"]["online"])


def ctl(broker: BrokerProcess, *words: str) -> str:
    """What an operator reads."""
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), *words]
    return subprocess.run(
        command, env=clean_environment(), check=True, capture_output=True, text=True, timeout=50
    ).stdout
