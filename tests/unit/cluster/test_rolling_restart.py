"""One node after the other is drained, stopped and started anew while clients publish and receive: nothing is lost."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.app.node.views import join, make_cluster_view
from iot_mqtt.broker.views.cluster_view import ClusterView
from iot_mqtt.codec import Disconnect, Packet
from iot_mqtt.errors import ReasonCode
from tests.seeds import seeds_of
from tests.simulation.brokers import BrokerLife
from tests.simulation.clients import Client, Publisher, Subscriber
from tests.simulation.world import World

NAMES = ("a", "b", "c")


class Obedient(Client):
    """Goes where it is sent, and otherwise anywhere."""

    #: Node names that it was sent to, and why.
    sent: list[tuple[str, ReasonCode]]
    goal: str | None = None

    def take(self, packet: Packet) -> None:
        if isinstance(packet, Disconnect):
            self.goal = packet.properties.server_reference
            self.sent.append((self.goal or "", packet.reason))
        else:
            super().take(packet)

    def go(self) -> None:
        """Connect again, if it is not connected."""
        if self.idle:
            running = {life.name: life for life in self.world.running}
            life = running.get(self.goal or "") or self.world.rng.choice(list(running.values()))
            self.goal = None
            self.connect(life)


class Reader(Obedient, Subscriber):
    """A durable subscriber."""


class Writer(Obedient, Publisher):
    """A publisher."""


class Rolling:
    """Three nodes and their clients."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, NAMES)
        self.views: dict[str, ClusterView] = {}
        for name in NAMES:
            self.world.start(name)
        assert self.world.until(lambda: len(self.world.running) == 3, 15.0)
        for name in NAMES:
            self.open(name)
        self.readers = [Reader(self.world, f"r{number}") for number in range(4)]
        self.writers = [Writer(self.world, f"w{number}") for number in range(4)]
        self.clients: list[Obedient] = [*self.readers, *self.writers]
        for client in self.clients:
            client.sent = []
        self.world.clients = [*self.clients]
        for place, client in enumerate(self.clients):
            client.connect(self.world.lives[NAMES[place % 3]])
        assert self.world.until(lambda: all(one.connected for one in self.clients), 10.0)
        for reader in self.readers:
            reader.subscribe(("t/#", 2))
        assert self.world.until(lambda: all(one.subscribed for one in self.readers), 10.0)

    def life(self, name: str) -> BrokerLife:
        return self.world.lives[name]

    def open(self, name: str) -> None:
        """As ``app.node.service`` does it when the listeners are open."""
        life = self.life(name)
        assert life.broker is not None
        assert life.cluster is not None
        view = self.views[name] = make_cluster_view(life.broker, node_id=name, version="1")
        join(life.broker, view, name, life.cluster, life.registry)
        life.cluster.reachable_at({"embedded": name})

    def work(self, seconds: float) -> None:
        """Clients go on, whatever happens to the nodes."""
        for _ in range(round(seconds * 10)):
            for life in self.world.running:
                if life.cluster is not None and life.broker is not None:
                    life.cluster.show(load=0.0, clients=life.broker.clients.connections.clients)
            for writer in self.writers:
                writer.publish("t/1", self.world.rng.choice((1, 2)))
            for client in self.clients:
                client.go()
            self.world.step(0.1)

    def stop(self, name: str) -> None:
        """As ``app.node.service`` does it: commit, leave the list, end."""
        life = self.life(name)
        assert life.broker is not None
        assert life.cluster is not None
        life.broker.turn.end()
        stopped: list[object] = []
        for coroutine in (life.broker.store.settled(), life.cluster.stop()):
            Deferred.fromCoroutine(coroutine).addCallback(stopped.append)
            before = len(stopped)
            assert stopped or self.world.until(lambda before=before: len(stopped) > before, 10.0)  # type: ignore[misc]
        self.world.end(life)


@pytest.mark.parametrize("seed", seeds_of("rolling restart", 2))
def test_a_rolling_restart_loses_nothing(seed: int) -> None:
    """Every acknowledged message reaches every subscriber once, in order, though every node was restarted."""
    rolling = Rolling(seed)
    world = rolling.world
    rolling.work(1.0)
    for name in NAMES:
        view = rolling.views[name]
        view.drain(2, moved=False)
        here = view.progress().clients
        rolling.work(0.6)
        assert view.progress().clients >= here - 2
        rolling.work(9.0)
        assert view.progress().state == "drained"
        assert view.progress().sent_away == here
        rolling.stop(name)
        rolling.work(1.0)
        world.start(name)
        rolling.work(4.0)
        assert rolling.life(name).ready
        rolling.open(name)
        rolling.work(2.0)
    for writer in rolling.writers:
        writer.leave()
    assert world.until(world.ledger.settled, 30.0)
    world.ledger.close()
    assert all(client.sent for client in rolling.clients)
    assert {reason for client in rolling.clients for _, reason in client.sent} == {ReasonCode.USE_ANOTHER_SERVER}
    assert len([sent for sent in world.ledger.sent.values() if sent.acknowledged]) > 500
    assert world.overs == 0
