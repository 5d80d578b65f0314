"""What a configuration value may be beyond its type, by key; ``*`` stands for any one name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_UINT32 = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a number; ``highest`` None: no upper bound."""

    lowest: float
    highest: float | None = None

    def __str__(self) -> str:
        return f"{self.lowest:g} or more" if self.highest is None else f"{self.lowest:.15g} to {self.highest:.15g}"

    def holds(self, value: float) -> bool:
        return self.lowest <= value and (self.highest is None or value <= self.highest)


RANGES = {
    "node.drain_seconds": Range(0, 3600),
    "node.gc_threshold": Range(0),
    "listeners.*.port": Range(0, 65535),
    "listeners.*.max_connections": Range(1),
    "listeners.*.backlog": Range(1, 65535),
    "listeners.*.outbox.high": Range(1024),
    "listeners.*.outbox.low": Range(0),
    "listeners.*.outbox.limit": Range(1024),
    "listeners.*.heartbeat": Range(1, 65535),
    "listeners.*.command_expiry": Range(0, _UINT32),
    "listeners.*.commands_at_once": Range(1, 65535),
    "devices.max_devices": Range(1),
    "devices.max_devices_behind": Range(1),
    "devices.silent_after": Range(1),
    "devices.max_commands": Range(1),
    "devices.max_finished_commands": Range(0),
    "devices.keep_commands": Range(0),
    "devices.longest_command": Range(1),
    "devices.grace": Range(0),
    "devices.seen_interval": Range(1),
    "devices.shadow_interval": Range(0),
    "devices.max_shadow_bytes": Range(64),
    "admin.port": Range(0, 65535),
    "admin.max_connections": Range(1),
    "admin.max_connections_per_address": Range(1),
    "admin.request_timeout": Range(0.1, 3600),
    "admin.idle_timeout": Range(0.1, 3600),
    "registry.zookeeper.session_timeout": Range(1, 600),
    "registry.static.timeout": Range(1, 600),
    "uplink.file.rotate_bytes": Range(4096),
    "uplink.file.rotate_seconds": Range(0.1, 86_400),
    "uplink.file.limit": Range(0),
    "uplink.file.reserve": Range(0),
    "uplink.kafka.linger_seconds": Range(0, 10),
    "uplink.kafka.batch_bytes": Range(1024, 100_000_000),
    "uplink.kafka.buffer_bytes": Range(65_536, 1_000_000_000),
    "uplink.kafka.partitions": Range(0, 100_000),
    "uplink.kafka.replication": Range(0, 100),
    "uplink.commands.max_age": Range(1),
    "pipeline.trigger_seconds": Range(0.1, 86_400),
    "pipeline.watermark_minutes": Range(1, 44_640),
    "pipeline.max_records": Range(1),
    "pipeline.max_files": Range(1),
    "pipeline.clean.future_seconds": Range(0),
    "pipeline.aggregate.window_seconds": Range(1, 86_400),
    "pipeline.aggregate.lateness_seconds": Range(0),
    "mqtt.receive_maximum": Range(1, 65535),
    "mqtt.topic_alias_maximum": Range(0, 65535),
    "mqtt.topic_alias_maximum_outbound": Range(0, 65535),
    "mqtt.max_packet_size": Range(64, 268_435_460),
    "mqtt.max_qos": Range(0, 2),
    "mqtt.server_keep_alive": Range(0, 65535),
    "mqtt.session_expiry_interval": Range(0, _UINT32),
    "mqtt.connect_timeout": Range(0.1, 3600),
    "mqtt.max_connect_size": Range(64, 268_435_460),
    "mqtt.max_connecting_bytes": Range(65_536),
    "mqtt.max_replays_per_client": Range(0),
    "mqtt.max_replays": Range(0),
    "mqtt.replay_bytes": Range(65_536),
    "mqtt.max_queued_messages": Range(0),
    "mqtt.max_queued_bytes": Range(0),
    "mqtt.max_inflight": Range(1, 65535),
    "mqtt.max_client_id_length": Range(23, 65535),
    "mqtt.max_topic_levels": Range(1, 65535),
    "mqtt.max_subscriptions_per_client": Range(1),
    "mqtt.max_filters_per_subscribe": Range(1),
    "mqtt.max_retained_messages": Range(0),
    "mqtt.max_retained_bytes": Range(0),
    "mqtt.sys_interval": Range(0),
    "log.shards": Range(1, 256),
    "log.generation": Range(1),
    "log.retention": Range(0),
    "log.retention_bytes": Range(0),
    "durable_sessions.progress_delay": Range(0, 60),
    "log.batch_size": Range(1, 100_000),
    "log.max_streams": Range(1, 16_777_216),
    "log.page_cache": Range(0),
    "log.disk_limit": Range(0),
    "log.disk_reserve": Range(0),
    "auth.hash_threads": Range(1, 64),
    "auth.hash_queue": Range(1),
    "auth.guess_burst": Range(0),
    "auth.guess_seconds": Range(0.001, 3600),
    "auth.verdict_cache_seconds": Range(0),
    "auth.verdict_cache_size": Range(0),
    "auth.reload_seconds": Range(0),
}

