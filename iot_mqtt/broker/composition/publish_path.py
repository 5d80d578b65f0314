"""What a message goes through that is published: the room on the disk, steps, retention, recording, fan-out."""

from __future__ import annotations

from iot_mqtt.broker.composition.readers import Readers
from iot_mqtt.broker.composition.routing import Routing
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.depth import Depth
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.broker.publishing.recording import KeptForReplays, Recording
from iot_mqtt.broker.publishing.retained_reading import TURN, RetainedReading
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.settings import BudgetSettings, LogUse
from iot_mqtt.broker.turn_effort import TurnEffort
from iot_mqtt.ports.disk import DiskMeter


class PublishPath:
    """The parts of publishing; ``path`` is what publishes."""

    def __init__(
        self,
        runtime: Runtime,
        log_use: LogUse,
        sessions: Sessions,
        routing: Routing,
        readers: Readers,
        budget: BudgetSettings,
        disk: DiskMeter | None,
    ) -> None:
        settings, store, counters, clock = runtime.settings, runtime.store, runtime.counters, runtime.clock
        turn, outflow, groups = runtime.turn, readers.outflow, readers.groups
        self.budget = Budget(budget, disk, store, counters, runtime.call_soon)
        turn.at_wait, turn.at_commit = (self.budget.weigh,), (outflow.committed,)
        self.retention = Retention(settings, store, self.budget, turn)
        turns = TurnEffort(TURN, runtime.call_soon, outflow.pump)
        self.retained_reading = RetainedReading(self.retention, turns, outflow, readers.progress, counters, clock)
        outflow.read_retained = self.retained_reading.read_page
        self.recording = Recording(runtime.log, clock, self.budget)
        fan_out = FanOut(counters, store, self.recording, outflow, groups)
        self.path = Publishing(routing.routes, sessions.get, fan_out, self.retention, self.budget, groups, turn, clock)
        routing.steps.add(Depth(settings.max_topic_levels))
        if log_use.record:
            routing.steps.add(KeptForReplays(log_use.record, self.recording, self.budget, counters, turn))
