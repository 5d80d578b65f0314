"""The broker of one node: its parts, and the turn that holds them together.

A turn is one pass of the reactor. What it stages goes to the grid as one batch, what it writes leaves as one
write per connection; ``mark_dirty`` makes sure that ``end_turn`` comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

from iot_mqtt.broker.cluster.clustering import Clustering
from iot_mqtt.broker.cluster.other_logs import Follow
from iot_mqtt.broker.cluster.references import References
from iot_mqtt.broker.cluster.retained_versions import RetainedVersions
from iot_mqtt.broker.connections.draining import Draining
from iot_mqtt.broker.connections.handlers import early_table, table
from iot_mqtt.broker.connections.handlers.connect import admit, usual_connacks
from iot_mqtt.broker.publication import Publication, publication_of
from iot_mqtt.broker.publishing.accompanying import SPECIAL, Accompanying
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.publishing.fanout import Outcome, fan_out
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.progress import Progress
from iot_mqtt.broker.readers.replay_turns import ReplayTurns
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.broker.sessions.rights import Rights
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.broker.settings import BudgetSettings, LogUse, MqttSettings
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.upkeep import Upkeep
from iot_mqtt.broker.uplink import note_sent_up
from iot_mqtt.codec import Properties
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.pipeline import ConnectTimeouts
from iot_mqtt.ports.access import AuthenticationMethod, Authenticator, Authorizer, Permissions, Principal
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.log import Log, LogRun
from iot_mqtt.ports.store import CommitOrder, Store
from iot_mqtt.ports.uplink import Mode
from iot_mqtt.topics import POLICIES, Match, Routes, is_reserved, matches
from iot_mqtt.values import NOBODY, Message, Origin

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.readers.replay import ReplayCursor
    from iot_mqtt.broker.uplink import Uplink
    from iot_mqtt.broker.uplink.holding import Holding
    from iot_mqtt.pipeline import CloseReason, TimingWheel

logger = logging.getLogger(__name__)

#: Endings of those who were not let through to the protocol.
TURNED_AWAY = frozenset({"untrusted_proxy", "bad_proxy_header", "foreign_origin", "bad_websocket_handshake"})
#: Endings decided below this stage that count as errors.
FAULTS = frozenset({"connect_timeout", "before_login", "outbox_limit", "failed"}) | TURNED_AWAY


class Broker:
    """What every connection of a node shares. Everything here runs in the reactor's thread."""

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
        log_use: LogUse | None = None,
        budget: BudgetSettings | None = None,
        disk: DiskMeter | None = None,
        clean_for_others: bool = False,
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
        self.call_soon = call_soon
        self._new_id = new_id
        self.handlers = table()
        self.early_handlers = early_table()
        self.routes: Routes[Session] = Routes(pick=POLICIES[settings.shared_policy], is_common=self._is_common)
        self.sessions = Sessions(self)
        #: Whose sessions are; ``clean_for_others``: see ``Owners``.
        self.owners = Owners(self.sessions, counters, clean=clean_for_others)
        self.rights = Rights(self)
        self.logs = Logs(log, self.sessions.follow)
        self.subscriptions = Subscriptions(self)
        self.outflow = Outflow(self)
        self.replay_turns = ReplayTurns(settings, call_soon, self._read_replay)
        log_use = log_use or LogUse()
        self.progress = Progress(self, log_use.progress_delay)
        self.census = Census(self)
        self.groups: SharedGroups = SharedGroups(
            node=self,
            turn=self,
            store=store,
            logs=self.logs,
            groups_of=self.routes.groups,
            sessions=self.sessions,
            sending=self.outflow,
            progress=self.progress,
            count=self.census.begin,
        )
        self.upkeep = Upkeep(self)
        self.budget = Budget(self, budget or BudgetSettings(), disk)
        self.retention = Retention(self)
        self.wills = Wills(self)
        #: Why no client is let in now; None: they are.
        self.refusing: Refused | None = None
        self.draining = Draining(self)
        #: Where clients are sent that are to use another server.
        self.references: References = lambda _: settings.server_reference
        #: What there is to do with other nodes; a sole node has none.
        self.clustering: Clustering | None = None
        #: Who knows what a command is, if anybody does.
        self.accompanying: Accompanying | None = None
        #: What feeds the data platform from the log, if anything does.
        self.uplink: Uplink | None = None
        #: What it makes acknowledgements wait for, if they are to.
        self.holding: Holding | None = None
        self.attempts = Attempts(clock.wall)
        #: A set in the order of accepting; a dictionary needs half of a set's room.
        self.connections: dict[Connection, None] = {}
        self.connect_timeouts = ConnectTimeouts(wheel, settings.connect_timeout)
        self.clients = self.most_clients = 0
        self._dirty: list[Connection] = []
        self._awaiting: list[Connection] = []
        self._turn_planned, self._closed_bytes = False, [0, 0]
        #: What the store has was read, or is being read.
        self.loaded = False
        self.announcement = announcement_of(settings)
        self.usual_connacks = usual_connacks(self.announcement)
        self.read_messages, self._recorded = log_use.batch_size, log_use.record
        store.on_committed = self._committed

    # The turn.

    def mark_dirty(self, connection: Connection) -> None:
        """A connection has bytes for this turn's end."""
        self._dirty.append(connection)
        if not self._turn_planned:
            self._turn_planned = True
            self.call_soon(self.end_turn)

    def plan_turn(self) -> None:
        """Something was staged: make sure that it is committed soon."""
        if not self._turn_planned:
            self._turn_planned = True
            self.call_soon(self.end_turn)

    def reserve(self) -> int:
        """The ticket of the next batch, which will be committed soon: a participant has something for it."""
        self.plan_turn()
        return self.store.reserve()

    def end_turn(self) -> None:
        """One batch to the grid, one write to each connection that has something."""
        self._turn_planned = False
        self.store.flush()
        if self.clustering is not None:
            self.clustering.end_turn()
        self.budget.weigh()
        self._write_out()

    def _write_out(self) -> None:
        dirty = self._dirty
        if dirty:
            self._dirty = []
            for connection in dirty:
                connection.write_out()

    def await_commit(self, connection: Connection) -> None:
        """A connection has answers that wait for a commit."""
        self._awaiting.append(connection)
        self.plan_turn()

    def _committed(self) -> None:
        if self.clustering is not None:
            self.clustering.committed(self.store.committed)
        awaiting, self._awaiting = self._awaiting, []
        # Deliver, then acknowledge.
        self.outflow.committed()
        for connection in awaiting:
            connection.committed()
        # Now, and not behind the next batch, which is made ready as soon as this returns.
        self._write_out()

    def take_part(self) -> None:
        """In commits from now on: the log is open, and what the store has is about to be read."""
        self.loaded = True
        self.store.enlist(CommitOrder.PROGRESS, self.progress)
        self.store.enlist(CommitOrder.GROUPS, self.groups.records)
        self.store.enlist(CommitOrder.BUDGET, self.budget)

    # Among other nodes.

    def join(self, peers: Peers, follow: Follow) -> Clustering:
        """Be one node of several from now on; before anything is loaded."""
        self.clustering = Clustering(self, peers, follow)
        self.store.enlist(CommitOrder.FORWARDING, self.clustering.routes)
        self.retention.share(RetainedVersions(self.clock, peers))
        return self.clustering

    def changed(self, session: Session) -> None:
        """Whether a session is connected, or kept, has changed: it may matter to other nodes."""
        if self.clustering is not None:
            self.clustering.own.settle(session)
            if session.ended:
                self.clustering.homes.ended(session.client_id)

    # Connections come and go.

    def connection_opened(self, connection: Connection) -> None:
        """A socket was accepted."""
        self.counters.connections_opened += 1
        self.connections[connection] = None
        if connection.ctx is not None:
            self.connect_timeouts.expect(connection.ctx.channel)

    def first_packet_came(self, connection: Connection) -> None:
        """CONNECT is here, with all that it takes: the connect time-out has done its work."""
        if connection.ctx is not None:
            self.connect_timeouts.forget(connection.ctx.channel)

    def admit(self, connection: Connection, principal: Principal, permissions: Permissions, data: bytes | None) -> None:
        """An enhanced-authentication exchange succeeded."""
        admit(connection, principal, permissions, data)

    def client_connected(self, connection: Connection) -> None:
        """A session has its connection; ``_detach`` is the counterpart."""
        connection.note_origin()
        if self.accompanying is not None:
            self.accompanying.client_came(connection)
        if connection.ctx is not None:
            connection.ctx.channel.logged_in()
        self.clients += 1
        self.most_clients = max(self.most_clients, self.clients)
        if self.store.latest > self.store.committed:
            self.plan_turn()

    def client_left(self, connection: Connection, reason: ReasonCode) -> None:
        """The client said goodbye; it closes next, and so do we [MQTT-3.14.4-2]."""
        connection.leave_quietly(reason)

    def connection_leaving(self, connection: Connection, end: str, error: MqttError | None = None) -> None:
        """We close a connection: its session lets go of it at once, not when the socket is gone. ``error`` is why, if
        the client did not ask for it.
        """
        self._detach(connection, end)
        if error is not None and connection.session is None and connection.connect is not None:
            self.counters.connects_refused[error.reason.name] += 1
            self.attempts.refused(connection, end, error.detail)

    def connection_closed(self, connection: Connection, reason: CloseReason | None) -> None:
        """The socket is gone."""
        self.counters.connections_closed += 1
        self.connections.pop(connection, None)
        self.budget.forget(connection)
        if self.holding is not None:
            self.holding.forget(connection)
        if connection.ctx is not None:
            channel = connection.ctx.channel
            self.connect_timeouts.forget(channel)
            self._closed_bytes[0] += channel.bytes_received
            self._closed_bytes[1] += channel.bytes_sent
        if reason is not None and reason.name in FAULTS:
            self.counters.errors[reason.name.upper()] += 1
            if reason.name in TURNED_AWAY:
                logger.info("turned away: %s", reason.detail, extra=connection.who() | {"reason": reason.name.upper()})
        self._detach(connection, "connection_lost" if reason is None else reason.name.lower())

    def _detach(self, connection: Connection, reason: str) -> None:
        session = connection.session
        if session is None or session.connection is not connection:
            return
        self.clients -= 1
        self.counters.disconnects[reason] += 1
        self.sessions.detach(session, connection, reason)
        if self.accompanying is not None:
            self.accompanying.client_left(connection)
        if session.ended:
            self.attempts.ended(session.client_id, session.username, reason, connection)
        if self.store.latest > self.store.committed:
            self.plan_turn()

    def count_bytes(self) -> None:
        """Bring the byte counters up to date; they are kept by the channels while those live."""
        received, sent = self._closed_bytes
        for connection in self.connections:
            if connection.ctx is not None:
                received += connection.ctx.channel.bytes_received
                sent += connection.ctx.channel.bytes_sent
        self.counters.bytes_received, self.counters.bytes_sent = received, sent

    def new_client_id(self) -> str:
        """An id for a client that brought none [MQTT-3.1.3-6]."""
        while True:
            candidate = f"auto-{self._new_id()}"
            if self.sessions.get(candidate) is None:
                return candidate

    # The log.

    def record(self, publication: Publication) -> LogRun:
        """Put a publication into the log, once however many readers want it."""
        logged = publication.logged
        if logged is None:
            logged = publication.logged = self.log.append(
                publication.run, publication.topic, publication.publisher, self.clock.wall(), publication.origin
            )
            self.budget.added(len(publication.run.wire))
        return logged

    def record_if_asked(self, publication: Publication) -> None:
        """Log what is to be kept for replays whether or not somebody durable wants it now."""
        if self._recorded and publication.logged is None and self._is_asked_for(publication.topic):
            if self.budget.full:
                self.counters.messages_refused[Pause.DISK_FULL] += publication.count
            else:
                self.record(publication)

    def _read_replay(self, replay: ReplayCursor) -> None:
        replay.read_in_turn(self)

    def _is_common(self, topic: bytes, match: Match[Session]) -> bool:
        """Whether what is published to a topic has nothing to do but to go to sessions that subscribed to it."""
        if match.shared or topic.startswith(SPECIAL) or is_reserved(topic) or self.is_recorded(topic, 2):
            return False
        return not any(route.receiver.__class__ is not Session or route.parts for route in match.plain)

    def is_recorded(self, topic: bytes, qos: int) -> bool:
        """Whether messages of a topic are logged in any case."""
        return self._is_asked_for(topic) or (self.uplink is not None and self.uplink.mode(topic, qos) is not None)

    def _is_asked_for(self, topic: bytes) -> bool:
        if not self._recorded:
            return False
        name = topic.decode()
        return any(matches(filter, name) for filter in self._recorded)

    def send_up(self, publication: Publication) -> Mode | None:
        """Log what a rule of the uplink matches, before other nodes hear of it: they are told its place in the log,
        and do not record it a second time.
        """
        mode = self.uplink.mode(publication.topic, publication.qos) if self.uplink is not None else None
        if mode is None or self.uplink is None:
            return None
        if self.budget.full:
            # QoS 0; anything else has been refused before.
            self.counters.messages_refused[Pause.DISK_FULL] += publication.count
        else:
            self.uplink.recorded(self.record(publication))
            # Nobody waits for the commit of QoS 0 but the uplink.
            self.plan_turn()
        return mode

    def drop(self, session: Session, reason: Drop, count: int) -> None:
        """Count messages that a session did not get."""
        session.count_drop(reason, count)
        self.counters.dropped[reason] += count

    # Publishing as the node itself.

    def publish(self, message: Message, user: str = "") -> Outcome:
        """Publish a message that no connection brought: a will, the API's, ``$SYS``. ``user``: who answers for it."""
        publication = publication_of(message, self.clock.wall(), Origin(user) if user else NOBODY)
        if self.accompanying is not None and message.qos and message.topic.startswith(SPECIAL):
            taken = self.accompanying.published(publication, None)
            if taken is not None:
                return taken
        return self.hand_on(publication, message)

    def hand_on(self, publication: Publication, message: Message) -> Outcome:
        """The same for one that nobody has to look at first."""
        self.counters.messages_received += 1
        mode, source = self.send_up(publication), self.sessions.get(message.publisher)
        only = mode is Mode.ONLY
        outcome = Outcome() if only else fan_out(self, publication, self.routes.match(message.topic), source)
        self.record_if_asked(publication)
        if mode is not None:
            note_sent_up(self, publication, outcome)
        if outcome.nobody:
            self.counters.messages_unmatched += 1
        if message.retain and not only:
            if self.retention.retain(message):
                outcome.ticket = self.store.latest
            else:
                self.counters.dropped[Drop.RETAINED_QUOTA] += 1
        self.plan_turn()
        return outcome

    def publish_quietly(self, message: Message) -> None:
        """Publish what the node says about itself; it is not counted as a message of anybody."""
        self.retention.retain(message)
        match = self.routes.match(message.topic)
        if match.plain or match.shared:
            fan_out(self, publication_of(message, self.clock.wall()), match, None)

    # What goes wrong.

    def note_error(self, connection: Connection, error: MqttError) -> None:
        """A client broke a rule, or was not let in: one line, no traceback, no payload. The two kinds of lines are
        thinned out apart from each other, so that a flood of one does not hide the other.
        """
        logger.info(
            "connection closed: %s" if connection.session is not None else "connection refused: %s",
            error.detail,
            extra=connection.who() | {"reason": error.reason.name},
        )

    def report(self, connection: Connection, error: BaseException) -> None:
        """A fault of ours, with its traceback."""
        logger.error("unexpected error while serving a connection", exc_info=error)


def announcement_of(settings: MqttSettings) -> Properties:
    """CONNACK properties that say what is offered; defaults of the specification are left unsaid."""

    def unless(value: int, default: int) -> int | None:
        return None if value == default else value

    def unless_offered(offered: bool) -> bool | None:
        return None if offered else False

    return Properties(
        receive_maximum=unless(settings.receive_maximum, 65_535),
        maximum_qos=unless(settings.max_qos, 2),
        retain_available=unless_offered(settings.retain_available),
        maximum_packet_size=settings.max_packet_size,
        topic_alias_maximum=unless(settings.topic_alias_maximum, 0),
        wildcard_subscription_available=unless_offered(settings.wildcard_available),
        subscription_identifier_available=unless_offered(settings.subscription_identifiers_available),
        shared_subscription_available=unless_offered(settings.shared_available),
        server_reference=settings.server_reference or None,
    )
