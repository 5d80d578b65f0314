"""What a node among others has beside its broker: the shared grid, its number and boot, the registry, the links.

Imported only where there is a cluster: its libraries would be a good part of what a start costs.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from iot_mqtt import __version__
from iot_mqtt.app.config.folders import grid_dir
from iot_mqtt.app.config.loopback import is_loopback
from iot_mqtt.app.config.sections import ClientTlsConfig, Config
from iot_mqtt.app.data_id import data_id
from iot_mqtt.app.grid_note import refuse_sole
from iot_mqtt.app.node.directory import Following
from iot_mqtt.app.node.grid_room import GridRoom
from iot_mqtt.app.node.parts import log_settings
from iot_mqtt.app.node.periodic import Periodic
from iot_mqtt.app.node.uplink import make_failovers
from iot_mqtt.app.node.uplink_failover import UplinkFailovers, watch_others
from iot_mqtt.app.node.views import join
from iot_mqtt.broker.cluster.shared_losses import SharedLosses
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.readers.elsewhere_count import LOOK_SECONDS
from iot_mqtt.broker.retention_clock import RetentionClock
from iot_mqtt.broker.upkeep import Upkeep
from iot_mqtt.broker.views.view import View
from iot_mqtt.cluster import channels, grid_format
from iot_mqtt.cluster.joining import Place, enter, known_nodes
from iot_mqtt.cluster.node import ClusterNode
from iot_mqtt.cluster.questions import Questions
from iot_mqtt.cluster.registry.beacon import Beacon
from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.static import StaticRegistry
from iot_mqtt.cluster.registry.zookeeper import ZooKeeperRegistry
from iot_mqtt.cluster.roster import Life
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.tenancy import Premises, Tenancy
from iot_mqtt.grid.expired import ExpiredRetained
from iot_mqtt.grid.ignite import Address, IgniteGrid, IgniteSettings
from iot_mqtt.grid.log import FollowedLog, GridLog, LogSettings, PageCache, drop_over
from iot_mqtt.metrics.cluster import ClusterCollector
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.pipeline.tls_client import ClientTls, TlsEndpoint
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster_status import ClusterStatus
from iot_mqtt.ports.fields import made_of, renew
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.registry import Registry

log = logging.getLogger(__name__)

#: Seconds between two times that the others are shown how this node is, and that nodes are looked for that are gone.
SHOW_SECONDS = 5.0
#: Seconds between two looks at the clocks of the nodes.
CLOCK_SECONDS = 2.0
#: Seconds between two looks at the logs of dead nodes, and at what was dropped of any.
CARE_SECONDS = 60.0
#: Pages of retained messages that are looked at then: a million topics in three hours.
EXPIRED_PAGES = 30


class Clustered:
    """One life among others, from joining to leaving."""

    def __init__(
        self, config: Config, reactor: Any, clock: Clock, life_clock: Clock, on_over: Callable[[str], None]
    ) -> None:
        """``clock`` is of what ends in order, ``life_clock`` of what ends with it. ``on_over`` is told once, when this
        life is over although nobody asked for it.
        """
        refuse_sole(grid_dir(config))
        self._config = config
        self._reactor = reactor
        self._on_over = on_over
        self._clock = life_clock
        self.grid = make_grid(config, reactor, clock)
        self._cross: Callable[[Callable[[], None]], object] = reactor.callFromThread
        self._registry = make_registry(config, clock, self._cross)
        self._settings = log_settings(config.log)
        #: Of all followed logs together.
        self._pages = PageCache(config.log.page_cache)
        here = Premises(data_id(Path(config.node.data_dir)), f"{config.node.data_dir} on {socket.gethostname()}")
        self._tenancy = Tenancy(self.grid, here, 2.5 * SHOW_SECONDS, partial(deferLater, reactor))
        self._expired = ExpiredRetained(self.grid)
        self._place: Place | None = None
        self._node: ClusterNode | None = None
        self._looking = False
        self._beacon: Beacon | None = None
        self._failovers: UplinkFailovers | None = None
        self._losses: SharedLosses | None = None

    @property
    def grid_format(self) -> int:
        """Of what the nodes keep."""
        return grid_format.FORMAT

    async def join(self) -> int:
        """This node's number, which its log is written under. What earlier lives had begun is finished."""
        await grid_format.require(self.grid, __version__)
        self.grid.on_fenced = self._end
        self._place = await enter(self.grid, self._config.node.id, self._tenancy.ask)
        await self._tenancy.begin(self._place.number)
        log.info("joined", extra={"number": self._place.number, "boot": self._place.boot})
        return self._place.number

    async def enter(self, broker: Composition, view: View, ended: str) -> None:
        """Make the broker one of many, and load what is at home here. Its log is open. ``ended``: how the connections
        did of the life before.
        """
        assert self._place is not None
        node = self._node = ClusterNode(
            self._place,
            version=__version__,
            grid=self.grid,
            registry=self._registry,
            messaging=self.grid.gateway.messages,
            clock=self._clock,
            # A home that has just died must have left the list before we stop asking it.
            settings=ClusterSettings(release_timeout=self._patience),
        )
        node.on_life_over = self._on_over
        clustering = broker.join(node, self._follow)
        node.attach(clustering.node)
        join(broker, view.cluster, self._config.node.id, node, self._registry)
        readers = broker.readers
        self._losses = SharedLosses(
            node.questions, readers.logs, readers.census, broker.counters, readers.upkeep.note_losses
        )
        broker.readers.upkeep.followers.append(self._losses)
        watch_others(broker.uplink, self.grid, self._place.number, self._clock)
        await clustering.own.load()
        if isinstance(self._registry, StaticRegistry):
            timeout = self._config.registry.static.timeout
            self._beacon = Beacon(self._registry, self.grid.gateway.messages, self._clock, timeout)
            await self._beacon.start()
        clients = await node.start()
        await broker.lifecycle.loading.load(clients.__contains__, ended)
        clustering.homes.begin(clients)
        node.loaded()

    @property
    def _patience(self) -> float:
        registry = self._config.registry
        silence = registry.static.timeout if registry.kind == "static" else registry.zookeeper.session_timeout
        return silence * 1.5 + 1.0

    async def _follow(self, number: int) -> FollowedLog:
        reader = FollowedLog(self.grid, self._settings, number, self._pages)
        await reader.open()
        return reader

    def listening(self, addresses: Mapping[str, str]) -> None:
        """Clients can come: where, is shown to the other nodes."""
        if self._node is not None:
            self._node.reachable_at(dict(addresses))

    def begin_housekeeping(self, broker: Composition, repeat: Periodic, lag: LoopLag) -> None:
        """Be seen by the other nodes, and look after those that are gone."""
        repeat(SHOW_SECONDS, lambda: self._show(lag.latest, broker.clients.connections.clients))
        repeat(LOOK_SECONDS, broker.readers.elsewhere_count.look)
        repeat(CARE_SECONDS, partial(self._care, broker.time))
        repeat(CARE_SECONDS, Following(broker.readers.logs.note_drops, "what was dropped of other nodes' logs").look)
        assert self._place is not None and self._node is not None
        broker.time.ahead = self._ahead
        repeat(CLOCK_SECONDS, self._node.clocks.look)
        repeat(SHOW_SECONDS, Following(self._node.look, "the nodes that are known").look)
        failovers = self._failovers = make_failovers(
            self._config, broker, self.grid, self._registry, self._place.number, self._follow, self._cross
        )
        if failovers is not None:
            repeat(SHOW_SECONDS, Following(failovers.look, "the uplink of nodes that are gone").look)

    def retain(self, settings: LogSettings) -> None:
        """Logs of other nodes are kept by these settings now."""
        renew(self._settings, settings)

    def count(self) -> int:
        """How many nodes are there, this one included."""
        return max(1, len(self._registry.members))

    def fit(self, messages: GridLog, budget: Budget, upkeep: Upkeep) -> None:
        """From now on this node's log has its share of the grid, and no more."""
        GridRoom(self.grid, messages, budget, upkeep, self.count, self._clock).begin()

    def _ahead(self) -> float:
        """Seconds that this node's clock is ahead by the clocks of the others; negative: behind."""
        assert self._place is not None
        return 0.0 if self._node is None else self._node.clocks.wrong.get(self._place.node_id, 0.0)

    def _show(self, lag: float, clients: int) -> None:
        """The others see how this node is, and this node whether the grid knows it."""
        if self._node is not None:
            self._node.show(load=min(1.0, lag), clients=clients)
            if not self._looking:
                self._looking = True
                ensureDeferred(self._look()).addErrback(self._not_seen)

    async def _look(self) -> None:
        """Whether the grid still knows this life. One that is in memory only has forgotten everything if all of its
        servers were gone at once; what this node has in memory must not be mixed with what comes after.
        """
        assert self._place is not None
        mine = [known for known in await known_nodes(self.grid) if known.number == self._place.number]
        self._looking = False
        if mine and mine[0].node_id != self._place.node_id:
            self._end("this node was removed from the cluster")
        elif not mine:
            self._end("the grid has forgotten this node: all of its servers were gone, and it is not persistent")
        elif mine[0].boot != self._place.boot:
            self._end(f"another process has started with node.id {self._place.node_id!r} (is the key given twice?)")
        else:
            other = await self._tenancy.answer(self._place.number)
            if other is not None:
                log.warning("a process in %s wants to be this node: is node.id given twice?", other)

    def _care(self, time: RetentionClock) -> None:
        caring = ensureDeferred(self._drop_what_is_over(time))
        caring.addErrback(lambda failure: log.warning("what is over in the grid: %s", failure.getErrorMessage()))

    async def _drop_what_is_over(self, time: RetentionClock) -> None:
        """The logs of nodes that are gone have a retention, too, and retained messages expire; whoever gets the lease
        sees to it.
        """
        assert self._place is not None and self._losses is not None
        lease = await self._registry.acquire("log-retention")
        if lease is None:
            return
        try:
            present = {member.number for member in self._registry.members.values()} | {self._place.number}
            for known in await known_nodes(self.grid):
                if known.number not in present and lease.held:
                    for generation in await drop_over(
                        self.grid, self._settings, known.number, time.now(), self._losses.write_off
                    ):
                        log.info(
                            "dropped of a dead node's log", extra={"node": known.node_id, "generation": generation}
                        )
            if lease.held and (count := await self._expired.drop(self._clock.wall(), EXPIRED_PAGES)):
                log.info("removed retained messages whose time was over", extra={"count": count})
        finally:
            lease.release()

    def _not_seen(self, failure: Failure) -> None:
        self._looking = False
        log.info("the grid does not answer: %s", failure.getErrorMessage())

    async def home_of(self, client_id: str) -> Life | None:
        """In which life of which node a session is; None: there is none."""
        record = await self.grid.get(CacheName.CHANNELS, client_id.encode())
        return None if record is None else channels.read(record).life

    @property
    def questions(self) -> Questions:
        """What nodes ask each other by name."""
        assert self._node is not None
        return self._node.questions

    @property
    def collector(self) -> ClusterCollector:
        """Its part of the metrics."""
        return ClusterCollector(self._status, lambda: self.grid.gateway)

    def _status(self) -> ClusterStatus | None:
        return None if self._node is None else self._node.status()

    # The end.

    def _end(self, reason: str) -> None:
        if self._node is not None:
            self._node.end_life(reason)
        else:
            self._on_over(reason)

    async def leave(self) -> None:
        """Everything is committed: others may have our clients, and another process may be this node."""
        if self._place is not None:
            leaving = ensureDeferred(self._say_so(self._place.number))
            # Who comes has to ask then, and the others say that this node is gone; that is all.
            await leaving.addTimeout(1.0, self._reactor).addErrback(lambda _: None)
        await self._let_go()

    async def _say_so(self, number: int) -> None:
        if self._node is not None:
            await self._node.note_stopped()
        await self._tenancy.leave(number)

    async def abandon(self) -> None:
        """Others have taken our place. The connections end; nothing more is written."""
        await self._let_go()
        await self.grid.close()

    async def _let_go(self) -> None:
        if self._beacon is not None:
            self._beacon.stop()
        if self._failovers is not None:
            self._failovers.stop()
        self.grid.gateway.leave()
        if self._node is not None:
            await self._node.stop()
        else:
            await self._registry.close()


