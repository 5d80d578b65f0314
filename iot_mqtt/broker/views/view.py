"""The facade for the admin side, put together: listings and commands over one broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from iot_mqtt.broker.connections.prospects import Prospects
from iot_mqtt.broker.views.clients_view import ClientsView
from iot_mqtt.broker.views.cluster_view import ClusterView
from iot_mqtt.broker.views.dropped_view import DroppedView
from iot_mqtt.broker.views.figures import Figures
from iot_mqtt.broker.views.log_view import LogView
from iot_mqtt.broker.views.messages_view import MessagesView
from iot_mqtt.broker.views.sessions_view import SessionsView
from iot_mqtt.broker.views.subscriptions_view import SubscriptionsView
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.status import BrokerInfo, UplinkInfo


class View:
    """``facade.BrokerView`` over a running broker: how the node is, and who shows what else."""

    def __init__(
        self,
        *,
        node_id: str,
        version: str,
        started_at: float,
        formats: Mapping[str, int],
        counters: Counters,
        figures: Figures,
        clients: ClientsView,
        sessions: SessionsView,
        messages: MessagesView,
        subscribing: SubscriptionsView,
        log: LogView,
        cluster: ClusterView,
        dropped: DroppedView,
        prospects: Prospects,
        refuses: Callable[[], bool],
        uplink: Callable[[], UplinkInfo | None],
        alarms: Sequence[Callable[[], tuple[Alarm, ...]]],
    ) -> None:
        """``formats``: of what the node keeps; ``refuses``: whether nobody should come here; ``uplink``: what leaves
        towards the data platform, None if nothing does; ``alarms``: who has something to say to an operator.
        """
        self._identity = {"node_id": node_id, "version": version, "started_at": started_at, **formats}
        self._figures = figures
        self._refuses = refuses
        self.counters, self.log, self.cluster, self.uplink = counters, log, cluster, uplink
        self.clients, self.client, self.kick = clients.clients, clients.client, clients.kick
        self.attempts, self.unnamed = clients.attempts, clients.unnamed
        self.unwanted, self.dropped = messages.unwanted, dropped.dropped
        #: What would become of clients.
        self.prospects = prospects
        self.sessions, self.session, self.purge = sessions.sessions, sessions.session, sessions.purge
        self.counted, self.counting = sessions.counted, sessions.counting
        self.backlog, self.subscriptions = sessions.backlog, sessions.subscriptions
        self.retained, self.remove_retained = messages.retained, messages.remove_retained
        self.publish, self.publish_all = messages.publish, messages.publish_all
        self.remove_all_retained = messages.remove_all_retained
        self.subscribing = subscribing
        self.ready = False
        #: What else has something to say to an operator.
        self.further_alarms = list(alarms)

    @property
    def serving(self) -> bool:
        """Whether clients should come here."""
        return self.ready and not self._refuses()

    def _state(self) -> str:
        state = self.cluster.progress().state
        if state == "serving" and self._refuses():
            return "apart"
        return state if self.ready else "not_ready"

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should know."""
        return tuple(alarm for source in self.further_alarms for alarm in source())

    def info(self) -> BrokerInfo:
        """Figures for the node as a whole."""
        alarms = tuple(one.text for one in self.alarms)
        return self._figures.info(
            **self._identity, number=self.cluster.number, ready=self.serving, state=self._state(), alarms=alarms
        )
