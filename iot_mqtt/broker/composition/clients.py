"""Connections of clients: who is let in, how much each may use, and how they are sent away."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iot_mqtt.broker.allowance import allowance_of
from iot_mqtt.broker.composition.monitoring import Monitoring
from iot_mqtt.broker.composition.publish_path import PublishPath
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.connections.bouncer import Bouncer
from iot_mqtt.broker.connections.door import Door
from iot_mqtt.broker.connections.draining import Draining
from iot_mqtt.broker.connections.limiting import Limiting
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.connections.traffic import Rates, Traffic
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.pipeline import ConnectTimeouts, HalfOpen, HalfOpenLimits
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.bans import Bans
from iot_mqtt.ports.limits import Limits


class Clients:
    """The registry of connections, and what decides about them."""

    def __init__(
        self,
        runtime: Runtime,
        sessions: Sessions,
        accompaniment: Accompaniment,
        publishing: PublishPath,
        monitoring: Monitoring,
        bans: Bans,
        limits: Callable[[Principal], Limits | None],
        rates: Mapping[str, Rates],
    ) -> None:
        settings, counters, clock, call_soon = runtime.settings, runtime.counters, runtime.clock, runtime.call_soon
        budget = publishing.budget
        self.allowance = allowance_of(settings)
        self.door = Door()
        self.half_open = HalfOpen(
            HalfOpenLimits(
                settings.max_half_open, settings.max_half_open_per_listener, settings.max_half_open_per_address
            )
        )
        self.timeouts = ConnectTimeouts(runtime.wheel, settings.connect_timeout, self.half_open)
        self.connections = connections = Connections(
            runtime.turn,
            counters,
            accompaniment,
            monitoring.attempts,
            self.timeouts,
            monitoring.recorder,
            monitoring.events,
        )
        connections.reference = lambda _: settings.server_reference
        #: Who is not let in, whoever he is.
        self.bouncer = Bouncer(bans, connections, sessions.get, counters, call_soon)
        #: How much clients may publish.
        self.traffic = Traffic(settings.traffic, rates, budget, counters, clock)
        #: What they may use up, by their identity.
        self.limiting = Limiting(
            settings,
            self.allowance,
            limits,
            connections,
            sessions,
            counters,
            self.traffic,
            publishing.retention.use,
            call_soon,
        )
        connections.on_closed = (budget.forget, self.limiting.forget)
        self.draining = Draining(self.door, sessions, connections, budget, counters, clock)
