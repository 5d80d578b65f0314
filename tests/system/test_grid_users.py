"""Users of the grid on a real node: let in once they are added, out within a second, there after a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker, brokers
from systemkit.users import call, delete_user, put_user

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="users are configured differently there")

NOT_AUTHORIZED, BAD_USER_NAME_OR_PASSWORD = 0x87, 0x86
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
    assert time.monotonic() - began < 1
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