def make_grid(config: Config, reactor: Any, clock: Clock) -> IgniteGrid:
    """The shared grid."""
    ignite = config.grid.ignite
    tls = client_tls(ignite.tls)
    if tls is None and not _all_here((*ignite.addresses, *ignite.gateway)):
        log.warning(
            "grid.ignite is in plain text: whoever reads it has its token and every message; set grid.ignite.tls"
        )
    settings = IgniteSettings(
        gateways=tuple(address_of(one) for one in ignite.gateway),
        addresses=tuple(address_of(one) for one in ignite.addresses),
        token=ignite.token,
        node_id=config.node.id,
        tls=tls,
    )

    def reach(address: Address, seconds: float) -> Any:
        endpoint = HostnameEndpoint(reactor, address.host, address.port, timeout=seconds)
        return endpoint if tls is None else TlsEndpoint(endpoint, tls, address.host, seconds, reactor)

    return IgniteGrid(settings, reactor.callFromThread, reach, clock)


def _all_here(places: Iterable[str]) -> bool:
    """Whether these are all on this machine: ``host:port``, or a host alone."""
    return all(is_loopback(place.partition("/")[0].rpartition(":")[0] or place) for place in places)


def client_tls(config: ClientTlsConfig) -> ClientTls | None:
    """TLS towards servers; None: plain text."""
    if config.ca is None:
        return None
    return ClientTls(config.ca, config.cert, config.key or config.cert, config.check_hostname)


def address_of(text: str) -> Address:
    """``host:port``, an IPv6 host in brackets."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def make_registry(config: Config, clock: Clock, cross: Callable[[Callable[[], None]], object]) -> Registry:
    """The registry of ``registry.kind``, which is not none."""
    if config.registry.kind == "static":
        static = config.registry.static
        return StaticRegistry(config.node.id, static.nodes, clock, static.timeout)
    zookeeper = config.registry.zookeeper
    if zookeeper.tls.ca is None and not _all_here(zookeeper.hosts):
        log.warning("registry.zookeeper is in plain text: whoever reaches it may write nodes into it; set its tls")
    settings = made_of(ZooKeeperSettings, zookeeper, hosts=",".join(zookeeper.hosts), tls=client_tls(zookeeper.tls))
    return ZooKeeperRegistry(settings, clock, cross)
