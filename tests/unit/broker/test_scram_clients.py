"""SCRAM over MQTT 5: a login in its packets, and a re-authentication that may not make another user of a client."""

from __future__ import annotations

import base64

import pytest

from iot_mqtt.auth import scram_keys
from iot_mqtt.auth.accounts import Account, Accounts
from iot_mqtt.auth.scram import Scram
from iot_mqtt.codec import Auth, Connack, Disconnect, Properties
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Challenge, ConnectAttempt
from tests.unit.auth.authkit import outcome, start
from tests.unit.auth.test_accounts import Kept
from tests.unit.auth.test_scram import KEYS, Phone
from tests.unit.broker.harness import Client, Node

NAME = "SCRAM-SHA-256"


class Nobody:
    """Nobody guesses here."""

    def may_guess(self, source: str) -> bool:
        return True

    def guessed_wrong(self, source: str) -> None:
        """It does not matter."""


@pytest.fixture
def node() -> Node:
    accounts = Accounts([Kept(Account("user", scram=KEYS), Account("ann", scram=scram_keys.derive(b"pencil")))])
    return Node(methods={NAME: Scram(lambda _: accounts, Nobody(), lambda: b"k" * 32)})


class Wire:
    """Carries a phone's messages in AUTH packets."""

    def __init__(self, client: Client, reason: ReasonCode = ReasonCode.CONTINUE_AUTHENTICATION) -> None:
        self.client, self.reason = client, reason

    async def step(self, data: bytes | None) -> Challenge:
        self.client.send(Auth(self.reason, Properties(authentication_method=NAME, authentication_data=data)))
        self.reason = ReasonCode.CONTINUE_AUTHENTICATION
        return challenge(self.client)


def challenge(client: Client) -> Challenge:
    (auth,) = client.take(Auth)
    assert auth.properties.authentication_method == NAME
    return Challenge(auth.properties.authentication_data or b"")


def final(phone: Phone, client: Client) -> None:
    """Send the proof, and leave the answer to the test."""
    sent: list[bytes] = []

    class Last:
        async def step(self, data: bytes | None) -> Challenge:
            sent.append(data or b"")
            raise StopAsyncIteration

    phone.exchange = Last()
    with pytest.raises(StopAsyncIteration):
        phone.final()
    client.send(
        Auth(
            ReasonCode.CONTINUE_AUTHENTICATION,
            Properties(authentication_method=NAME, authentication_data=sent[0]),
        )
    )


def log_in(node: Node, name: str = "user") -> Client:
    client = node.connect("c", authentication_method=NAME, authentication_data=f"n,,n={name},r=abc".encode())
    phone = Phone(Wire(client), name)
    phone.bare, phone.challenge = f"n={name},r=abc", challenge(client).data.decode()
    phone.nonce, phone.salt, phone.iterations = (part[2:] for part in phone.challenge.split(","))
    final(phone, client)
    return client


def test_a_login_in_its_packets(node: Node) -> None:
    """CONNECT, AUTH, AUTH, CONNACK; the server's signature comes with the last."""
    client = log_in(node)
    (connack,) = client.take(Connack)
    assert connack.reason is ReasonCode.SUCCESS
    assert (connack.properties.authentication_data or b"").startswith(b"v=")
    assert node.session("c").owner == "user"


def test_re_authentication_may_not_make_another_user_of_a_client(node: Node) -> None:
    """As oneself it may be done again and again; as another one it ends the connection, the password right or not."""
    client = log_in(node)
    client.take(Connack)
    for name in ("user", "ann"):
        phone = Phone(Wire(client, ReasonCode.REAUTHENTICATE), name)
        assert isinstance(phone.first(), Challenge)
        final(phone, client)
        if name == "user":
            (auth,) = client.take(Auth)
            assert auth.reason is ReasonCode.SUCCESS
            assert base64.b64decode((auth.properties.authentication_data or b"")[2:])
    (farewell,) = client.take(Disconnect)
    assert farewell.reason is ReasonCode.NOT_AUTHORIZED
    assert client.closed


def test_the_attempt_has_what_the_method_needs(node: Node) -> None:
    """A listener without users by password offers no method."""
    method = Scram(lambda _: None, Nobody(), lambda: b"k" * 32)
    exchange = method.begin(ConnectAttempt("c", None, None, "10.0.0.1:1", "mqtt", 5))
    assert outcome(start(exchange.step(b"n,,n=user,r=abc"))).reason is ReasonCode.BAD_AUTHENTICATION_METHOD  # type: ignore[union-attr]
