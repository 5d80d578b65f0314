"""The one place that knows all parts of a node's broker: it makes them, and gives each what it uses.

Nothing below imports this (import-linter holds it to that); the application and tests take the parts from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING

from iot_mqtt.broker.allowance import allowance_of
from iot_mqtt.broker.cluster.arrivals import Arrivals
from iot_mqtt.broker.cluster.beginnings import Beginnings, LogEnds
from iot_mqtt.broker.cluster.claims import Claims
from iot_mqtt.broker.cluster.clustering import Clustering, OwnSessions, ThisNode
from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.cluster.forwarding import Forwarding
from iot_mqtt.broker.cluster.homes import Homes
from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.cluster.links import Links
from iot_mqtt.broker.cluster.other_logs import Follow, OtherLogs
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.cluster.presence import Presence
from iot_mqtt.broker.cluster.releases import Releases
from iot_mqtt.broker.cluster.retained_sync import RetainedSync
from iot_mqtt.broker.cluster.retained_versions import RetainedVersions
from iot_mqtt.broker.cluster.unheard import KeptForUnheard
from iot_mqtt.broker.connections.access import Access
from iot_mqtt.broker.connections.admission import Admission, WillRequests
from iot_mqtt.broker.connections.bouncer import Bouncer
from iot_mqtt.broker.connections.client_writer import Output
from iot_mqtt.broker.connections.connection import Kind, Serving
from iot_mqtt.broker.connections.dispatch import Dispatch, Handler
from iot_mqtt.broker.connections.door import Door
from iot_mqtt.broker.connections.draining import Draining
from iot_mqtt.broker.connections.handlers import (
    AcksHandler,
    AuthHandler,
    ConnectHandler,
    DisconnectHandler,
    PingreqHandler,
    PublishAnswers,
    PublishGate,
    PublishHandler,
    Requests,
    Subacks,
    SubscribeHandler,
    UnsubscribeHandler,
    table,
)
from iot_mqtt.broker.connections.limiting import Limiting
from iot_mqtt.broker.connections.opening import Opening
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.connections.traffic import Rates, Traffic
from iot_mqtt.broker.connections.turn_shares import TurnShares
from iot_mqtt.broker.connections.welcome import Welcome
from iot_mqtt.broker.publishing.accompanying import Accompaniment, Accompany, Accompanying
from iot_mqtt.broker.publishing.batches import class_of
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.depth import Depth
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.broker.publishing.recording import KeptForReplays, Recording
from iot_mqtt.broker.publishing.retained_reading import RetainedReading, read_retained
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.publishing.steps import Steps
from iot_mqtt.broker.readers.application_turns import ApplicationTurns
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.readers.elsewhere import Elsewhere
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.progress import Progress
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.readers.recorded import Recorded
from iot_mqtt.broker.readers.replay_turns import ReplayTurns
from iot_mqtt.broker.readers.room import read_on
from iot_mqtt.broker.recorder import Recorder
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attaching import Attaching
from iot_mqtt.broker.sessions.attempts import Attempts, tell_attempt
from iot_mqtt.broker.sessions.ending import Ending, Expiry, Moving, PassingOn
from iot_mqtt.broker.sessions.keeping import Keeping
from iot_mqtt.broker.sessions.loading import Arriving, Loading, Restoring, Starting
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.broker.sessions.records import SessionRecords
from iot_mqtt.broker.sessions.replays import Replays
from iot_mqtt.broker.sessions.restoring import SessionRestoring
from iot_mqtt.broker.sessions.restoring_clocks import ClockRestoring
from iot_mqtt.broker.sessions.restoring_messages import MessageRestoring
from iot_mqtt.broker.sessions.rights import Rights
from iot_mqtt.broker.sessions.session_readers import SessionReaders
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.sessions.wills import WillPublishing, Wills
from iot_mqtt.broker.settings import BudgetSettings, LogUse, MqttSettings
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.traces.fanout import TracedFanOut
from iot_mqtt.broker.traces.inbound import TracedPublish, Watch
from iot_mqtt.broker.traces.runs import TracedRun
from iot_mqtt.broker.traces.tracer import Tracer
from iot_mqtt.broker.traces.uplink import TracedSendUp, TracedUplink
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.upkeep import Upkeep
from iot_mqtt.broker.uplink import SendUp
from iot_mqtt.codec import PublishRun
from iot_mqtt.pipeline import ConnectTimeouts, HalfOpen, HalfOpenLimits
from iot_mqtt.ports.access import AuthenticationMethod, Authenticator, Authorizer, Principal
from iot_mqtt.ports.bans import Bans, NoBans
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.events import Events
from iot_mqtt.ports.limits import Limits
from iot_mqtt.ports.log import Log
from iot_mqtt.ports.recording import RecorderSettings
from iot_mqtt.ports.store import CommitOrder, Store
from iot_mqtt.ports.tracing import Spans, TracesSettings
from iot_mqtt.topics import POLICIES, Routes

if TYPE_CHECKING:
    from iot_mqtt.broker.uplink import Uplink
    from iot_mqtt.broker.uplink.holding import Holding
    from iot_mqtt.pipeline import TimingWheel


class Composition:
    """The parts of one node. Everything runs in the reactor's thread."""

    def __init__(  # noqa: PLR0915
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
        self.settings = settings
        self.store = store
        self.log = log
        self.counters = counters
        self.clock = clock
        self.wheel = wheel
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.methods = dict(methods or {})
        self.allowance = allowance_of(settings)
        self.call_soon = call_soon
        self.turn = Turn(store, call_soon, counters.acknowledgement_wait)
        self.steps = Steps()
        self._new_id = new_id
        self.routes: Routes[Session] = Routes(
            pick=POLICIES[settings.shared_policy], class_of=class_of, steps_of=self.steps.of
        )
        self.steps.watch(self.routes.forget)
        self.sessions = Sessions(settings)
        #: Whose sessions are; ``clean_for_others``: see ``Owners``.
        self.owners = Owners(self.sessions, counters, clean=clean_for_others)
        self.logs = Logs(log)
        log_use = log_use or LogUse()
        self.accompaniment = Accompaniment()
        self.progress = Progress(store, log, self.turn, clock, log_use.progress_delay)
        self.outflow = Outflow(store, self.turn, clock, counters, self.progress, self.accompaniment, self.logs.fetch)
        self.replay_turns = ReplayTurns(settings, call_soon)
        self.reading = Reading(
            self.outflow,
            self.progress,
            self.replay_turns,
            ApplicationTurns(settings.application.messages_a_turn, call_soon),
            counters,
            clock,
            call_soon,
            log_use.batch_size,
        )
        self.elsewhere = Elsewhere(self.sessions, self.logs, call_soon)
        self.groups: SharedGroups = SharedGroups(
            node=self.reading,
            turn=self.turn,
            store=store,
            logs=self.logs,
            groups_of=self.routes.groups,
            sessions=self.sessions,
            sending=self.outflow,
            progress=self.progress,
            count=lambda: self.census.begin(),  # noqa: PLW0108 - it is made below
        )
        self.progress.groups = self.groups
        self.outflow.read_on = partial(read_on, self.groups)
        self.census = Census(self.reading, log, self.routes, self.sessions, self.groups)
        self.upkeep = Upkeep(log, self.census, self.turn, clock)
        self.budget = Budget(budget or BudgetSettings(), disk, store, counters, call_soon)
        self.turn.at_wait, self.turn.at_commit = (self.budget.weigh,), (self.outflow.committed,)
        self.retention = Retention(settings, store, self.budget, self.turn)
        self.retained_reading = RetainedReading(self.retention, self.outflow, counters, clock)
        self.outflow.read_retained = read_retained
        self.recording = Recording(log, clock, self.budget)
        self.fan_out = FanOut(counters, store, self.recording, self.outflow, self.groups)
        self.publishing = Publishing(
            self.routes, self.sessions.get, self.fan_out, self.retention, self.budget, self.groups, self.turn, clock
        )
        self.steps.add(Depth(settings.max_topic_levels))
        if log_use.record:
            self.steps.add(KeptForReplays(log_use.record, self.recording, self.budget, counters, self.turn))
        self.attempts = Attempts(clock.wall)
        #: What happens, for whoever watches.
        self.events = Events(clock.wall)
        self.attempts.noted = partial(tell_attempt, self.events)
        #: What there is to do with other nodes; a sole node has none.
        self.clustering: Clustering | None = None
        #: What feeds the data platform from the log, if anything does.
        self.uplink: Uplink | None = None
        #: What it makes acknowledgements wait for, if they are to.
        self.holding: Holding | None = None
        self._tracer: Tracer | None = None
        self.door = Door()
        self.half_open = HalfOpen(
            HalfOpenLimits(
                settings.max_half_open, settings.max_half_open_per_listener, settings.max_half_open_per_address
            )
        )
        self.timeouts = ConnectTimeouts(wheel, settings.connect_timeout, self.half_open)
        #: The last packets of every client.
        self.recorder = Recorder(recording or RecorderSettings(), clock.wall)
        self.connections = Connections(
            self.turn, counters, self.accompaniment, self.attempts, self.timeouts, self.recorder, self.events
        )
        self.connections.on_closed = (self.budget.forget,)
        self.connections.reference = lambda _: settings.server_reference
        #: Who is not let in, whoever he is.
        self.bouncer = Bouncer(
            NoBans() if bans is None else bans, self.connections, self.sessions.get, counters, call_soon
        )
        self._make_sessions()
        self.connections.detach = self.attaching.detach
        #: How much clients may publish.
        self.traffic = Traffic(settings.traffic, rates or {}, self.budget, counters, clock)
        #: What they may use up, by their identity.
        self.limiting = Limiting(
            settings,
            self.allowance,
            limits,
            self.connections,
            self.sessions,
            counters,
            self.traffic,
            self.retention.use,
            call_soon,
        )
        self.connections.on_closed += (self.limiting.forget,)
        self.draining = Draining(self.door, self.sessions, self.connections, self.budget, counters, clock)
        self.publish_answers = PublishAnswers(store, counters)
        gate = PublishGate(settings, self.publishing, self.budget, self.accompaniment)
        publish = PublishHandler(settings, self.publishing, self.budget, gate, self.publish_answers, clock, counters)
        self.handlers = self._table(publish)
        shares = TurnShares(self.budget, clock.monotonic, call_soon)
        self._inbound = Dispatch(self.handlers, self.routes, self.budget, shares, gate.takes, self.outflow.pump)

    def _make_sessions(self) -> None:
        """How sessions begin, come back, and end."""
        sessions, store, clock, counters, turn = self.sessions, self.store, self.clock, self.counters, self.turn
        routes, groups, logs, wheel = self.routes, self.groups, self.logs, self.wheel
        replays = Replays(self.reading, self.log, routes)
        records = SessionRecords(store, logs, self.progress, self.outflow)
        self.subscriptions = Subscriptions(sessions, routes, groups, records, replays)
        self.rights = Rights(self.connections, self.authorizer, self.subscriptions.remove, counters, turn)
        publish = WillPublishing(self.publishing, self.rights.of, counters, clock).publish
        self.wills = Wills(store, self.budget, clock, wheel, publish)
        readers = SessionReaders(sessions, self.reading, logs, replays, self.census)
        logs.added = readers.follow
        keeping = Keeping(records, readers, groups)
        passing_on = PassingOn(groups, self.fan_out, counters, clock)
        self.ending = Ending(sessions, self.subscriptions, keeping, self.wills, passing_on, self.accompaniment)
        expiry = Expiry(self.ending, self.attempts, wheel, turn)
        self.attaching = Attaching(sessions, self.ending, keeping, self.wills, expiry, clock)
        self.moving = Moving(sessions, self.subscriptions, self.progress, self.accompaniment, counters, turn)
        restoring = Restoring(
            SessionRestoring(sessions, routes, self.reading, replays, logs, store),
            MessageRestoring(sessions, groups, store, counters),
            ClockRestoring(sessions, records, expiry, self.wills, clock),
        )
        starting = Starting(restoring, store, sessions, groups, self.retention, turn)
        arriving = Arriving(restoring, store, sessions, self.accompaniment, self.census, turn)
        self.loading = Loading(starting, arriving, self._take_part)

    def _take_part(self) -> int:
        """In commits from now on: the log is open, and what the store has is about to be read."""
        self.store.enlist(CommitOrder.PROGRESS, self.progress)
        self.store.enlist(CommitOrder.GROUPS, self.groups.records)
        self.store.enlist(CommitOrder.BUDGET, self.budget)
        return self.log.writer

    # Among other nodes.

    def join(self, peers: Peers, follow: Follow) -> Clustering:
        """Be one node of several from now on; before anything is loaded."""
        turn, store, clock, sessions, groups = self.turn, self.store, self.clock, self.sessions, self.groups
        routes = PeerRoutes(peers, self.routes, groups, self.counters, turn.plan)
        store.enlist(CommitOrder.FORWARDING, routes)
        groups.join(peers, routes)
        own = OwnInterest(peers, routes, groups, store, turn, clock)
        logs = OtherLogs(self.logs, clock, follow)
        beginnings = Beginnings(
            LogEnds(peers, logs, self.elsewhere), self.subscriptions.remove, store, self.progress, turn, clock
        )
        self.reading.links = links = Links(peers, own)
        forwarding = Forwarding(peers, own, routes, groups, store, turn)
        versions = RetainedVersions(clock, peers, store)
        self.retention.share(versions)
        retained = RetainedSync(self.retention, versions, clock)
        departed = Departed(peers, sessions, store, turn, clock)
        unheard = KeptForUnheard(self.steps, self.recording, store)
        self.steps.add(unheard)
        homes = Homes(sessions, own, groups.leadership, departed, self.loading, turn)
        node = ThisNode(
            log=self.log,
            own=own,
            forwarding=forwarding,
            logs=logs,
            links=links,
            arrivals=Arrivals(self.publishing, sessions, groups, logs, links, turn, clock),
            presence=Presence(routes, groups, logs, self.elsewhere, links, retained, unheard),
            retained=retained,
            owners=self.owners,
            homes=homes,
            releases=Releases(sessions, own, groups.leadership, departed, self.moving.hand_over, self.ending.end),
        )
        claims = Claims(peers, sessions, self.owners, departed, homes)
        self.sessions.others = others = OwnSessions(own, beginnings, departed)
        self.clustering = Clustering(node, own, homes, claims, others, links)
        turn.at_end = (forwarding.end_turn, *turn.at_end)
        turn.at_commit = (departed.committed, retained.committed, forwarding.committed, *turn.at_commit)
        self._admission.claim = claims.claim
        return self.clustering

    # Connections.

    def _table(self, publish: PublishHandler) -> dict[type, Handler]:
        settings, counters = self.settings, self.counters
        sessions, rights, wills, connections = self.sessions, self.rights, self.wills, self.connections
        welcome = Welcome(settings, sessions, self.outflow, counters)
        opening = Opening(sessions, self.attaching, self.owners, self.limiting, rights, wills, connections, welcome)
        wanted = WillRequests(settings, counters)
        self._admission = admission = Admission(
            self.bouncer, self.owners, self.limiting, wanted, welcome, opening, self.new_client_id
        )
        access = Access(self.authenticator, self.authorizer, self.methods, admission.admit, rights.recheck)
        subscribe = SubscribeHandler(
            settings,
            Requests(settings, self.clock, counters, self.log),
            self.subscriptions,
            Recorded(self.steps, self.routes, self.groups, self.log),
            Subacks(self.subscriptions, self.retained_reading, sessions),
            self.accompaniment,
            counters,
        )
        return table(
            ConnectHandler(settings, self.door, self.bouncer, access, connections, counters),
            AuthHandler(access, counters),
            publish,
            AcksHandler(self.outflow, self.store, self.turn, self.accompaniment, counters),
            subscribe,
            UnsubscribeHandler(settings, self.subscriptions, counters),
            PingreqHandler(counters),
            DisconnectHandler(sessions, wills, counters),
        )

    def serving(self, kind: Kind = Kind()) -> Serving:  # noqa: B008 - it is frozen
        """What the connections of a listener share."""
        output = Output(self.turn, self.store, self.counters, self.clock)
        return Serving(output, self._inbound, self.connections, kind, self.allowance)

    def new_client_id(self) -> str:
        """An id for a client that brought none [MQTT-3.1.3-6]."""
        while True:
            candidate = f"auto-{self._new_id()}"
            if self.sessions.get(candidate) is None:
                return candidate

    def accompany(self, accompanying: Accompanying) -> None:
        """Somebody knows from now on what a command is."""
        self.accompaniment.by = accompanying
        self.steps.add(Accompany(accompanying))

    def feed(self, uplink: Uplink) -> None:
        """Something feeds the data platform from the log from now on."""
        self.uplink, self.holding = uplink, uplink.holding
        if uplink.holding is not None:
            self.publish_answers.holding = uplink.holding
            self.connections.on_closed += (uplink.holding.forget,)
        self.store.enlist(CommitOrder.UPLINK, uplink)
        self.upkeep.followers.append(uplink)
        parts = (uplink, self.recording, self.budget, self.counters, self.store, self.turn)
        if self._tracer is None or uplink.kind != "kafka":
            self.steps.add(SendUp(*parts))
            return
        traced = TracedUplink(self._tracer, uplink)
        uplink.send = traced.send
        self.steps.add(TracedSendUp(*parts, self._tracer, traced))

    def trace(self, settings: TracesSettings, spans: Spans) -> Tracer:
        """Messages of watched clients are traced from now on; before any client is there, and before ``feed``."""
        self._tracer = tracer = Tracer(settings, spans, self.clock, self.store)
        self.fan_out = self.publishing.fan_out = TracedFanOut(
            self.counters, self.store, self.recording, self.outflow, self.groups, tracer
        )
        self.handlers[TracedRun] = TracedPublish(tracer, self.handlers[PublishRun]).serve
        self.connections.on_connected += (Watch(tracer, self._inbound).connected,)
        self.turn.at_commit = (tracer.committed, *self.turn.at_commit)
        return tracer
