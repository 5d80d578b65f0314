"""From configuration to parts: which grid, which listeners, which stages. The only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from iot_mqtt.app.config_sections import Config, ListenerConfig
from iot_mqtt.broker.broker import Broker
from iot_mqtt.broker.connection import Connection
from iot_mqtt.grid.embedded import EmbeddedGrid
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


def make_grid(config: Config, cross: Callable[[Callable[[], None]], object]) -> EmbeddedGrid | MemoryGrid:
    """The grid of ``grid.kind``; ``cross`` runs a call in the reactor's thread."""
    if config.grid.kind == "memory":
        return MemoryGrid()
    directory = Path(config.node.data_dir) / "grid"
    return EmbeddedGrid(directory, cross)


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


def make_layout(broker: Broker) -> Callable[[ListenerSettings], Layout]:
    """The stages of an MQTT connection above what its transport needs."""
    settings = broker.settings

    def layout(_listener: ListenerSettings) -> Layout:
        return Layout(
            [
                ("connect-timeout", lambda: ConnectTimeoutStage(settings.connect_timeout)),
                ("mqtt", lambda: MqttCodecStage(settings.max_packet_size)),
                ("idle", IdleStage),
                ("broker", lambda: Connection(broker)),
            ]
        )

    return layout


def bound(listening: Any) -> str:
    """``host:port`` of an open port, IPv6 in brackets."""
    host = listening.host
    return f"[{host}]:{listening.port}" if ":" in host else f"{host}:{listening.port}"
