"""The figures of a node as a whole."""

from __future__ import annotations

from typing import Any

from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.readers.elsewhere_count import ElsewhereCount
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.views.tally import tally
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.status import BrokerInfo


class Figures:
    """Added up when they are asked for."""

    def __init__(
        self,
        connections: Connections,
        sessions: Sessions,
        groups: SharedGroups,
        elsewhere_count: ElsewhereCount,
        subscriptions: Subscriptions,
        retention: Retention,
        budget: Budget,
        counters: Counters,
    ) -> None:
        self._connections = connections
        self._sessions = sessions
        self._groups = groups
        self._elsewhere_count = elsewhere_count
        self._subscriptions = subscriptions
        self._retention = retention
        self._budget = budget
        self._counters = counters

    def info(self, **node: Any) -> BrokerInfo:
        """``node``: what the figures do not say."""
        self._connections.count_bytes()
        found, retained = tally(self._sessions, self._groups), self._retention.index
        waiting = found.queued + found.backlog + found.inflight - found.released
        return BrokerInfo(
            clients=self._connections.clients,
            sessions=len(self._sessions),
            subscriptions=self._subscriptions.count,
            retained=retained.count - retained.system_count,
            retained_bytes=retained.bytes - retained.system_bytes,
            retained_system=retained.system_count,
            queued=found.queued + found.backlog,
            inflight=found.inflight,
            waiting=waiting,
            in_memory=found.in_memory,
            unexplained=self._counters.unconfirmed - waiting,
            backlog=found.backlog,
            uncounted=found.uncounted + self._elsewhere_count.uncounted,
            largest_backlog=found.largest,
            furthest_lag=found.furthest,
            paused=self._budget.paused_count,
            **node,
        )
