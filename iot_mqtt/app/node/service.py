"""The composition root: makes the parts from the configuration, starts them in order, and stops them in order.

Start: grid → state in memory → listeners → admin → ``ready``. No client gets in before the routes are complete.
Stop: no new clients → DISCONNECT 0x8B to those that are there → everything committed → grid closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iot_mqtt import __version__
from iot_mqtt.admin.ban_resources import BanResources
from iot_mqtt.admin.config_resources import ConfigResources, ListenerResources
from iot_mqtt.admin.dropped_resources import DroppedResources
from iot_mqtt.admin.routes import Resource
from iot_mqtt.app import data_format
from iot_mqtt.app.config.reading import LoadedConfig, Reread
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.logging import log_alarms
from iot_mqtt.app.node.admin_port import AdminPort
from iot_mqtt.app.node.clock_file import LOOK_SECONDS as CLOCK_SECONDS
from iot_mqtt.app.node.clock_file import ClockFile
from iot_mqtt.app.node.collector import LOOK_SECONDS, Collector, held, keep_freed
from iot_mqtt.app.node.configuration import LOOK_SECONDS as CONFIG_SECONDS
from iot_mqtt.app.node.configuration import Configuration
from iot_mqtt.app.node.deadline import Deadline, inbox_busy, unwritten, uplink_busy
from iot_mqtt.app.node.directory import Following
from iot_mqtt.app.node.disk_room import make_disk_look
from iot_mqtt.app.node.entrance import Entrance
from iot_mqtt.app.node.explanations import Explanations
from iot_mqtt.app.node.gateways import Gateways
from iot_mqtt.app.node.grid_copies import make_backups
from iot_mqtt.app.node.live_keys import LiveKeys, follow, make_conduct, port_rates
from iot_mqtt.app.node.parts import (
    budget_settings,
    disk_meter,
    grid_alarms,
    log_settings,
    make_accompanied,
    make_grid,
    make_layout,
    make_store,
    note_made,
)
from iot_mqtt.app.node.periodic import Periodic
from iot_mqtt.app.node.reloads import ConfigFiles
from iot_mqtt.app.node.rule_desk import RuleDesk
from iot_mqtt.app.node.uplink import make_letters, make_uplink
from iot_mqtt.app.node.views import make_view
from iot_mqtt.app.node.watching import Watching
from iot_mqtt.auth.bans import SWEEP_SECONDS as BANS_SECONDS
from iot_mqtt.auth.bans import BanBook
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.web import AgentWeb
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.shedding import BusyLimits, Shedding
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.broker.uplink import Uplink
from iot_mqtt.broker.views.view import View
from iot_mqtt.devices import SWEEP_SECONDS
from iot_mqtt.devices.letters import Letters
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from iot_mqtt.grid.devices import GridDeviceStore
from iot_mqtt.grid.directory import POLL_SECONDS, GridDirectory
from iot_mqtt.grid.engine_format import FORMAT as GRID_FORMAT
from iot_mqtt.grid.log import GridLog
from iot_mqtt.metrics.exposition import Collector as MetricsCollector
from iot_mqtt.metrics.exposition import Metrics
from iot_mqtt.metrics.facts import ListenerCounts
from iot_mqtt.pipeline import ReactorClock, Share, TimingWheel
from iot_mqtt.pipeline.reactor import TurnReactor
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.endings import NODE_LOST, NODE_RESTARTED
from iot_mqtt.ports.filling import refuse_unfinished

if TYPE_CHECKING:
    from iot_mqtt.app.node.clustered import Clustered

#: Seconds between two looks at the disk, and at what the log's retention is over for.
DISK_SECONDS = 1.0
UPKEEP_SECONDS = 5.0
#: At whether a change could be written into the audit log.
AUDIT_SECONDS = 10.0
#: And at retained messages, at a part of them.
RETAINED_SECONDS = 1.0
#: Seconds that a node which never served takes to commit what it has begun.
UNSERVED_SECONDS = 1.0


class Reached(Enum):
    """How far a start has come."""

    #: Also of a life that was abandoned.
    NOTHING = 0
    #: The grid is open: what has begun there is to be committed.
    GRID = 1
    SERVING = 2


class Service:
    """One life of a node. Its broker is made at the start, because only the grid knows what number the node has."""

    broker: Composition
    view: View

    def __init__(
        self,
        config: Config,
        reactor: TurnReactor,
        on_over: Callable[[str], None],
        loaded: LoadedConfig | None = None,
        reread: Reread | None = None,
    ) -> None:
        """``on_over`` is called when this life is over although nobody asked for it, with the reason. ``loaded``: what
        the configuration was read from, if it was; then it can be changed, and ``reread`` reads it again.
        """
        self.live = LiveKeys(config)
        config = self._config = self.live.shared
        self._files = ConfigFiles(reread, reactor)
        self.configuration = Configuration(loaded, self.live, self._files.run)
        self._on_over = on_over
        self._reactor: Any = reactor
        #: Of the ports and who comes to them, also while this life is over and the next one has not begun.
        self.clock = ReactorClock(reactor)
        #: Of everything else. It ends with this life, and with it whatever would be tried again.
        self._life_clock = ReactorClock(reactor)
        self._clock_file = ClockFile(Path(config.node.data_dir), self.clock)
        self._wheel = TimingWheel(self.clock)
        self.counters = Counters(self.clock.wall)
        cross = self._reactor.callFromThread
        self._cluster = self._make_cluster() if config.grid.kind == "ignite" else None
        self._grid = make_grid(config, reactor) if self._cluster is None else self._cluster.grid
        alone = self._cluster is None
        self._store = make_store(self._grid, self._life_clock, self.counters, alone=alone)
        if self._cluster is not None:
            self._store.outage = self._cluster.grid.outage
        self.directory = GridDirectory(self._grid, self.clock)
        self._bans = BanBook(self.directory, self.clock, config.node.id)
        chains = {name: listener.auth_chain for name, listener in config.enabled_listeners.items()}
        web = partial(AgentWeb, reactor, self.clock)
        self._access = Access(config.auth, cross, self.clock, self.directory, chains, web)
        self.gateways = Gateways(config, reactor, self.clock, partial(self._files.config, config))
        self._repeat = Periodic(reactor)
        clustered = self._cluster is not None
        self._watching = Watching(config, reactor, self.clock, web, self._repeat, clustered=clustered)
        ours = reactor, self.clock, self._wheel, self._access, self._bans, self.configuration
        self._entrance = Entrance(config, *ours, lambda: self._admin.address)
        self._admin = AdminPort(config, reactor, self.clock, self.directory, self._access, self.counters)
        self._desk: RuleDesk | None = None
        self._reached = Reached.NOTHING
        #: Why this life was over before it served.
        self._ended: str | None = None

    async def start(self, before_listening: Callable[[], Awaitable[None]] | None = None) -> str:
        """Open everything; returns the line that says so. ``before_listening`` makes room for the ports."""
        number = await self._open_grid()
        settings = self.live.made(lambda told: log_settings(told.log))
        messages = GridLog(self._grid, self._store, self._life_clock, settings, number)
        self._make_broker(messages)
        await messages.open()
        uplink = await self._attach(number)
        await self._load(NODE_RESTARTED if before_listening is None else NODE_LOST)
        await self.accompanied.load(self.broker.routing.accompany)
        self._make_letters()
        await self.gateways.start()
        self.view.further_alarms += [lambda: self.gateways.plugins.alarms, lambda: grid_alarms(self._grid)]
        await self._store.settled()
        collector = Collector(self._config.node.gc_threshold, self.clock, partial(held, self.broker))
        collector.begin(again=before_listening is not None)
        keep_freed()
        self._repeat(LOOK_SECONDS, collector.look)
        self._repeat(DISK_SECONDS, make_disk_look(self._grid, self.broker.publishing.budget, self.counters, self.clock))
        if self._cluster is not None:
            self._cluster.fit(messages, self.broker.publishing.budget, self.broker.readers.upkeep)
        if before_listening is not None:
            await before_listening()
        self._check()
        ports = self._listen()
        self._shed_load()
        self._repeat(self._config.mqtt.sys_interval, partial(self._watching.publish, self.broker, self.view))
        self._access.begin()
        self._entrance.look(self._repeat)
        self.broker.readers.census.begin()
        if uplink is not None:
            uplink.begin()
        self._repeat(SWEEP_SECONDS, self.accompanied.sweep)
        self._repeat(BANS_SECONDS, Following(self._bans.sweep).look)
        self._repeat(UPKEEP_SECONDS, self.broker.readers.upkeep.begin)
        self._repeat(UPKEEP_SECONDS, self.broker.lifecycle.deadlines.look)
        self._repeat(RETAINED_SECONDS, lambda: self.broker.publishing.retention.sweep(self.clock.wall()))
        if self._cluster is not None:
            self._cluster.listening(self._entrance.listeners.addresses)
            self._cluster.begin_housekeeping(self.broker, self._repeat, self._watching.lag)
        self._check()
        self._take_changes()
        self._reached = Reached.SERVING
        self.view.ready = True
        if self._letters is not None:
            self._letters.begin()
        return " ".join(["ready", *ports])

    async def _load(self, ended: str) -> None:
        """What is kept of clients; ``ended``: how the connections did of the life before."""
        self._watching.record(self.broker.monitoring.recorder, ended)
        if self._cluster is None:
            await self.broker.lifecycle.loading.load()
        else:
            await self._cluster.enter(self.broker, self.view, ended)
            self.accompanied.join(self._cluster.questions)

    def _check(self) -> None:
        """A life that is over, or is stopped, before it has begun is not to begin."""
        if self._ended is not None:
            raise Unavailable(self._ended)

    async def first_password(self) -> str | None:
        """Of the first admin user, if this start has made one."""
        return await self._admin.first_password()

    def _make_letters(self) -> None:
        cross = self._reactor.callFromThread
        letters = make_letters(self._config, self.accompanied.commands, self.broker.turn, self._life_clock, cross)
        self.accompanied.letters = letters
        if letters is not None:
            self.view.further_alarms.append(lambda: letters.alarms)

    def _take_changes(self) -> None:
        """The configuration may change from now on."""
        moved = (lambda _: None) if self._cluster is None else self._cluster.listening
        self.configuration.ports = self._entrance.changing(self.gateways, moved, self._files.run)
        self.configuration.codecs = self.gateways.plugins
        self.configuration.read = self._files.reader()
        self.view.further_alarms.append(lambda: self.configuration.alarms)
        self._repeat(CONFIG_SECONDS, Following(self.configuration.look, "the configuration's files").look)
        if (cluster := self._cluster) is not None:
            self.live.then(lambda told: cluster.retain(log_settings(told.log)))

    def _shed_load(self) -> None:
        """Measure how late the loop is, and let nobody in while it is too late."""
        limits = self.live.made(lambda told: BusyLimits(told.doors.busy_lag, told.doors.busy_seconds))
        shedding = Shedding(limits, self.broker.clients.door, self.counters)
        self.view.further_alarms.append(lambda: shedding.alarms)
        self._watching.measure(shedding.measured)

    async def _open_grid(self) -> int:
        """This node's number. What other nodes change in the directory is seen from now on."""
        await self._grid.open()
        self._check()
        self._reached = Reached.GRID
        await refuse_unfinished(self._grid)
        number = await self._cluster.join() if self._cluster is not None else 0
        note_made(self._config)
        await self.directory.load()
        await self._access.prepare()
        if self._cluster is not None:
            self._repeat(POLL_SECONDS, Following(self.directory.refresh).look)
        return number

    def _resources(self) -> list[Resource]:
        """Of the API, what stands beside the broker."""
        home_of = None if self._cluster is None else self._cluster.home_of
        packets = self._watching.packets
        assert packets is not None, "they come with the broker"
        explained = Explanations(self.broker, self.view, self.accompanied, self._access, self.gateways)
        return [
            BanResources(self._bans),
            ConfigResources(self.configuration),
            ListenerResources(self.configuration),
            explained.of_clients(self._bans, home_of, packets.ends_before, self.configuration.listeners, self._desk),
            *explained.of_topics(self._desk),
            DroppedResources(lambda: self.view),
            *self._watching.resources,
            *make_backups(self._config, self._grid, self._reactor, self.clock),
        ]

    def _make_cluster(self) -> Clustered:
        # Late: a node by itself does not wait for the libraries of a cluster.
        from iot_mqtt.app.node.clustered import Clustered

        return Clustered(self._config, self._reactor, self.clock, self._life_clock, self._over)

    def _make_broker(self, messages: GridLog) -> None:
        config, cluster = self._config, self._cluster
        self.broker = Composition(
            settings=config.mqtt,
            store=self._store,
            log=messages,
            log_use=LogUse(config.log.batch_size, config.log.record, config.durable_sessions.progress_delay),
            budget=self.live.made(lambda told: budget_settings(told.log, shared=cluster is not None)),
            disk=disk_meter(self._grid) if cluster is None else cluster.grid.room_use,
            counters=self.counters,
            clock=self._life_clock,
            wheel=self._wheel,
            authenticator=self._access.authenticator,
            authorizer=self._access.authorizer,
            methods=self._access.methods,
            limits=self._access.limits.of,
            rates=port_rates(config),
            clean_for_others=config.auth.session_of_another_user == "clean",
            bans=self._bans,
            recording=config.recorder,
            call_soon=self._reactor.call_at_turn_end,
        )
        self.broker.time.earlier = earlier = self._clock_file.earlier()
        if cluster is None:  # otherwise other nodes may have recorded it, by clocks of theirs
            self.broker.lifecycle.deadlines.earlier = earlier
        self._watching.trace(self.broker)
        self._access.on_changed = self.broker.lifecycle.rights.changed
        self._access.on_renamed = self.broker.lifecycle.rights.renamed
        self._bans.on_added = self.broker.clients.bouncer.added
        conduct = make_conduct(self.live, self._bans, self.clock)
        self.broker.clients.connections.on_closed += (conduct.ended,)
        self.accompanied = make_accompanied(self.broker, GridDeviceStore(self._grid), config.devices, self._access)
        self._access.limits.on_changed = self.broker.clients.limiting.changed
        # Both were looked at before anything else: they are what this version writes.
        formats = {"data_format": data_format.FORMAT}
        if self._cluster is not None:
            formats["grid_format"] = self._cluster.grid_format
        elif config.grid.kind == "embedded":
            formats["grid_format"] = GRID_FORMAT[0]
        named = {"node_id": config.node.id, "version": __version__}
        breathe = self._admin.turns.next
        self.view = make_view(self.broker, **named, started_at=self.clock.wall(), formats=formats, breathe=breathe)

    async def _attach(self, number: int) -> Uplink | None:
        """What takes part in commits beside the broker itself: the figures that are kept, and the uplink."""
        await self._watching.count(self.broker, self.view, self._grid, number, self._admin.turns.next)
        cross = self._reactor.callFromThread
        uplinked = make_uplink(self._config, self.broker, self._grid, number, cross, self._files.reader())
        if uplinked is None:
            return None
        await uplinked.attach(self._config, self.broker)
        self._desk = self.configuration.rules = uplinked.desk
        self.view.further_alarms.append(lambda: uplinked.book.alarms)
        return uplinked.uplink

    def _listen(self) -> list[str]:
        self._clock_file.look()
        self._repeat(CLOCK_SECONDS, self._clock_file.look)
        layout = make_layout(
            self.broker, self._config, self.gateways.services(self.accompanied, self.broker.counters.recent)
        )
        room = self._entrance.open(layout, self.broker.clients.half_open)
        listeners = self._entrance.listeners
        ports = [f"{name}={address}" for name, address in listeners.addresses.items()]
        asking = None if self._cluster is None else self._cluster.questions
        self._watching.tell(self.broker, self.view, self.accompanied, asking, self.gateways.captures)
        if self._config.admin.enabled:
            ports.append(f"admin={self._open_admin(room)}")
            self.view.further_alarms.append(lambda: self._admin.alarms)
            self._repeat(AUDIT_SECONDS, Following(self._admin.look, "the audit log").look)
        follow(self.live, self.broker, listeners, self._access)
        self.view.further_alarms += [lambda: self._entrance.alarms, log_alarms]
        return ports

    @property
    def ports(self) -> dict[str, int]:
        """What was bound, by configuration key: the next life of the node is to be found at the same places."""
        found = self._entrance.ports
        if self._admin.number is not None:
            found["admin"] = self._admin.number
        return found

    # The life is over, although nobody asked for it.

    def _over(self, reason: str) -> None:
        if self._reached is not Reached.SERVING:
            self._ended = reason
            return
        self.view.ready = False
        self.broker.clients.door.refusing = Refused(
            "this node is not part of the cluster now", ReasonCode.SERVER_UNAVAILABLE
        )
        for connection in self._connections:
            connection.disconnect(ReasonCode.USE_ANOTHER_SERVER, "this node is not part of the cluster now")
        self._on_over(reason)

    async def abandon(self) -> None:
        """Let go of everything but the ports, which refuse clients until the next life takes them. Nothing is
        committed: others have taken this node's place.
        """
        self._reached = Reached.NOTHING
        self._life_clock.end()
        self._stop_periodic()
        self._watching.abandon()
        self._store.give_up()
        if self._letters is not None:
            self._letters.abandon()
        if hasattr(self, "broker") and self.broker.uplink is not None:
            self.broker.uplink.abandon()
        if self._cluster is not None:
            await self._cluster.abandon()

    async def release_ports(self) -> None:
        """The next life is ready for them, or this one could not begin. Once more does nothing more."""
        await self._entrance.listeners.stop()
        for connection in self._connections:
            connection.disconnect(ReasonCode.USE_ANOTHER_SERVER)
        await self._stop_rest()

    @property
    def _letters(self) -> Letters | None:
        """None also while there is no broker."""
        return self.accompanied.letters if hasattr(self, "accompanied") else None

    @property
    def _connections(self) -> list[Connection]:
        """None while there is no broker."""
        return list(self.broker.clients.connections) if hasattr(self, "broker") else []

    async def _stop_rest(self) -> None:
        """What serves people and connections until the end."""
        await self._admin.close()
        self._watching.close()
        self.gateways.stop()
        self._access.close()
        self._wheel.stop()

    def _stop_periodic(self) -> None:
        self._repeat.stop()
        self._watching.lag.stop()

    def _open_admin(self, room: Share) -> str:
        return self._admin.open(
            room,
            self.view,
            self._metrics,
            gateways=self.gateways,
            devices=self.accompanied,
            uplink=self._desk,
            certificates=self._entrance.certificates,
            asking=None if self._cluster is None else self._cluster.questions,
            sockets=lambda: self._entrance.listeners.sockets,
            further=self._resources(),
        )

    def _metrics(self, admin: ListenerCounts, collectors: Sequence[MetricsCollector]) -> Metrics:
        among = () if self._cluster is None else (self._cluster.collector,)
        return self._watching.metrics(self.view, lambda: [*self._entrance.listeners, admin], *among, *collectors)

    def look_again(self) -> None:
        """Read again what may have changed in files."""
        self._entrance.reload()

    @property
    def patience(self) -> float:
        """Seconds that ``stop`` may take. Who never served has promised nothing, and who was abandoned keeps no promise
        any more.
        """
        patience = self._config.node.drain_seconds
        return patience if self._reached is Reached.SERVING else min(patience, UNSERVED_SECONDS)

    async def stop(self) -> None:
        """Let clients go, commit, close; within ``node.drain_seconds``."""
        deadline = Deadline(self.patience, self.clock, self._reactor)
        if self._reached is not Reached.SERVING:
            self._ended = "it was stopped"
        self._stop_periodic()
        await self._entrance.listeners.stop()
        if hasattr(self, "broker"):
            self.view.ready = False
            for connection in self._connections:
                connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down")
            self.broker.turn.end()
            await deadline.wait_while(lambda: self.broker.clients.connections)
        if self._reached is not Reached.NOTHING:
            if self._letters is not None:
                await deadline.settle(self._letters.stop(), inbox_busy)
                self._letters.abandon()
            if hasattr(self, "accompanied"):
                self.accompanied.stopping()
            self._watching.settle()
            waits = partial(unwritten, self._store)
            await deadline.settle(self._store.settled(), waits)
            if hasattr(self, "broker") and self.broker.uplink is not None:
                await deadline.settle(self.broker.uplink.stop(), uplink_busy)
                await deadline.settle(self._store.settled(), waits)
            if self._cluster is not None:
                await self._cluster.leave()
            await self._grid.close()
        await self._watching.finish()
        await self._stop_rest()
