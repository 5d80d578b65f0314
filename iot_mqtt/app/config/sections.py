"""What a node can be told: the sections of ``application.yaml`` as frozen values.

The shape and the defaults are here and nowhere else. What each key means, and what it may be beyond its
type, is in ``keys.yaml``. ``mqtt``, ``auth``, ``devices``, ``admin``, ``recorder``, ``telemetry.traces``,
``uplink.file`` and ``uplink.kafka`` are the settings of the packages that use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.ports.recording import RecorderSettings
from iot_mqtt.ports.tracing import TracesSettings
from iot_mqtt.uplink.kafka.settings import KafkaSettings
from iot_mqtt.uplink.settings import FileSettings

Protocol = Literal["mqtt", "websocket", "frames"]
GridKind = Literal["embedded", "ignite", "memory"]


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """``node.*``: the process itself."""

    id: str = "node-1"
    data_dir: str = "data"
    readable_by: Literal["owner", "group"] = "owner"
    drain_seconds: float = 30.0
    gc_threshold: int = 1_000


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """``listeners.<name>.tls.*`` and ``admin.tls.*``: paths of PEM files; TLS is on when ``cert`` is set."""

    cert: str | None = None
    key: str | None = None
    certificates: tuple[Mapping[str, object], ...] = ()
    ca: str | None = None
    crl: tuple[str, ...] = ()
    require_client_certificate: bool = False
    min_version: Literal["1.2", "1.3"] = "1.2"
    ciphers: str | None = None
    groups: tuple[str, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The further certificates, each with its key."""
        return tuple((str(one.get("cert")), str(one.get("key") or one.get("cert"))) for one in self.certificates)


@dataclass(frozen=True, slots=True)
class DoorsConfig:
    """``doors.*``: what all listeners let in together."""

    max_connections: int = 0
    max_connections_per_address: int = 0
    address_rate: float = 200.0
    address_burst: int = 10_000
    unlimited_addresses: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    flapping_count: int = 0
    flapping_seconds: float = 60.0
    flapping_ban: float = 300.0
    guessing_count: int = 20
    guessing_seconds: float = 60.0
    guessing_ban: float = 60.0
    busy_lag: float = 1.0
    busy_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class AdminConfig(AdminSettings):
    """``admin.*``."""

    allow_plain: bool = False
    tls: TlsConfig = TlsConfig()

    @property
    def scheme(self) -> str:
        """Of its URL."""
        return "http" if self.tls.cert is None else "https"


@dataclass(frozen=True, slots=True)
class OutboxConfig:
    """``listeners.<name>.outbox.*``: bytes that may wait for one connection."""

    high: int = 1024 * 1024
    low: int = 256 * 1024
    limit: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """``listeners.<name>.*``: one port."""

    enabled: bool = True
    protocol: Protocol = "mqtt"
    host: str = "127.0.0.1"
    port: int = 0
    max_connections: int = 1_000_000
    connect_rate: float = 0.0
    connect_burst: int = 1000
    backlog: int = 4096
    reuse_port: bool = False
    proxy_protocol: bool = False
    trusted_proxies: tuple[str, ...] = ()
    path: str = "/mqtt"
    allowed_origins: tuple[str, ...] = ()
    codec: str | None = None
    heartbeat: float = 60.0
    command_expiry: int = 7 * 24 * 3600
    commands_at_once: int = 64
    durable_sessions: bool = True
    auth_chain: tuple[str, ...] = ()
    message_rate: float = 0.0
    byte_rate: float = 0.0
    tls: TlsConfig = TlsConfig()
    outbox: OutboxConfig = OutboxConfig()

    @property
    def secure(self) -> bool:
        """Whether this port speaks TLS."""
        return self.tls.cert is not None


def known_listeners() -> dict[str, ListenerConfig]:
    """The listeners that exist without being named in a file; those that speak TLS want a certificate first."""
    return {
        "mqtt": ListenerConfig(port=1883),
        "mqtts": ListenerConfig(enabled=False, port=8883),
        "ws": ListenerConfig(protocol="websocket", port=8083),
        "wss": ListenerConfig(enabled=False, protocol="websocket", port=8084),
        "gateway": ListenerConfig(protocol="frames", port=9600, codec="gateway"),
    }


