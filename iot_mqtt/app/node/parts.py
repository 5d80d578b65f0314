"""From configuration to parts: which grid, which listeners, which stages. The only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iot_mqtt.app.config.folders import grid_dir
from iot_mqtt.app.config.log_topics import retention_of
from iot_mqtt.app.config.loopback import is_loopback
from iot_mqtt.app.config.sections import Config, DoorsConfig, ListenerConfig, LogConfig
from iot_mqtt.app.config.tls_checks import make_tls_settings
from iot_mqtt.app.grid_note import note_grid, refuse_lost
from iot_mqtt.app.migrated import refuse_migrated
from iot_mqtt.app.node.ending import end_at_once, end_without_directory
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.conduct import Patience
from iot_mqtt.broker.connections.connection import Kind
from iot_mqtt.broker.settings import BudgetSettings, MqttSettings
from iot_mqtt.devices import Accompanied, DevicesSettings
from iot_mqtt.devices.link import LinkServices, LinkSettings, make_stage
from iot_mqtt.devices.senders import UserRights
from iot_mqtt.grid.commits import PATIENCE
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.store import GridStore
from iot_mqtt.grid.syncing import Syncing
from iot_mqtt.pipeline import (
    AddressLimits,
    Layout,
    ListenerSettings,
    LoginBudget,
    LoginLimit,
    MqttCodecs,
    OutboxSettings,
    StageFactory,
    Visitors,
    WebSocketSettings,
)
from iot_mqtt.pipeline.proxy_protocol import networks
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.devices import DeviceStore
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.fields import made_of
from iot_mqtt.ports.grid import Grid

#: Bytes around a login: handshakes, headers, and what else one receive brings.
AROUND_LOGIN = 128 * 1024


def make_grid(config: Config, reactor: Any) -> EmbeddedGrid | MemoryGrid:
    """The grid of a node by itself, which ends when the grid's directory is not its own any more."""
    if config.grid.kind == "memory":
        return MemoryGrid()
    refuse_migrated(grid_dir(config))
    refuse_lost(grid_dir(config))
    engine = Engine(grid_dir(config), on_lost=end_without_directory)
    return EmbeddedGrid(engine, reactor.callFromThread, syncing=Syncing(reactor))


def make_store(grid: Grid, clock: Clock, counters: Counters, *, alone: bool) -> GridStore:
    """Over that grid. Where there are other nodes, what goes to them leaves with commits: none of those gathers."""
    store = GridStore(grid, clock, counters, end_at_once)
    if alone:
        store.patience = PATIENCE
    return store


def note_made(config: Config) -> None:
    """The grid is open, and the node one of it. From now on it is missed should it be gone, or another be meant."""
    if config.grid.kind != "memory":
        note_grid(grid_dir(config), config.grid.kind)


def disk_meter(grid: Grid) -> DiskMeter | None:
    """What measures the room that the grid of a node by itself takes; None where it takes none."""
    return grid.disk_use if isinstance(grid, EmbeddedGrid) else None


def grid_alarms(grid: Grid) -> tuple[Alarm, ...]:
    """What is the matter with the files of the grid of a node by itself."""
    return grid.alarms if isinstance(grid, EmbeddedGrid) else ()


def budget_settings(config: LogConfig, *, shared: bool) -> BudgetSettings:
    """What may be filled. The servers of a ``shared`` grid keep a reserve of their own."""
    if shared:
        return BudgetSettings(config.disk_limit, subject="grid")
    return BudgetSettings(config.disk_limit, config.disk_reserve)


def log_settings(config: LogConfig) -> LogSettings:
    """The section ``log`` as the log knows it."""
    return made_of(
        LogSettings,
        config,
        generation_seconds=config.generation,
        retention_seconds=config.retention,
        topics=tuple(retention_of(entry) for entry in config.topics),
        page_cache_bytes=config.page_cache,
    )


