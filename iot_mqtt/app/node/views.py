"""What people see of a node, put together from the parts of its broker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from iot_mqtt.broker.cluster.rebalancing import Rebalancing
from iot_mqtt.broker.cluster.references import LeastLoaded
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.handlers import Requests
from iot_mqtt.broker.driving import breath
from iot_mqtt.broker.views.backlog import Backlogs
from iot_mqtt.broker.views.clients_view import ClientsView
from iot_mqtt.broker.views.cluster_view import ClusterView, Together
from iot_mqtt.broker.views.dropped_view import DroppedView
from iot_mqtt.broker.views.figures import Figures
from iot_mqtt.broker.views.log_view import LogView, Verification
from iot_mqtt.broker.views.messages_view import MessagesView
from iot_mqtt.broker.views.sessions_view import SessionsView
from iot_mqtt.broker.views.subscriptions_view import SubscriptionsView
from iot_mqtt.broker.views.view import View
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.log import Breath
from iot_mqtt.ports.questions import Asking
from iot_mqtt.ports.registry import Member, Registry
from iot_mqtt.ports.status import UplinkInfo


class Neighbours(Together, Protocol):
    """The part of ``cluster.ClusterNode`` that operators, and clients on their way, deal with."""

    @property
    def number(self) -> int: ...

    @property
    def questions(self) -> Asking: ...

    def drain(self, draining: bool = True) -> None:
        """Tell the others whether this node takes clients."""


def make_view(
    broker: Composition,
    *,
    node_id: str,
    version: str,
    started_at: float,
    formats: Mapping[str, int] | None = None,
    breathe: Breath | None = None,
) -> View:
    """The facade for the admin side; ``formats``: of what the node keeps, as ``BrokerInfo`` has them. ``breathe``: when
    its long lists go on; without it in the next turn.
    """
    breathe = breathe or partial(breath, broker.turn.call_soon)
    turn, sessions, log, budget = broker.turn, broker.sessions, broker.log, broker.publishing.budget

    def uplink() -> UplinkInfo | None:
        return None if broker.uplink is None else broker.uplink.info()

    def alarms() -> tuple[Alarm, ...]:
        return budget.alarms if broker.uplink is None else (*budget.alarms, *broker.uplink.alarms)

    groups, outflow, upkeep = broker.readers.groups, broker.readers.outflow, broker.readers.upkeep
    path, retention = broker.publishing.path, broker.publishing.retention
    attempts, lifecycle, connections = broker.monitoring.attempts, broker.lifecycle, broker.clients.connections
    cluster = make_cluster_view(broker, node_id=node_id, version=version)
    backlogs = Backlogs(groups, log, breathe)
    verification = Verification(log, broker.clock, turn.call_soon)
    levels = broker.settings.max_topic_levels
    requests = Requests(broker.settings, broker.clock, broker.counters, log)
    return View(
        node_id=node_id,
        version=version,
        started_at=started_at,
        formats=formats or {},
        counters=broker.counters,
        figures=Figures(
            connections,
            sessions,
            groups,
            broker.readers.elsewhere_count,
            lifecycle.subscriptions,
            retention,
            budget,
            broker.counters,
        ),
        clients=ClientsView(sessions, attempts, budget, turn, breathe),
        sessions=SessionsView(sessions, backlogs, outflow, attempts, lifecycle.ending.end, turn, breathe),
        messages=MessagesView(
            path, retention, broker.counters, turn, broker.clock, levels, broker.clients.limiting.publishes
        ),
        subscribing=SubscriptionsView(
            sessions,
            lifecycle.subscriptions,
            requests,
            broker.publishing.retained_reading,
            broker.settings,
            broker.clock,
            turn,
            breathe,
        ),
        log=LogView(log, broker.store, budget, upkeep, verification, broker.clock, breathe),
        cluster=cluster,
        dropped=DroppedView(broker.counters.recent, attempts, breathe),
        prospects=broker.prospects,
        refuses=lambda: broker.clients.door.refusing is not None or broker.store.outage() is not None,
        uplink=uplink,
        alarms=[
            alarms,
            lambda: upkeep.alarms,
            lambda: broker.time.alarms,
            lambda: lifecycle.deadlines.alarms,
            lambda: cluster.alarms,
        ],
    )


def make_cluster_view(broker: Composition, *, node_id: str, version: str) -> ClusterView:
    """Its part about the cluster."""
    return ClusterView(
        broker.clients.draining,
        broker.clients.connections,
        broker.store,
        broker.publishing.budget,
        broker.counters,
        node_id=node_id,
        version=version,
    )


def join(broker: Composition, view: ClusterView, node_id: str, node: Neighbours, registry: Registry) -> None:
    """Be one of several: clients are sent to the others, and the others learn that this node takes none."""

    def members() -> list[Member]:
        return list(registry.members.values())

    draining, connections = broker.clients.draining, broker.clients.connections
    references = LeastLoaded(members, node.number, broker.clock, broker.settings.server_reference)
    connections.reference = references
    draining.on_change = lambda: node.drain(draining.active)
    rebalancing = Rebalancing(
        draining, lambda: connections.clients, node_id, node.number, node.questions, members, references
    )
    view.join(node, rebalancing)
