"""A node of a simulated world: the whole broker, and everything under it that is real, over what is simulated."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.loss_ledger import LossLedger
from iot_mqtt.broker.readers.elsewhere_count import LOOK_SECONDS
from iot_mqtt.broker.settings import LogUse, MqttSettings
from iot_mqtt.broker.views.tally import tally
from iot_mqtt.cluster.joining import Place, enter
from iot_mqtt.cluster.node import ClusterNode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.log import FollowedLog, GridLog, LogSettings
from iot_mqtt.grid.marks import GridMarks
from iot_mqtt.grid.store import GridStore
from iot_mqtt.pipeline import Layout, MqttCodecStage, TimingWheel
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import CommitOrder
from iot_mqtt.topics import Effort
from tests.simulation.messaging import NodeClock
from tests.simulation.speed import Speed
from tests.simulation.upward import Upward
from tests.unit.auth.allow_all import AllowAll

if TYPE_CHECKING:
    from tests.simulation.world import World

SETTINGS = MqttSettings()
LOG = LogSettings(shards=2)
#: Nothing stays decoded: every read goes to the grid, and takes its time there.
READ = LogSettings(shards=2, page_cache_bytes=0)
SLOW = Speed(0.005, 0.1)


class Turned(NodeClock):
    """For embedded channels, which turn the clock: here only the world does."""

    def __init__(self, clock: NodeClock) -> None:
        super().__init__(clock._clock, clock.skew)
        self._node = clock

    def call_later(self, delay, call):  # type: ignore[no-untyped-def]
        return self._node.call_later(delay, call)

    def advance(self, seconds: float = 0.0) -> None:
        """Not from here."""


def _name_of(connection: Connection) -> str:
    return connection.session.client_id if connection.session is not None else ""


class BrokerLife:
    """One life of one node, from entering the cluster to its end."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        end = world.network.join(name)
        self.clock = end.clock
        #: Its connections to the service so far.
        self.connections = 1
        self.door = world.door(end)
        self.registry = world.ensemble.registry(name)
        self.counters = Counters()
        self.wheel = TimingWheel(self.clock, 0.5)
        self.outbox = None
        self.place: Place | None = None
        self.cluster: ClusterNode | None = None
        self.broker: Composition | None = None
        #: What goes up, in worlds with a platform.
        self.upward: Upward | None = None
        self.paused = False
        #: Killed, or its life is over.
        self.ended = False
        #: Clients may connect.
        self.ready = False
        self.log_settings = LOG
        if world.hopping:
            self.door.speed, self.log_settings = SLOW, READ
        self.channel_clock = Turned(self.clock)
        self._ids = 0
        self._hurried = 0

    def hurried(self) -> bool:
        """Whether a reader went on without those that come first, since this was asked last."""
        before, self._hurried = self._hurried, self.counters.readers_hurried
        return self._hurried != before

    async def start(self) -> None:
        """As ``app.node.service`` does it."""
        door, clock, world = self.door, self.clock, self.world
        grid = door.grid
        await door.open()
        door.on_fenced = self._over
        place = self.place = await enter(grid, self.name)
        store = GridStore(grid, clock, self.counters)
        log = GridLog(grid, store, clock, self.log_settings, place.number)
        broker = self.broker = Composition(
            settings=SETTINGS,
            store=store,
            log=log,
            counters=self.counters,
            clock=clock,
            wheel=self.wheel,
            authenticator=AllowAll(),
            authorizer=AllowAll(),
            log_use=LogUse(progress_delay=world.progress_delay),
            call_soon=self._call_soon,
            new_id=self._new_id,
        )
        if world.hopping:
            # Topics that are new are looked up one by one.
            broker.routing.routes.bound(Effort(0))
        self.ledger = LossLedger(GridMarks(grid, place.number), self.counters, clock, broker.turn.reserve)
        await self.ledger.load()
        broker.lifecycle.loading.when_whole(partial(store.enlist, CommitOrder.LEDGER, self.ledger))
        await log.open()
        if world.platform is not None:
            registry, clock = self.registry, self.clock
            self.upward = Upward(world.platform, broker, grid, registry, clock, place.number, self.name, self._follow)
            await self.upward.attach()
        cluster = self.cluster = ClusterNode(
            place,
            version="1",
            grid=grid,
            registry=self.registry,
            messaging=door.messaging,
            clock=clock,
            settings=world.settings,
            rng=random.Random(world.rng.random()),
        )
        door.on_fenced = cluster.end_life
        cluster.on_life_over = self._over
        clustering = broker.join(cluster, self._follow)
        cluster.attach(clustering.node)
        await clustering.own.load()
        clients = await cluster.start()
        await broker.lifecycle.loading.load(clients.__contains__)
        clustering.homes.begin(clients)
        cluster.loaded()
        await self.go_beside()
        await store.settled()
        broker.readers.census.begin()
        self._count_elsewhere()
        broker.lifecycle.deadlines.look()
        if self.upward is not None:
            self.upward.begin()
        self.layout = Layout(
            [
                (
                    "mqtt",
                    lambda: MqttCodecStage(
                        SETTINGS.max_packet_size,
                        topic_alias_maximum=SETTINGS.topic_alias_maximum,
                        routes=broker.routing.routes.classes,
                    ),
                ),
                ("broker", lambda: Connection(broker.serving())),
            ]
        )
        self.ready = True

    async def go_beside(self) -> None:
        """What a node has besides its broker, once that is loaded."""

    async def stop(self) -> None:
        """As ``app.node.service`` does it: clients are told, all is committed, then others may have the sessions."""
        assert self.broker is not None and self.cluster is not None
        # A set of objects has an order of its own in every process.
        for connection in sorted(self.broker.clients.connections, key=_name_of):
            connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, "the node stops")
        self.ledger.close()
        await self.broker.store.settled()
        if self.upward is not None:
            await self.upward.stop()
            await self.broker.store.settled()
        self.door.leave()
        await self.cluster.stop()
        await self.door.close()

    async def _follow(self, number: int) -> FollowedLog:
        reader = FollowedLog(self.door.grid, self.log_settings, number)
        await reader.open()
        return reader

    def _count_elsewhere(self) -> None:
        if self.broker is not None and not self.ended:
            self.broker.readers.elsewhere_count.look()
            self.clock.call_later(LOOK_SECONDS, self._count_elsewhere)

    def _over(self, reason: str) -> None:
        self.world.over(self, reason)

    def _call_soon(self, call: Callable[[], None]) -> None:
        self.clock.call_later(0.0, call)

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.name}-{self._ids}"

    @property
    def unexplained(self) -> int:
        """What the loss identity leaves over."""
        if self.broker is None or not self.ready:
            return 0
        found = tally(self.broker.sessions, self.broker.readers.groups)
        return self.counters.unconfirmed - (found.queued + found.backlog + found.inflight - found.released)

    def owns(self, client_id: str) -> bool:
        """It has the client's session in memory, and could still write for it."""
        if self.ended or self.broker is None or self.place is None:
            return False
        if self.place.boot <= self.world.fenced.get(self.place.number, 0):
            return False
        return self.broker.sessions.get(client_id) is not None
