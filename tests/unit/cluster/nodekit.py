"""Nodes without brokers: ``ClusterNode`` over simulated messaging, a registry in memory and a shared grid."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from iot_mqtt.cluster.joining import Place, enter
from iot_mqtt.cluster.links import LinkSettings
from iot_mqtt.cluster.node import ClusterNode
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.cluster import Claim, Forwarded, Interest
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import Message
from tests.doubles.registry import MemoryEnsemble
from tests.simulation.messaging import FINE, Network, Weather
from tests.simulation.sharedgrid import GridDoor, SharedGrid

T = TypeVar("T")


class Recorder:
    """``ports.cluster.Node`` that writes down what it is told. Sessions are names."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.wanted: dict[str, Interest] = {}
        self.end = 0
        self.entries: list[tuple[Any, ...]] = []
        #: Number → filter → what that peer wants.
        self.peers_want: dict[int, dict[str, Interest]] = {}
        #: Whose logs are read.
        self.followed: set[int] = set()
        self.busy: set[str] = set()
        #: Answers to "release" are held back.
        self.silent = False
        self.fails_to_adopt = 0
        #: Client id → whose its session is, where that matters.
        self.owners: dict[str, str] = {}
        #: What nodes have noted in the grid, and those of which it does not say that now.
        self.noted: dict[int, list[Interest]] = {}
        self.unreadable: set[int] = set()
        #: What a member wants is not known; what sessions here want is not.
        self.doubts = self.unheard_some = self.unread_some = False

    def interest(self) -> Sequence[Interest]:
        return list(self.wanted.values())

    def committed_end(self) -> int:
        return self.end

    def peer_interest(
        self, peer: int, interest: Sequence[Interest], done: Callable[[], None], *, full: bool = False
    ) -> None:
        wants = self.peers_want.setdefault(peer, {})
        if full:
            wants.clear()
        for one in interest:
            if one.none:
                wants.pop(one.filter, None)
            else:
                wants[one.filter] = one
        done()

    def peer_knows(self, peer: int, version: int) -> None:
        self.entries.append(("knows", peer, version))

    def doubt(self, some: bool) -> None:
        self.doubts = some

    def unheard(self, some: bool) -> None:
        self.unheard_some = some

    def unread(self, some: bool) -> None:
        self.unread_some = some

    def follow(self, numbers: Iterable[int]) -> None:
        self.followed.update(numbers)

    def peer_up(self, peer: int) -> None:
        self.entries.append(("up", peer))

    def peer_down(self, peer: int) -> None:
        wants = self.peers_want.setdefault(peer, {})
        self.peers_want[peer] = {name: Interest(name, kept=True) for name, one in wants.items() if one.kept}
        self.entries.append(("down", peer))

    def peer_left(self, peer: int) -> None:
        self.entries.append(("left", peer))

    def peer_started(self, peer: int) -> None:
        self.peer_down(peer)
        self.stream_broken(peer)

    def received(self, peer: int, items: Sequence[Forwarded], end: int) -> None:
        for item in items:
            self.entries.append(("received", peer, item))
        self.entries.append(("end", peer, end))

    def stream_broken(self, peer: int) -> None:
        self.entries.append(("broken", peer))

    def retained(self, peer: int, topic: bytes, message: Message | None, version: int) -> None:
        self.entries.append(("retained", peer, topic, message, version))

    def group_told(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        self.entries.append(("group", peer, kind, name, client_id, tuple(references), question))

    def yields(self, client_id: str, owner: str) -> bool:
        return self.owners.get(client_id, owner) == owner

    def release(self, client_id: str, done: Callable[[bool], None]) -> None:
        if self.silent:
            return
        self.entries.append(("release", client_id))
        if client_id in self.busy:
            done(False)
        else:
            self.sessions.discard(client_id)
            done(True)

    def adopt(self, clients: Collection[str], done: Callable[[bool], None]) -> None:
        self.entries.append(("adopt", tuple(sorted(clients))))
        if self.fails_to_adopt:
            self.fails_to_adopt -= 1
            done(False)
        else:
            self.sessions.update(clients)
            done(True)

    def recall(self, number: int, done: Callable[[Sequence[Interest] | None], None]) -> None:
        self.entries.append(("recall", number))
        done(None if number in self.unreadable else self.noted.get(number, []))

    def node_gone(self, number: int) -> None:
        self.entries.append(("gone", number))

    def told(self, *what: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.entries if entry[0] in what]


class Life:
    """One life of one node."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.messaging = world.network.join(name)
        self.clock = self.messaging.clock
        self.door = GridDoor(world.grid, self.clock)
        self.registry = world.ensemble.registry(name)
        self.node = Recorder()
        self.place: Place | None = None
        self.over: list[str] = []
        self.suspended: list[bool] = []
        self._cluster: ClusterNode | None = None

    async def start(self, *, load: bool = True) -> None:
        place = self.place = await enter(self.door, self.name)
        cluster = self._cluster = ClusterNode(
            place,
            version="1",
            grid=self.door,
            registry=self.registry,
            messaging=self.messaging,
            clock=self.clock,
            settings=self.world.settings,
            rng=self.world.rng,
        )
        self.door.on_fenced = cluster.end_life
        cluster.on_life_over = self.over.append
        cluster.on_suspended = self.suspended.append
        cluster.attach(self.node)
        self.node.sessions.update(await cluster.start())
        if load:
            cluster.loaded()

    @property
    def cluster(self) -> ClusterNode:
        assert self._cluster is not None
        return self._cluster

    @property
    def number(self) -> int:
        assert self.place is not None
        return self.place.number

    def begin_claim(self, client_id: str, owner: str | None = None) -> list[tuple[Claim, str]]:
        """Fills with the answer, when it comes."""
        answers: list[tuple[Claim, str]] = []

        def done(claim: Claim, why: str) -> None:
            if claim not in (Claim.REFUSED, Claim.FOREIGN):
                self.node.sessions.add(client_id)
            answers.append((claim, why))

        self.cluster.claim(client_id, done, owner=owner)
        return answers

    def claim(self, client_id: str, within: float = 20.0, owner: str | None = None) -> Claim:
        """The answer, however long it takes."""
        answers = self.begin_claim(client_id, owner)
        self.world.until(lambda: bool(answers), within)
        return answers[0][0]

    def want(self, *interest: Interest) -> int:
        self.node.wanted.update({one.filter: one for one in interest})
        for one in interest:
            if one.none:
                del self.node.wanted[one.filter]
        version = self.cluster.changed(interest)
        self.cluster.flush()
        return version


class World:
    """Some nodes, and what is between them."""

    def __init__(
        self, *names: str, seed: int = 0, weather: Weather = FINE, settings: ClusterSettings | None = None
    ) -> None:
        self.clock = ManualClock()
        self.rng = random.Random(seed)
        self.network = Network(self.clock, self.rng, weather)
        self.ensemble = MemoryEnsemble(self.clock, session_timeout=6.0, latency=0.01)
        self.grid = SharedGrid(self.clock, self.rng)
        self.settings = settings or ClusterSettings(links=LinkSettings(tick=0.1))
        self.lives: dict[str, Life] = {}
        for name in names:
            self.start(name)

    def __getitem__(self, name: str) -> Life:
        return self.lives[name]

    def start(self, name: str) -> Life:
        """Another life of a node, begun and in the list."""
        life = self.begin(name)
        self.run(life.start())
        self.pass_time(0.5)
        return life

    def begin(self, name: str) -> Life:
        """Another life of a node, which has done nothing yet."""
        life = self.lives[name] = Life(self, name)
        return life

    def kill(self, name: str) -> None:
        """As with SIGKILL: the list has it until its session there runs out."""
        self.network.kill(name)
        self.ensemble.pause(name)

    def pause(self, name: str) -> None:
        self.network.pause(name)
        self.ensemble.pause(name)

    def resume(self, name: str) -> None:
        self.ensemble.heal(name)
        self.network.resume(name)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def until(self, condition: Callable[[], bool], within: float = 20.0) -> None:
        end = self.clock.monotonic() + within
        while not condition():
            assert self.clock.monotonic() < end, f"not within {within} seconds"
            self.clock.advance(0.01)

    def until_fenced(self, name: str) -> None:
        self.until(lambda: bool(self.grid.fenced.get(self[name].number)), 10.0)

    def run(self, coroutine: Coroutine[Any, Any, T], within: float = 20.0) -> T:
        results: list[T] = []
        failures: list[BaseException] = []
        running = Deferred.fromCoroutine(coroutine)
        running.addCallbacks(results.append, lambda failure: failures.append(failure.value))
        self.until(lambda: bool(results or failures), within)
        if failures:
            raise failures[0]
        return results[0]

    def owners(self, client_id: str) -> list[str]:
        """Living nodes that have the client in memory."""
        return [
            name
            for name, life in self.lives.items()
            if name in self.network.nodes and not life.over and client_id in life.node.sessions
        ]

    def home(self, client_id: str) -> int | None:
        """By its channel record: the node's number."""
        record = self.record(client_id)
        return None if record is None else record[1]

    def record(self, client_id: str) -> bytes | None:
        return self.grid.entries(CacheName.CHANNELS).get(client_id.encode())
