"""A gateway's end of one connection, for tests that ask who may be which gateway."""

from __future__ import annotations

import socket

from iot_mqtt.custom_protocols.gateway.wire import Code, Type
from systemkit.access import password_of
from systemkit.process import BrokerProcess
from tests.doubles import gateway as client


class Gateway:
    """One connection to the gateway port, on which a login was sent."""

    def __init__(
        self, broker: BrokerProcess, name: str, user: str, secret: str | None = None, heartbeat: int = 30
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.ports["gateway"]), timeout=10)
        host, port = self.socket.getsockname()
        self.address = f"{host}:{port}"
        self._inbox = client.Inbox()
        self._came: list[client.Message] = []
        secret = password_of(user) if secret is None else secret
        self.socket.sendall(client.login(name, user=user, secret=secret.encode(), heartbeat=heartbeat))

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

    def ordered(self) -> client.Ordered:
        """The next message, which must be a command."""
        got = self.receive()
        assert isinstance(got, client.Ordered), got
        return got

    def send(self, number: int, device: str = "press") -> None:
        """One reading, which wants to be acknowledged."""
        self.socket.sendall(client.data([(device, [("temp", Type.U32, number)])], sequence=number, wants_ack=True))

    def post(self, number: int, device: str = "press") -> None:
        """One reading, and wait until it is safe."""
        self.send(number, device)
        assert self.receive() == client.Ack(number)
