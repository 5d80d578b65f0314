"""How sessions get their messages: what is sent to clients, readers of the log, shared groups, and their positions."""

from __future__ import annotations

from functools import partial

from iot_mqtt.broker.composition.routing import Routing
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.readers.elsewhere import Elsewhere
from iot_mqtt.broker.readers.elsewhere_count import ElsewhereCount
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.progress import Progress
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.readers.replay_turns import ReplayTurns
from iot_mqtt.broker.readers.room import read_on
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.turn_effort import TurnEffort
from iot_mqtt.broker.upkeep import Upkeep


class Readers:
    """The parts that read logs for sessions and groups, and ``outflow``, by which all messages leave."""

    def __init__(self, runtime: Runtime, log_use: LogUse, sessions: Sessions, routing: Routing) -> None:
        settings, store, log, call_soon = runtime.settings, runtime.store, runtime.log, runtime.call_soon
        counters, clock, turn, routes = runtime.counters, runtime.clock, runtime.turn, routing.routes
        self.logs = Logs(log)
        self.progress = Progress(store, log, turn, clock, log_use.progress_delay)
        self.outflow = Outflow(store, turn, clock, counters, self.progress, routing.accompaniment, self.logs.fetch)
        self.replay_turns = ReplayTurns(settings, call_soon)
        self.reading = Reading(
            self.outflow,
            self.progress,
            self.replay_turns,
            TurnEffort(settings.application.messages_a_turn, call_soon, LogCursor.read_on),
            counters,
            clock,
            call_soon,
            log_use.batch_size,
        )
        self.elsewhere = Elsewhere(sessions, self.logs, call_soon)
        self.groups = SharedGroups(
            node=self.reading,
            turn=turn,
            store=store,
            logs=self.logs,
            groups_of=routes.groups,
            sessions=sessions,
            sending=self.outflow,
            progress=self.progress,
            count=lambda: self.census.begin(),  # noqa: PLW0108 - it is made below
        )
        self.progress.groups = self.groups
        self.outflow.read_on = partial(read_on, self.groups)
        self.census = Census(self.reading, log, routes, sessions, self.groups)
        self.elsewhere_count = ElsewhereCount(self.reading, self.logs, routes, sessions)
        self.upkeep = Upkeep(log, self.census, counters, turn, clock, runtime.time)
