"""Users of the grid on a real node: let in once they are added, out within a second, there after a restart."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker, brokers
from systemkit.users import call, delete_user, put_user
from systemkit.waiting import AIR, wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="users are configured differently there")

NOT_AUTHORIZED, BAD_USER_NAME_OR_PASSWORD, QUOTA_EXCEEDED = 0x87, 0x86, 0x97
SETTINGS = {"auth.chain": "[grid]", "listeners.ws.auth_chain": "[anonymous]"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with brokers(tmp_path_factory.mktemp("grid-users")) as start:
        yield start(settings=SETTINGS)


def attempt(broker: BrokerProcess, user: str, password: bytes = b"pw", version: int = 5) -> tuple[int, Plain]:
    client = Plain(broker.ports["mqtt"], version=version)
    client.send(wire.connect(f"as-{user}", version=version, user=user, password=password))
    return client.expect(wire.CONNACK).reason(), client


@pytest.mark.parametrize("how", ["disabled", "deleted"])
@pytest.mark.parametrize("version", [4, 5])
def test_who_is_taken_away_is_disconnected_within_a_second(broker: BrokerProcess, version: int, how: str) -> None:
    """And not let in again."""
    user = f"user-{how}-{version}"
    assert attempt(broker, user)[0] != 0
    put_user(broker, user, new=True, password="pw")
    reason, client = attempt(broker, user, version=version)
    assert reason == 0
    began = time.monotonic()
    if how == "disabled":
        put_user(broker, user, enabled=False)
    else:
        delete_user(broker, user)
    if version == 5:
        assert client.expect(wire.DISCONNECT).reason() == NOT_AUTHORIZED
    client.until_closed()
    assert time.monotonic() - began < 1 + AIR
    assert attempt(broker, user)[0] == BAD_USER_NAME_OR_PASSWORD


def test_users_are_there_after_a_restart(start_broker: StartBroker) -> None:
    """The grid keeps them."""
    broker = start_broker(settings=SETTINGS)
    put_user(broker, "ann", new=True, password="pw", groups=["a"])
    broker.kill()
    broker.start()
    assert attempt(broker, "ann")[0] == 0
    assert call(broker, "GET", "users/ann")[1]["groups"] == ["a"]
    status, found = call(broker, "POST", "auth/explain", {"username": "ann", "password": "pw"})
    assert (status, found["verdict"], found["groups"]) == (200, "allow", ["a"])


def test_limits_of_a_user_hold_for_who_is_in_within_a_second(broker: BrokerProcess) -> None:
    """By clients that nobody here wrote: rate, subscriptions and connections, said while they are connected."""
    put_user(broker, "paho", new=True, password="pw")
    with pahos(broker.ports["mqtt"], "one", "two") as (one, two):
        published(one, 100)
        put_user(broker, "paho", limits={"message_rate": 50, "message_burst": 10, "subscriptions": 0, "connections": 2})
        wait_until(lambda: subscribed(two) == [QUOTA_EXCEEDED], 1 + AIR)
        began = time.monotonic()
        published(one, 60)
        assert 0.8 < time.monotonic() - began < 5 + AIR
        assert attempt(broker, "paho")[0] == QUOTA_EXCEEDED
        put_user(broker, "paho", limits={})
        wait_until(lambda: subscribed(two) == [0], 1 + AIR)
    _, found = call(broker, "POST", "auth/limits", {"user": "paho", "client": "one"})
    assert {one["source"] for one in found["items"]} >= {"mqtt.max_queued_messages"}


@contextmanager
def pahos(port: int, *names: str) -> Iterator[tuple[mqtt.Client, ...]]:
    """Clients of paho's, connected."""
    clients = []
    for name in names:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
        client.username_pw_set("paho", "pw")
        client.connect("127.0.0.1", port)
        client.loop_start()
        clients.append(client)
    try:
        yield tuple(clients)
    finally:
        for client in clients:
            client.disconnect()
            client.loop_stop()


def published(client: mqtt.Client, count: int) -> None:
    """So many messages, each acknowledged."""
    for info in [client.publish("t", b"x", qos=1) for _ in range(count)]:
        info.wait_for_publish(10)


def subscribed(client: mqtt.Client) -> list[int]:
    """What SUBACK says of another filter."""
    answers: list[list[int]] = []

    def answered(*given: Any) -> None:
        answers.append([reason.value for reason in given[3]])

    client.on_subscribe = answered
    client.subscribe(f"t/{uuid.uuid4()}")
    wait_until(lambda: answers)
    return answers[0]
