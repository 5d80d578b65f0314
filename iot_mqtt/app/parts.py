"""From configuration to parts: which grid, which listeners, which stages. The only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from iot_mqtt.app.config_sections import Config, ListenerConfig, LogConfig
from iot_mqtt.app.log_topics import retention_of
from iot_mqtt.broker.broker import Broker
from iot_mqtt.broker.connection import Connection
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.log import GridLog, LogSettings
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import (
    ConnectTimeoutStage,
    IdleStage,
    Layout,
    ListenerSettings,
    MqttCodecStage,
    OutboxSettings,
    TlsSettings,
    WebSocketSettings,
)
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.store import Store


def make_grid(config: Config, cross: Callable[[Callable[[], None]], object]) -> EmbeddedGrid | MemoryGrid:
    """The grid of ``grid.kind``; ``cross`` runs a call in the reactor's thread."""
    if config.grid.kind == "memory":
        return MemoryGrid()
    directory = Path(config.node.data_dir) / "grid"
    return EmbeddedGrid(directory, cross)


def disk_meter(grid: EmbeddedGrid | MemoryGrid) -> DiskMeter | None:
    """What measures the room that the grid takes; None where it takes none."""
    return grid.disk_use if isinstance(grid, EmbeddedGrid) else None


def make_log(config: LogConfig, grid: Grid, store: Store, clock: Clock) -> GridLog:
    """The log of messages, on whatever grid there is."""
    settings = LogSettings(
        shards=config.shards,
        generation_seconds=config.generation,
        retention_seconds=config.retention,
        retention_bytes=config.retention_bytes,
        topics=tuple(retention_of(entry) for entry in config.topics),
        max_streams=config.max_streams,
        page_cache_bytes=config.page_cache,
    )
    return GridLog(grid, store, clock, settings)


def make_listener_settings(name: str, config: ListenerConfig) -> ListenerSettings:
    """A listener as the pipeline knows it."""
    tls = None
    if config.tls.cert is not None:
        tls = TlsSettings(
            certificate=config.tls.cert,
            key=config.tls.key or config.tls.cert,
            client_ca=config.tls.ca or "",
            require_client_certificate=config.tls.require_client_certificate,
            min_version=config.tls.min_version,
        )
    return ListenerSettings(
        name=name,
        host=config.host,
        port=config.port,
        max_connections=config.max_connections,
        backlog=config.backlog,
        reuse_port=config.reuse_port,
        proxy_protocol=config.proxy_protocol,
        tls=tls,
        websocket=WebSocketSettings(path=config.path) if config.protocol == "websocket" else None,
        outbox=OutboxSettings(config.outbox.high, config.outbox.low, config.outbox.limit),
    )


def make_layout(broker: Broker, config: Config) -> Callable[[ListenerSettings], Layout]:
    """The stages of an MQTT connection above what its transport needs."""
    settings = broker.settings

    def layout(listener: ListenerSettings) -> Layout:
        durable = config.durable_sessions.enable and config.listeners[listener.name].durable_sessions
        return Layout(
            [
                ("connect-timeout", lambda: ConnectTimeoutStage(settings.connect_timeout)),
                ("mqtt", lambda: MqttCodecStage(settings.max_packet_size)),
                ("idle", IdleStage),
                ("broker", lambda: Connection(broker, durable_sessions=durable)),
            ]
        )

    return layout


def bound(listening: Any) -> str:
    """``host:port`` of an open port, IPv6 in brackets."""
    host = listening.host
    return f"[{host}]:{listening.port}" if ":" in host else f"{host}:{listening.port}"
