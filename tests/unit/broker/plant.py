"""Nodes of a simulated world that are there, a publisher, and durable subscribers: for what takes two of them."""

from __future__ import annotations

from tests.simulation.clients import Publisher, Subscriber
from tests.simulation.world import World


class Plant(World):
    """Nodes that are there, a publisher, and durable subscribers."""

    def __init__(self, *names: str) -> None:
        super().__init__(0, names)
        self.publisher = Publisher(self, "p")
        self.clients = [self.publisher]
        for name in names:
            self.start(name)
        self.await_nodes()

    def await_nodes(self) -> None:
        assert self.until(lambda: len(self.running) == len(self.names), 20.0), self.failed_starts

    def again(self, name: str) -> None:
        super().again(name)
        self.await_nodes()

    def enter(self, name: str, node: str) -> Subscriber:
        """A client that is connected there."""
        found = [one for one in self.clients if one.name == name]
        client = found[0] if found else Subscriber(self, name)
        assert isinstance(client, Subscriber)
        if not found:
            self.clients.append(client)
        client.connect(self.lives[node])
        assert self.until(lambda: client.connected, 15.0)
        return client

    def subscriber(self, name: str, node: str, filter: str = "t/#") -> Subscriber:
        """One that has its SUBACK."""
        client = self.enter(name, node)
        client.subscribe((filter, 2))
        assert self.until(lambda: filter in client.subscribed, 10.0)
        return client

    def publish(self, node: str, count: int = 5, topic: str = "t/a") -> None:
        """Acknowledged messages."""
        self.publisher.connect(self.lives[node])
        assert self.until(lambda: self.publisher.connected, 15.0)
        for _ in range(count):
            self.publisher.publish(topic, 1)
        assert self.until(lambda: all(one.acknowledged for one in self.ledger.sent.values()), 10.0)

    def leave_for_good(self, name: str) -> None:
        """And be cleaned up after."""
        self.names = tuple(one for one in self.names if one != name)
        self.gone.add(name)
        self.kill(name)
        self.wait(20.0)

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.step(0.1)

    def settle(self) -> None:
        """Everybody has what is owed, and nothing comes that is not."""
        self.until(self.ledger.settled, 20.0)
        self.wait(2.0)
        self.ledger.close()

    def came(self, name: str) -> int:
        return self.ledger.accounts[name].came.total()
