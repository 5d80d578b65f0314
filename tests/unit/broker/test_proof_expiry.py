"""A proof that ends: its client is disconnected then, however busy it is, unless it has shown another one."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Auth, Disconnect, Properties
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Challenge, ConnectAttempt, Denied, Exchange, Granted, Principal
from tests.unit.broker.harness import Client, Node


class Passes:
    """Lets everybody in for as many seconds as the user name says."""

    def __init__(self) -> None:
        self.node: Node | None = None

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return self.principal(attempt, attempt.username or "")

    def principal(self, attempt: ConnectAttempt, seconds: str) -> Principal:
        assert self.node is not None
        return Principal(
            attempt.client_id, "ann", expires_at=self.node.clock.wall() + float(seconds) if seconds else None
        )


class Method:
    """The same by enhanced authentication."""

    name = "pass"

    def __init__(self, passes: Passes) -> None:
        self._passes = passes

    def begin(self, attempt: ConnectAttempt) -> Exchange:
        passes = self._passes

        class Once:
            async def step(self, data: bytes | None) -> Challenge | Granted | Denied:
                return Granted(passes.principal(attempt, (data or b"").decode()))

        return Once()


@pytest.fixture
def node() -> Node:
    passes = Passes()
    node = Node(authenticator=passes, methods={"pass": Method(passes)})
    passes.node = node
    return node


def farewell(client: Client) -> list[ReasonCode]:
    return [packet.reason for packet in client.take(Disconnect)]


def test_a_client_goes_when_its_proof_ends(node: Node) -> None:
    """With the reason, whatever it does meanwhile; others stay."""
    client, other = node.connect("c", username="90"), node.connect("d", username="")
    for _ in range(8):
        node.clock.advance(11)
        client.publish("t", b"x")
        assert farewell(client) == []
    node.clock.advance(3)
    assert farewell(client) == [ReasonCode.NOT_AUTHORIZED]
    assert client.closed and not other.closed


def test_nothing_is_left_of_a_client_that_went_before(node: Node) -> None:
    """A fleet that comes and goes leaves no timers behind."""
    node.connect("before", username="").lose()
    before = len(node.wheel)
    clients = [node.connect(f"c{number}", username="1000", keep_alive=0) for number in range(5)]
    assert len(node.wheel) == before + 5
    for client in clients:
        client.lose()
    assert len(node.wheel) == before


def test_another_proof_moves_the_end(node: Node) -> None:
    """Later or sooner: what counts is the last."""
    client = node.connect("c", authentication_method="pass", authentication_data=b"50")
    assert client.connack is not None and client.connack.reason is ReasonCode.SUCCESS

    def again(seconds: bytes) -> None:
        properties = Properties(authentication_method="pass", authentication_data=seconds)
        client.send(Auth(ReasonCode.REAUTHENTICATE, properties))

    again(b"500")
    node.clock.advance(400)
    assert not client.closed
    again(b"5")
    node.clock.advance(6)
    assert farewell(client) == [ReasonCode.NOT_AUTHORIZED]
