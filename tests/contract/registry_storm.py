"""Random trouble for registered nodes, and what must hold all the time."""

from __future__ import annotations

import random
from functools import partial

from twisted.python.failure import Failure

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.registry import Lease, RegistryState
from tests.contract.registrykit import CONNECTED, LOST, Bench, Node, member

#: Steps of a storm at least, and at most; it ends between them when leases were taken often enough to say something.
FEWEST_STEPS = 40
MOST_STEPS = 400
ENOUGH_LEASES = 4


class Storm:
    """Each node registers again when it is lost, as a broker does."""

    def __init__(self, bench: Bench, nodes: list[Node]) -> None:
        self.bench = bench
        self.nodes = nodes
        self.boots = dict.fromkeys((node.node_id for node in nodes), 1)
        self.leases: list[Lease] = []
        self.greatest = 0
        self.taken_in_all = 0
        #: Whoever was asked and has not answered may yet come to hold it.
        self.open = 0
        self.wrong: list[Failure] = []
        for node in nodes:
            node.registry.on_state = partial(self.on_state, node)

    def on_state(self, node: Node, state: RegistryState) -> None:
        if state is LOST:
            self.register(node)

    def register(self, node: Node) -> None:
        self.boots[node.node_id] += 1
        call = node.registry.register(member(node.node_id, self.boots[node.node_id]))
        self.bench.driver.start(call).addErrback(partial(self.failed, node)).addErrback(self.wrong.append)

    def failed(self, node: Node, failure: Failure) -> None:
        """The session ended before it was in the list: the caller's to try again."""
        failure.trap(Unavailable)
        self.register(node)

    def take(self, node: Node) -> None:
        self.open += 1
        asked = self.bench.driver.start(node.registry.acquire("x"))
        asked.addCallback(self.taken).addErrback(self.wrong.append).addBoth(self.answered)

    def answered(self, _: object) -> None:
        self.open -= 1

    def taken(self, lease: Lease | None) -> None:
        if lease is not None and lease.held:
            self.taken_in_all += 1
            self.check()
            assert lease.number > self.greatest
            self.greatest = lease.number
            self.leases.append(lease)
            self.check()

    def check(self) -> None:
        assert not self.wrong
        self.leases = [lease for lease in self.leases if lease.held]
        assert len(self.leases) <= 1

    def rage(self, random: random.Random) -> None:
        before = self.taken_in_all
        for step in range(MOST_STEPS):
            if step >= FEWEST_STEPS and self.taken_in_all - before >= ENOUGH_LEASES:
                return
            node = random.choice(self.nodes)
            action = random.choice(("cut", "mend", "mend", "take", "take", "release"))
            if action == "cut":
                self.bench.suspend(node.node_id)
            elif action == "mend":
                self.bench.heal(node.node_id)
            elif action == "take":
                for one in random.sample(self.nodes, len(self.nodes)):
                    self.take(one)
            else:
                for lease in self.leases:
                    lease.release()
            self.bench.driver.pass_time(random.choice((0.0, 0.05, 0.1, 0.2, 0.4)) * self.bench.session_timeout)
            self.check()
        raise AssertionError(f"{self.taken_in_all - before} leases were taken in {MOST_STEPS} steps")

    def calm(self) -> None:
        for node in self.nodes:
            self.bench.heal(node.node_id)
        driver = self.bench.driver
        driver.until(lambda: all(node.registry.state is CONNECTED for node in self.nodes))
        driver.until(lambda: all(node.boots == self.boots for node in self.nodes))
        driver.until(lambda: not self.open)
        for lease in self.leases:
            lease.release()
        assert not any(lease.held for lease in self.leases)
        found: list[Lease | None] = []

        def free() -> bool:
            found.append(self.nodes[0].acquire("x"))
            return found[-1] is not None

        driver.until(free)
        last = found[-1]
        assert last is not None
        self.taken(last)
        last.release()
