"""The ``$SYS`` tree: what the node tells MQTT clients about itself, under the names that mosquitto made usual."""

from __future__ import annotations

import math

from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.status import BrokerInfo, LogInfo

ROOT = "$SYS/broker/"

#: Minutes that the load averages look back.
MINUTES = (1, 5, 15)


class Load:
    """Averages per minute and the highest number of clients: the part of the tree that needs a memory.

    ``sample`` is called before each round of the tree; averages decay as the load average of a Unix system does.
    """

    __slots__ = ("clients_maximum", "_averages", "_before", "_sampled_at")

    def __init__(self) -> None:
        self.clients_maximum = 0
        self._averages: dict[str, list[float]] = {}
        self._before: dict[str, int] = {}
        self._sampled_at: float | None = None

    def sample(self, counters: Counters, facts: BrokerInfo, now: float) -> None:
        """Take in what was counted since the last time; ``now`` in seconds of any clock."""
        self.clients_maximum = max(self.clients_maximum, facts.clients)
        totals = _load_totals(counters)
        if self._sampled_at is not None and now > self._sampled_at:
            elapsed = now - self._sampled_at
            for name, total in totals.items():
                self._take(name, (total - self._before[name]) * 60.0 / elapsed, elapsed)
        self._before, self._sampled_at = totals, now

    def topics(self) -> dict[str, str]:
        """The topics below ``load``, without the root."""
        return {
            f"load/{name}/{minutes}min": f"{average:.2f}"
            for name, averages in self._averages.items()
            for minutes, average in zip(MINUTES, averages, strict=True)
        }

    def _take(self, name: str, per_minute: float, elapsed: float) -> None:
        averages = self._averages.setdefault(name, [0.0] * len(MINUTES))
        for place, minutes in enumerate(MINUTES):
            decay = math.exp(-elapsed / (60.0 * minutes))
            averages[place] = averages[place] * decay + per_minute * (1.0 - decay)


def sys_tree(
    counters: Counters, facts: BrokerInfo, now: float, load: Load | None = None, log: LogInfo | None = None
) -> list[tuple[bytes, bytes]]:
    """Topic and payload of every leaf. ``now`` is wall-clock seconds; ``load`` adds what needs a memory."""
    leaves = _node(facts, now) | _counted(counters)
    if log is not None:
        leaves |= _room(log)
    if load is not None:
        leaves |= {"clients/maximum": load.clients_maximum, **load.topics()}
    return [((ROOT + name).encode(), str(value).encode()) for name, value in leaves.items()]


def _node(facts: BrokerInfo, now: float) -> dict[str, object]:
    return {
        "version": f"iot-mqtt version {facts.version}",
        "node": facts.node_id,
        "uptime": f"{max(0, int(now - facts.started_at))} seconds",
        "clients/connected": facts.clients,
        "clients/disconnected": max(0, facts.sessions - facts.clients),
        "clients/total": max(facts.sessions, facts.clients),
        "subscriptions/count": facts.subscriptions,
        "retained messages/count": facts.retained,
        "retained messages/bytes": facts.retained_bytes,
        "store/messages/count": facts.queued,
        "messages/inflight": facts.inflight,
        "clients/paused": facts.paused,
    }


def _room(log: LogInfo) -> dict[str, object]:
    return {
        "store/messages/bytes": log.bytes,
        "disk/used": log.disk_used,
        "disk/limit": log.disk_limit,
        "disk/free": log.disk_free,
        "disk/alarm": log.disk_level,
    }


def _counted(counters: Counters) -> dict[str, object]:
    by_reason = {f"publish/messages/dropped/{reason}": count for reason, count in sorted(counters.dropped.items())}
    return {
        "messages/received": sum(counters.packets_received.values()),
        "messages/sent": sum(counters.packets_sent.values()),
        "publish/messages/received": counters.messages_received,
        "publish/messages/sent": counters.messages_delivered,
        "publish/messages/dropped": sum(counters.dropped.values()),
        "publish/messages/unmatched": counters.messages_unmatched,
        "bytes/received": counters.bytes_received,
        "bytes/sent": counters.bytes_sent,
        "connections/opened": counters.connections_opened,
        "connections/refused": sum(counters.connects_refused.values()),
        **by_reason,
    }


def _load_totals(counters: Counters) -> dict[str, int]:
    return {
        "connections": counters.connections_opened,
        "messages/received": sum(counters.packets_received.values()),
        "messages/sent": sum(counters.packets_sent.values()),
        "publish/received": counters.messages_received,
        "publish/sent": counters.messages_delivered,
        "publish/dropped": sum(counters.dropped.values()),
        "bytes/received": counters.bytes_received,
        "bytes/sent": counters.bytes_sent,
    }