@dataclass(frozen=True, slots=True)
class ClientTlsConfig:
    """``grid.ignite.tls.*`` and ``registry.zookeeper.tls.*``: paths of PEM files; TLS is on when ``ca`` is set."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class IgniteConfig:
    """``grid.ignite.*``: how to reach an Ignite cluster."""

    addresses: tuple[str, ...] = ("127.0.0.1:10800",)
    gateway: tuple[str, ...] = ("127.0.0.1:10900",)
    token: str = ""
    tls: ClientTlsConfig = ClientTlsConfig()


@dataclass(frozen=True, slots=True)
class GridConfig:
    """``grid.*``: where sessions, subscriptions and messages are kept."""

    kind: GridKind = "embedded"
    ignite: IgniteConfig = IgniteConfig()


@dataclass(frozen=True, slots=True)
class ZookeeperConfig:
    """``registry.zookeeper.*``."""

    hosts: tuple[str, ...] = ("127.0.0.1:2181",)
    path: str = "/services/ignite"
    session_timeout: float = 5.0
    username: str | None = None
    password: str | None = None
    tls: ClientTlsConfig = ClientTlsConfig()


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """``registry.static.*``."""

    nodes: tuple[str, ...] = ()
    timeout: float = 6.0


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """``registry.*``: how the nodes of a cluster find each other."""

    kind: Literal["none", "zookeeper", "static"] = "none"
    zookeeper: ZookeeperConfig = ZookeeperConfig()
    static: StaticConfig = StaticConfig()


@dataclass(frozen=True, slots=True)
class UplinkCommandsConfig:
    """``uplink.commands.*``: commands to devices that come from Kafka."""

    topic: str | None = "iot.commands"
    group: str = "iot-mqtt"
    dead_letters: str | None = "iot.dead"
    max_age: float = 3600.0
    user: str = ""


@dataclass(frozen=True, slots=True)
class UplinkConfig:
    """``uplink.*``: what leaves towards the data platform."""

    kind: Literal["none", "file", "kafka"] = "file"
    ack: Literal["spool", "kafka"] = "spool"
    file: FileSettings = field(default_factory=FileSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    commands: UplinkCommandsConfig = UplinkCommandsConfig()
    rules: tuple[Mapping[str, object], ...] = ({"filter": "up/#", "to": "iot.readings"},)


@dataclass(frozen=True, slots=True)
class PipelineCleanConfig:
    """``pipeline.clean.*``."""

    topic: str | None = "iot.clean"
    invalid_topic: str | None = "iot.invalid"
    future_seconds: int = 3600


@dataclass(frozen=True, slots=True)
class PipelineAggregateConfig:
    """``pipeline.aggregate.*``."""

    window_seconds: int = 60
    lateness_seconds: int = 600


@dataclass(frozen=True, slots=True)
class PipelineAlarmConfig:
    """``pipeline.alarm.*``."""

    topic: str | None = "iot.alarms"
    commands_topic: str | None = "iot.commands"


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """``pipeline.*``: what Spark makes of what went up."""

    dir: str | None = None
    source: Literal["auto", "files", "kafka"] = "auto"
    topics: tuple[str, ...] = ("iot.readings",)
    rules: str | None = None
    master: str = "local[2]"
    memory: str = "1g"
    trigger_seconds: float = 5.0
    watermark_minutes: int = 60
    max_records: int = 200_000
    max_files: int = 100
    clean: PipelineCleanConfig = PipelineCleanConfig()
    aggregate: PipelineAggregateConfig = PipelineAggregateConfig()
    alarm: PipelineAlarmConfig = PipelineAlarmConfig()


@dataclass(frozen=True, slots=True)
class DurableSessionsConfig:
    """``durable_sessions.*``: sessions that outlive the node."""

    enable: bool = True
    progress_delay: float = 0.1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """``log.*``: what the node says of itself (``level``, ``format``, ``file``), and the log of messages."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"
    file: str | None = None
    shards: int = 4
    generation: float = 3600.0
    retention: float = 7 * 24 * 3600.0
    retention_bytes: int = 8 * 1024**3
    topics: tuple[Mapping[str, object], ...] = ()
    record: tuple[str, ...] = ()
    batch_size: int = 500
    max_streams: int = 65_536
    page_cache: int = 64 * 1024**2
    disk_limit: int = 0
    disk_reserve: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class PluginsConfig:
    """``plugins.*``: the codecs of other protocols than MQTT."""

    codecs: tuple[Mapping[str, object], ...] = ()
    allowed_wheels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventsConfig:
    """``events.*``: who is told what happens on this node, beside the API."""

    topics: bool = False
    webhooks: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """``telemetry.*``: what is told to programs of others."""

    traces: TracesSettings = field(default_factory=TracesSettings)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a node was told, checked. Paths are absolute."""

    node: NodeConfig = NodeConfig()
    listeners: Mapping[str, ListenerConfig] = field(default_factory=known_listeners)
    doors: DoorsConfig = DoorsConfig()
    admin: AdminConfig = AdminConfig()
    grid: GridConfig = GridConfig()
    registry: RegistryConfig = RegistryConfig()
    uplink: UplinkConfig = UplinkConfig()
    pipeline: PipelineConfig = PipelineConfig()
    plugins: PluginsConfig = PluginsConfig()
    devices: DevicesSettings = field(default_factory=DevicesSettings)
    mqtt: MqttSettings = field(default_factory=MqttSettings)
    durable_sessions: DurableSessionsConfig = DurableSessionsConfig()
    auth: AuthSettings = field(default_factory=AuthSettings)
    log: LogConfig = LogConfig()
    recorder: RecorderSettings = field(default_factory=RecorderSettings)
    events: EventsConfig = EventsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @property
    def enabled_listeners(self) -> dict[str, ListenerConfig]:
        """The listeners that a serving node opens, by name."""
        return {name: listener for name, listener in self.listeners.items() if listener.enabled}
