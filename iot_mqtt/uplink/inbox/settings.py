"""What the inbox is told: where Kafka is, which topic, and as whom it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """One node's."""

    #: Properties of librdkafka that say where the brokers are and how to be let in.
    connection: Mapping[str, object] = field(default_factory=dict)
    topic: str = "iot.commands"
    #: The nodes of a cluster share one: each partition is read by one of them.
    group: str = "iot-mqtt"
    #: Which member of the group this is, the same after a restart: the id of the node.
    member: str = "node-1"
    #: Where letters are buried; None: nowhere but in the node's log.
    dead_letters: str | None = "iot.dead"
    #: A group that has no position yet begins so many seconds ago.
    max_age: float = 3600.0