#: Choices of keys whose own type is plain text.
CHOICES = {
    "mqtt.shared_policy": ("round_robin", "sticky", "hash_client", "hash_topic", "least_inflight"),
}

_TOPIC = (r"[A-Za-z0-9._-]{1,249}", "a topic of Kafka: letters, digits, '.', '_' and '-', at most 249")

#: What a text must look like, and how to say so.
PATTERNS = {
    "node.id": (r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "letters, digits, '.', '_' and '-', at most 64"),
    "node.data_dir": (r"(?s).+", "a directory"),
    "listeners.*.host": (r"\S+", "an address or host name ('0.0.0.0' for every interface)"),
    "listeners.*.path": (r"/\S*", "a path that starts with '/'"),
    "admin.host": (r"\S+", "an address or host name"),
    "pipeline.master": (r"\S+", "a master of Spark, such as local[2]"),
    "pipeline.memory": (r"[1-9][0-9]{0,6}[kmgKMG]", "an amount such as 512m or 2g"),
    "uplink.kafka.dead_letters": _TOPIC,
    "uplink.commands.topic": _TOPIC,
    "uplink.commands.dead_letters": _TOPIC,
    "uplink.commands.group": (r"\S{1,249}", "a name without spaces, of 249 characters at most"),
    "pipeline.clean.topic": _TOPIC,
    "pipeline.clean.invalid_topic": _TOPIC,
    "pipeline.alarm.topic": _TOPIC,
    "pipeline.alarm.commands_topic": _TOPIC,
    "registry.zookeeper.path": (r"(/[^/\s]+)+", "a path like /services/ignite"),
}

#: Relative ones are taken from the directory of the file that names them, else from the working directory.
PATHS = {
    "node.data_dir",
    "pipeline.dir",
    "pipeline.rules",
    "auth.users_file",
    "auth.acl_file",
    "log.file",
    "listeners.*.tls.cert",
    "listeners.*.tls.key",
    "listeners.*.tls.ca",
    "uplink.kafka.security.ca",
    "uplink.kafka.security.cert",
    "uplink.kafka.security.key",
}

LISTENER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def pattern_of(key: str) -> str:
    """The key as the tables above spell it: ``listeners.mqtt.port`` is ``listeners.*.port``."""
    parts = key.split(".")
    if parts[0] == "listeners" and len(parts) > 1:
        parts[1] = "*"
    return ".".join(parts)


def complaint(key: str, value: object) -> str | None:
    """What is wrong with a well-typed value, or None."""
    checks: tuple[Callable[[str, object], str | None], ...] = (_range, _choice, _pattern)
    pattern = pattern_of(key)
    return next((text for check in checks if (text := check(pattern, value))), None)


def _range(pattern: str, value: object) -> str | None:
    bounds = RANGES.get(pattern)
    if bounds is None or not isinstance(value, int | float) or bounds.holds(value):
        return None
    return f"must be {bounds}, not {value}"


def _choice(pattern: str, value: object) -> str | None:
    choices = CHOICES.get(pattern)
    if choices is None or value in choices:
        return None
    return f"must be one of {', '.join(choices)}, not {value!r}"


def _pattern(pattern: str, value: object) -> str | None:
    rule = PATTERNS.get(pattern)
    if rule is None or not isinstance(value, str) or re.fullmatch(rule[0], value):
        return None
    return f"must be {rule[1]}, not {value!r}"
