"""A node's broker: its compositions by subject, made in their order, and what may be added to it.

::

    Runtime ─▶ routing ─▶ readers ─▶ publishing ─▶ clients ─▶ lifecycle ─▶ login ─▶ inbound
               topics,    logs,      what happens  who is     sessions     CONNECT  packets
               steps      groups     to a message  let in     and wills
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from secrets import token_hex

from iot_mqtt.broker.cluster.clustering import Clustering
from iot_mqtt.broker.cluster.other_logs import Follow
from iot_mqtt.broker.composition.clients import Clients
from iot_mqtt.broker.composition.inbound import InboundPackets
from iot_mqtt.broker.composition.joining import make_clustering
from iot_mqtt.broker.composition.lifecycle import Lifecycle
from iot_mqtt.broker.composition.login import Login
from iot_mqtt.broker.composition.monitoring import Monitoring
from iot_mqtt.broker.composition.publish_path import PublishPath
from iot_mqtt.broker.composition.readers import Readers
from iot_mqtt.broker.composition.routing import Routing
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.connections.client_writer import Output
from iot_mqtt.broker.connections.connection import Kind, Serving
from iot_mqtt.broker.connections.traffic import Rates
from iot_mqtt.broker.retention_clock import RetentionClock
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.settings import BudgetSettings, LogUse, MqttSettings
from iot_mqtt.broker.traces.fanout import TracedFanOut
from iot_mqtt.broker.traces.inbound import TracedPublish, Watch
from iot_mqtt.broker.traces.runs import TracedRun
from iot_mqtt.broker.traces.tracer import Tracer
from iot_mqtt.broker.traces.uplink import TracedSendUp, TracedUplink
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.uplink import SendUp, Uplink
from iot_mqtt.codec import PublishRun
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.access import AuthenticationMethod, Authenticator, Authorizer, Principal
from iot_mqtt.ports.bans import Bans, NoBans
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.limits import Limits
from iot_mqtt.ports.log import Log
from iot_mqtt.ports.recording import RecorderSettings
from iot_mqtt.ports.store import CommitOrder, Store
from iot_mqtt.ports.tracing import Spans, TracesSettings


class Composition:
    """The parts of one node. Everything runs in the reactor's thread."""

    def __init__(
        self,
        *,
        settings: MqttSettings,
        store: Store,
        log: Log,
        counters: Counters,
        clock: Clock,
        wheel: TimingWheel,
        authenticator: Authenticator,
        authorizer: Authorizer,
        methods: Mapping[str, AuthenticationMethod] | None = None,
        limits: Callable[[Principal], Limits | None] = lambda _: None,
        rates: Mapping[str, Rates] | None = None,
        log_use: LogUse | None = None,
        budget: BudgetSettings | None = None,
        disk: DiskMeter | None = None,
        clean_for_others: bool = False,
        bans: Bans | None = None,
        recording: RecorderSettings | None = None,
        call_soon: Callable[[Callable[[], None]], None],
        new_id: Callable[[], str] = lambda: token_hex(12),
    ) -> None:
        self.settings, self.store, self.log = settings, store, log
        self.counters, self.clock = counters, clock
        self.turn = turn = Turn(store, call_soon, counters.acknowledgement_wait)
        self.time = RetentionClock(clock, lambda: log.known_time, lambda: _first(log))
        self._runtime = runtime = Runtime(settings, store, log, counters, clock, self.time, wheel, turn, call_soon)
        log_use = log_use or LogUse()
        self.routing = routing = Routing(settings)
        self.sessions = sessions = Sessions(settings)
        self.readers = readers = Readers(runtime, log_use, sessions, routing)
        self.publishing = publishing = PublishPath(
            runtime, log_use, sessions, routing, readers, budget or BudgetSettings(), disk
        )
        self.monitoring = monitoring = Monitoring(recording or RecorderSettings(), clock)
        bans = NoBans() if bans is None else bans
        self.clients = clients = Clients(
            runtime, sessions, routing.accompaniment, publishing, monitoring, bans, limits, rates or {}
        )
        self.lifecycle = lifecycle = Lifecycle(
            runtime,
            sessions,
            routing,
            readers,
            publishing,
            clients.connections,
            monitoring.attempts,
            authorizer,
            clean_for_others=clean_for_others,
        )
        self._login = login = Login(
            runtime,
            sessions,
            readers.outflow,
            clients,
            lifecycle,
            authenticator,
            authorizer,
            dict(methods or {}),
            new_id,
        )
        self.prospects = login.prospects
        self.inbound = InboundPackets(runtime, sessions, routing, readers, publishing, lifecycle, login)
        #: What feeds the data platform from the log, if anything does.
        self.uplink: Uplink | None = None
        self._tracer: Tracer | None = None

    def serving(self, kind: Kind = Kind()) -> Serving:  # noqa: B008 - it is frozen
        """What the connections of a listener share."""
        output = Output(self.turn, self.store, self.counters, self.clock)
        return Serving(output, self.inbound.dispatch, self.clients.connections, kind, self.clients.allowance)

    def join(self, peers: Peers, follow: Follow) -> Clustering:
        """Be one node of several from now on; before anything is loaded."""
        clustering = make_clustering(
            self._runtime,
            self.sessions,
            self.routing,
            self.readers,
            self.publishing,
            self.lifecycle,
            peers,
            follow,
        )
        self._login.admission.claim = clustering.claims.claim
        return clustering

    def feed(self, uplink: Uplink) -> None:
        """Something feeds the data platform from the log from now on."""
        self.uplink = uplink
        if uplink.holding is not None:
            self.inbound.answers.holding = uplink.holding
            self.clients.connections.on_closed += (uplink.holding.forget,)
        self.store.enlist(CommitOrder.UPLINK, uplink)
        self.readers.upkeep.followers.append(uplink)
        publishing = self.publishing
        parts = (uplink, publishing.recording, publishing.budget, self.counters, self.store, self.turn)
        if self._tracer is None or uplink.kind != "kafka":
            self.routing.steps.add(SendUp(*parts))
            return
        traced = TracedUplink(self._tracer, uplink)
        uplink.send = traced.send
        self.routing.steps.add(TracedSendUp(*parts, self._tracer, traced))

    def trace(self, settings: TracesSettings, spans: Spans) -> Tracer:
        """Messages of watched clients are traced from now on; before any client is there, and before ``feed``."""
        self._tracer = tracer = Tracer(settings, spans, self.clock, self.store)
        readers, publishing, inbound = self.readers, self.publishing, self.inbound
        publishing.path.fan_out = TracedFanOut(
            self.counters, self.store, publishing.recording, readers.outflow, readers.groups, tracer
        )
        inbound.handlers[TracedRun] = TracedPublish(tracer, inbound.handlers[PublishRun]).serve
        self.clients.connections.on_connected += (Watch(tracer, inbound.dispatch).connected,)
        self.turn.at_commit = (tracer.committed, *self.turn.at_commit)
        return tracer


def _first(log: Log) -> float | None:
    """When the oldest that the log has began."""
    return min((one.began_at for one in log.generations()), default=None)
