"""How sessions begin, come back, and end."""

from __future__ import annotations

from iot_mqtt.broker.composition.publish_path import PublishPath
from iot_mqtt.broker.composition.readers import Readers
from iot_mqtt.broker.composition.routing import Routing
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.sessions.attaching import Attaching
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.sessions.ending import Ending, Expiry, Moving, PassingOn
from iot_mqtt.broker.sessions.keeping import Keeping
from iot_mqtt.broker.sessions.loading import Arriving, Loading, Restoring, Starting
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.broker.sessions.recorded_deadlines import RecordedDeadlines
from iot_mqtt.broker.sessions.records import SessionRecords
from iot_mqtt.broker.sessions.replays import Replays
from iot_mqtt.broker.sessions.restoring import SessionRestoring
from iot_mqtt.broker.sessions.restoring_clocks import ClockRestoring
from iot_mqtt.broker.sessions.restoring_messages import MessageRestoring
from iot_mqtt.broker.sessions.rights import Rights
from iot_mqtt.broker.sessions.route_turns import RouteTurns
from iot_mqtt.broker.sessions.session_readers import SessionReaders
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.sessions.wills import WillPublishing, Wills
from iot_mqtt.ports.access import Authorizer
from iot_mqtt.ports.store import CommitOrder


class Lifecycle:
    """The parts that change which sessions there are, and what they subscribe to."""

    def __init__(
        self,
        runtime: Runtime,
        sessions: Sessions,
        routing: Routing,
        readers: Readers,
        publishing: PublishPath,
        connections: Connections,
        attempts: Attempts,
        authorizer: Authorizer,
        *,
        clean_for_others: bool,
    ) -> None:
        store, counters, clock, wheel = runtime.store, runtime.counters, runtime.clock, runtime.wheel
        turn, routes, accompaniment = runtime.turn, routing.routes, routing.accompaniment
        groups, logs, reading, progress = readers.groups, readers.logs, readers.reading, readers.progress
        #: Whose sessions are; ``clean_for_others``: see ``Owners``.
        self.owners = Owners(sessions, counters, clean=clean_for_others)
        #: Filters by the thousand that enter and leave the routes.
        self.route_turns = RouteTurns(turn)
        replays = Replays(reading, runtime.log, routes)
        records = SessionRecords(store, logs, progress, readers.outflow)
        self.subscriptions = Subscriptions(sessions, routes, groups, records, replays, self.route_turns)
        self.rights = Rights(connections, authorizer, self.subscriptions.remove, counters, turn)
        publish = WillPublishing(publishing.path, self.rights.of, counters, clock).publish
        self.wills = Wills(store, publishing.budget, clock, wheel, publish)
        counts = readers.census, readers.elsewhere_count
        session_readers = SessionReaders(sessions, reading, logs, replays, *counts)
        logs.added = session_readers.follow
        keeping = Keeping(records, session_readers, groups)
        passing_on = PassingOn(groups, publishing.path.fan_out, counters, clock)
        self.ending = Ending(sessions, self.subscriptions, keeping, self.wills, passing_on, accompaniment)
        expiry = Expiry(self.ending, attempts, wheel, turn)
        self.attaching = Attaching(sessions, self.ending, keeping, self.wills, expiry, clock)
        connections.detach = self.attaching.detach
        self.moving = Moving(sessions, self.subscriptions, progress, accompaniment, counters, turn)
        self.deadlines = RecordedDeadlines(runtime.time, clock, wheel)
        restoring = Restoring(
            SessionRestoring(sessions, routes, reading, replays, publishing.retained_reading, logs, store),
            MessageRestoring(sessions, groups, store, counters),
            ClockRestoring(sessions, records, expiry, self.wills, self.deadlines, clock),
        )
        starting = Starting(restoring, store, sessions, groups, publishing.retention, turn)
        arriving = Arriving(restoring, store, sessions, accompaniment, *counts, turn)

        def take_part() -> int:
            """In commits from now on: the log is open, and what the store has is about to be read."""
            store.enlist(CommitOrder.PROGRESS, progress)
            store.enlist(CommitOrder.GROUPS, groups.records)
            store.enlist(CommitOrder.BUDGET, publishing.budget)
            return runtime.log.writer

        self.loading = Loading(starting, arriving, take_part)
