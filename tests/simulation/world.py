"""A world of brokers, clients and trouble, all of it by one seed and one clock."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import inf
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.departures import GONE, HERE, NOTICE, TOPIC
from iot_mqtt.cluster.links import LinkSettings
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.grid.marks import read_mark
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import CacheName
from tests.doubles.registry import MemoryEnsemble
from tests.simulation.brokers import BrokerLife
from tests.simulation.clients import Client
from tests.simulation.doors import Door, IgniteDoor, MapDoor
from tests.simulation.ignite.servers import Servers
from tests.simulation.ledger import LATE, Broken, Ledger, Sent
from tests.simulation.messaging import HELD_UP, Network, SimulatedMessaging, Weather
from tests.simulation.platform import Platform
from tests.simulation.sharedgrid import SharedGrid

SETTINGS = ClusterSettings(
    release_timeout=8.0,
    sweep=6.0,
    first_sweep=2.0,
    absent_grace=3.0,
    linger=4.0,
    known_within=2.0,
    links=LinkSettings(tick=0.1, silence=1.5, gap_after=1.0),
)
#: Seconds until a node that has died, or whose life is over, begins anew.
AGAIN = 1.0
#: Seconds until links that are whole again have brought what they lost.
REPAIR = 3.0


class World:
    """Nodes by name; a node has one life after the other."""

    #: What a node's lives are.
    life_of: ClassVar[type[BrokerLife]] = BrokerLife

    def __init__(
        self,
        seed: int,
        names: tuple[str, ...],
        tell: Callable[[str], None] | None = None,
        *,
        served: bool = False,
        disks: bool = False,
        lie: bool = False,
        told: bool = False,
        busy: bool = False,
        platform: bool = False,
        waits: bool = False,
        hopping: bool = False,
    ) -> None:
        self.seed = seed
        #: Gateways tell whose connections begin and end.
        self.told = told
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.network = Network(self.clock, self.rng, Weather((0.001, 0.003)))
        self.network.busy = busy
        self.ensemble = MemoryEnsemble(self.clock, session_timeout=5.0, latency=0.01)
        #: What the nodes share is at servers, or it is one map: that is faster, and never wrong.
        self.servers = Servers(self.clock, self.rng, lie=lie, disks=disks) if served else None
        self._map = SharedGrid(self.clock, self.rng, random.Random(seed) if seed % 2 else None)
        self.settings = SETTINGS
        #: Where what the rules of the uplink match goes; None: nothing does.
        self.platform = Platform(self.clock, random.Random(f"{seed}/platform"), waits=waits) if platform else None
        #: How long what QoS 1 changes of a session may be unwritten.
        self.progress_delay = (0.1, 1.0, 0.0)[seed % 3]
        #: Everybody goes from node to node. Subscribers take little at once, so that they are behind, and a turn has
        #: no effort left for topics that are new: what is published to these is served one by one, not together.
        self.hopping = hopping
        # Its publisher's node may have been held up before it had read it, and the reader's before it sent it.
        self.ledger = Ledger(LATE + 2 * HELD_UP[1] if busy else LATE)
        #: Nodes that are to be there.
        self.names = names
        #: Those that have left for good.
        self.gone: set[str] = set()
        self.lives: dict[str, BrokerLife] = {}
        #: Every life that there was, the present ones among them.
        self.all_lives: list[BrokerLife] = []
        self.clients: list[Client] = []
        self._tell = tell
        self.starts = self.overs = 0
        self.failed_starts: list[BaseException] = []
        if self.servers is not None:
            self.servers.trace = self.trace

    def door(self, end: SimulatedMessaging) -> Door:
        """A node's, for one life."""
        if self.servers is None:
            return MapDoor(self._map, end)
        return IgniteDoor(self.servers, end, self.network.carry, random.Random(self.rng.random()))

    @property
    def fenced(self) -> dict[int, int]:
        """Number of a node → the greatest boot of which nothing is written any more."""
        return self._map.fenced if self.servers is None else self.servers.fenced

    @property
    def kept_out(self) -> int:
        """Attempts of fenced lives to go on."""
        return self._map.kept_out if self.servers is None else self.servers.kept_out

    def entries(self, cache: CacheName) -> dict[bytes, bytes]:
        """All of a cache."""
        if self.servers is None:
            return self._map.entries(cache)
        return dict(self.servers.entries(name_of(cache), b"", None, 1 << 30))

    def trace(self, text: str) -> None:
        if self._tell is not None:
            self._tell(f"{self.clock.monotonic() - 1000.0:9.3f}  {text}")

    def tell_act(self, act: object) -> None:
        if self._tell is not None:
            self._tell(f"{self.clock.monotonic() - 1000.0:9.3f}  -- {act}")

    def acknowledged(self, sent: Sent) -> None:
        """A publisher has been told that it is safe."""
        self.ledger.acknowledges(sent)
        if self.platform is not None:
            self.platform.acknowledged(sent)

    # Nodes.

    def start(self, name: str) -> None:
        """Another life."""
        self.starts += 1
        life = self.lives[name] = self.life_of(self, name)
        self.all_lives.append(life)
        self.trace(f"{name} starts")
        starting = Deferred.fromCoroutine(life.start())
        starting.addCallbacks(
            lambda _: self.trace(f"{name} is ready: {life.place}"), lambda why: self._failed(life, why)
        )

    def _failed(self, life: BrokerLife, failure: Failure) -> None:
        self.trace(f"{life.name} cannot start: {failure.value}")
        if not life.ended:
            self.failed_starts.append(failure.value or Exception("it did not say why"))
            self.end(life)
            self.clock.call_later(AGAIN, lambda: self.again(life.name))

    def over(self, life: BrokerLife, reason: str) -> None:
        """A node says that its life is over: it drops its clients and begins a new one."""
        self.overs += 1
        self.trace(f"{life.name}: life {life.place} is over: {reason}")
        self.clock.call_later(0.0, lambda: self._over(life))

    def _over(self, life: BrokerLife) -> None:
        if not life.ended:
            self.end(life)
            self.clock.call_later(AGAIN, lambda: self.again(life.name))

    def end(self, life: BrokerLife) -> None:
        life.ended = True
        self._tell_life(GONE, life)
        life.door.hang_up()
        self.network.kill(life.name)
        self.ensemble.pause(life.name)

    def break_flow(self, life: BrokerLife) -> None:
        """Its connection breaks; where there are servers, it makes another by itself."""
        self._tell_life(GONE, life)
        life.connections += 1
        life.door.break_flow()
        if self.servers is not None:
            self.clock.call_later(0.1, lambda: None if life.ended else self._tell_life(HERE, life))

    def restore_flow(self, life: BrokerLife) -> None:
        self._tell_life(HERE, life)
        life.door.restore_flow()

    def _tell_life(self, kind: int, life: BrokerLife) -> None:
        if self.told and life.place is not None:
            payload = NOTICE.pack(kind, life.place.number, life.place.boot, life.connections)
            self.network.tell(TOPIC, payload)

    def again(self, name: str) -> None:
        if self.lives[name].ended and name not in self.gone:
            self.start(name)

    def kill(self, name: str) -> None:
        if not self.lives[name].ended:
            self.trace(f"{name} is killed")
            self.end(self.lives[name])

    def stop(self, life: BrokerLife) -> None:
        """As with SIGTERM."""
        self.trace(f"{life.name} stops")
        life.ready = False
        stopping = Deferred.fromCoroutine(life.stop())
        stopping.addErrback(lambda failure: self.trace(f"{life.name} could not stop well: {failure.value}"))
        stopping.addBoth(lambda _: self.end(life) if not life.ended else None)

    def pause(self, name: str) -> None:
        life = self.lives[name]
        if not life.ended and not life.paused:
            self.trace(f"{name} is paused")
            life.paused = True
            self.ledger.stands_still(name, self.clock.monotonic())
            self.network.pause(name)
            self.ensemble.pause(name)

    def resume(self, name: str) -> None:
        life = self.lives[name]
        if life.paused and not life.ended:
            self.trace(f"{name} goes on")
            life.paused = False
            self._unsure(name)
            if self.rng.random() < 0.5:
                self.ensemble.heal(name)
                if not life.ended:
                    self.network.resume(name)
            else:
                self.network.resume(name)
                if not life.ended:
                    self.ensemble.heal(name)

    def disturb(self, *, kill: float, pause: float, part: float, heal: float, stop: float = 0.0) -> None:
        """For random walks: the trouble of one node ends, or some begins, each kind with so much chance; else there is
        none for a while.
        """
        name, other = self.rng.sample(self.names, 2)
        life, what = self.lives[name], self.rng.random()
        if life.ended:
            self.again(name)
        elif life.paused:
            self.resume(name)
        elif what < kill:
            self.kill(name)
        elif what < kill + stop:
            self.stop(life)
        elif what < kill + stop + pause:
            self.pause(name)
        elif what < kill + stop + pause + part:
            self.network.part(name, other)
        elif what < kill + stop + pause + part + heal:
            self.network.heal()
        else:
            self.wait(12.0)

    @property
    def running(self) -> list[BrokerLife]:
        return [life for life in self.lives.values() if not life.ended and not life.paused and life.ready]

    # Time.

    def step(self, seconds: float) -> None:
        """Time passes, clients read what has come, and nobody is in two places."""
        self.clock.advance(seconds)
        if self.network.skews:
            self.ledger.rough_until = inf
        elif self.network.rough or any(self.ensemble.away(life.name) for life in self.running):
            # Whoever does not see the registry does not know that a log has ended.
            self.ledger.rough_until = max(self.ledger.rough_until, self.clock.monotonic() + REPAIR)
        for life in self.running:
            if life.hurried():
                # What a log gives no answer for is not waited for without end.
                self._unsure(life.name)
        for client in self.clients:
            client.poll()
        self.check_owners()
        self.check_figures()

    def _unsure(self, name: str) -> None:
        self.ledger.unsure_until[name] = self.clock.monotonic() + REPAIR

    def wait(self, seconds: float) -> None:
        """The same for longer; clients read meanwhile."""
        while seconds > 0:
            self.step(min(seconds, 0.5))
            seconds -= 0.5

    def leave(self) -> None:
        """The story is over; what is asked about it is asked before."""
        for life in self.all_lives:
            life.clock.leave()

    def check_figures(self) -> None:
        """Each node can say what became of each message."""
        for life in self.all_lives:
            if not life.ended and life.unexplained:
                raise Broken(f"figures: {life.name} {life.place} cannot explain {life.unexplained} messages")

    def check_sums(self) -> None:
        """All nodes together, over all their lives: what one handed over with sessions others have taken over, or have
        it counted again. Where no life has ended nothing was found of which nobody knew how much it should be. A node
        and the server that wrote for it may go in the middle of a batch: then it has marked what it did not hand over,
        or the other way round.
        """
        accounts = {
            life.place.number: life.ledger.account for life in self.lives.values() if not life.ended and life.place
        }
        for key, record in self.entries(CacheName.META).items():
            if key.startswith(b"identity/"):
                accounts.setdefault(int(key[9:]), read_mark(json.loads(record)).account)
        moving = sum(one.passed_on - one.taken_over for one in accounts.values())
        found = sum(one.found for one in accounts.values())
        torn = self.servers is not None and self.servers.unfinished
        if (moving and not torn) or (found and not any(life.ended for life in self.all_lives)):
            raise Broken(
                f"figures: {moving} messages were handed over and not taken over, {found} were found: {accounts}"
            )

    def check_owners(self) -> None:
        alive = [life for life in self.all_lives if not life.ended]
        for client in self.clients:
            owners = [life for life in alive if life.owns(client.name)]
            if len(owners) > 1:
                raise Broken(
                    f"owners: {client.name} is owned by {' and '.join(f'{one.name} {one.place}' for one in owners)}"
                )

    def until(self, condition: Callable[[], bool], within: float, step: float = 0.1) -> bool:
        end = self.clock.monotonic() + within
        while not condition():
            if self.clock.monotonic() >= end:
                return False
            self.step(step)
        return True