def make_accompanied(
    broker: Composition, store: DeviceStore, settings: DevicesSettings, rights: UserRights
) -> Accompanied:
    """Commands, devices and shadows beside a broker; ``rights``: of users in whose name somebody acts."""
    return Accompanied(
        store=store,
        settings=settings,
        clock=broker.clock,
        turn=broker.turn,
        commits=broker.store,
        publishing=broker.publishing.path,
        budget=broker.publishing.budget,
        sessions=broker.sessions,
        outflow=broker.readers.outflow,
        max_levels=broker.settings.max_topic_levels,
        rights=rights,
    )


#: Scheme and port of the admin port, while it is open.
PageAddress = Callable[[], tuple[str, int] | None]


def make_listener_settings(name: str, config: ListenerConfig, dashboard: PageAddress) -> ListenerSettings:
    """A listener as the pipeline knows it. ``dashboard``: pages of there may connect."""
    return made_of(
        ListenerSettings,
        config,
        name=name,
        tls=make_tls_settings(config.tls),
        websocket=_websocket(config, dashboard) if config.protocol == "websocket" else None,
        outbox=OutboxSettings(config.outbox.high, config.outbox.low, config.outbox.limit),
    )


def make_visitors(config: DoorsConfig, clock: Clock) -> Visitors:
    """What all listeners know of addresses."""
    return Visitors(make_address_limits(config), clock.monotonic)


def make_address_limits(config: DoorsConfig) -> AddressLimits:
    """What each address may."""
    return AddressLimits(
        config.max_connections_per_address,
        config.address_rate,
        config.address_burst,
        networks(config.unlimited_addresses),
    )


def make_flapping(config: DoorsConfig) -> Patience:
    """What clients that come and go are banned for."""
    return Patience(config.flapping_count, config.flapping_seconds, config.flapping_ban)


def make_guessing(config: DoorsConfig) -> Patience:
    """What clients that guess passwords are banned for."""
    return Patience(config.guessing_count, config.guessing_seconds, config.guessing_ban)


def make_login_limit(config: MqttSettings, budget: LoginBudget, protocol: str) -> LoginLimit:
    """What a connection may send before its login: a CONNECT, or the frame of a gateway that says who it is, and what
    came with it in one receive.
    """
    first = config.max_packet_size if protocol == "frames" else config.max_connect_size
    return LoginLimit(budget, first + AROUND_LOGIN)


def _websocket(config: ListenerConfig, dashboard: PageAddress) -> WebSocketSettings:
    return WebSocketSettings(
        path=config.path,
        allowed_origins=config.allowed_origins,
        local=is_loopback(config.host),
        dashboard=dashboard,
    )


def make_layout(
    broker: Composition, config: Config, links: LinkServices
) -> Callable[[ListenerSettings, ListenerConfig], Layout]:
    """The stages of a connection above what its transport needs."""
    settings = broker.settings

    def layout(_: ListenerSettings, told: ListenerConfig) -> Layout:
        durable = config.durable_sessions.enable and told.durable_sessions
        protocol: tuple[str, StageFactory] = (
            "mqtt",
            MqttCodecs(
                settings.max_packet_size,
                settings.max_connect_size,
                settings.topic_alias_maximum,
                broker.routing.routes.classes,
            ).codec,
        )
        frames = told.protocol == "frames"
        if frames:
            protocol = ("device", make_stage(links, make_link_settings(told)))
        return Layout(
            [
                protocol,
                (
                    "broker",
                    broker.serving(Kind(durable, frames, told.codec)).connection,
                ),
            ]
        )

    return layout


def make_link_settings(config: ListenerConfig) -> LinkSettings:
    """A listener of gateways as its connections know it."""
    assert config.codec is not None
    return LinkSettings(config.codec, config.heartbeat, config.command_expiry, config.commands_at_once)


def bound(listening: Any) -> str:
    """``host:port`` of an open port, IPv6 in brackets."""
    host = listening.host
    return f"[{host}]:{listening.port}" if ":" in host else f"{host}:{listening.port}"
