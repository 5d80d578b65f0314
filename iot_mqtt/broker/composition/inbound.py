"""What packets of clients come to: a handler for each type, and the dispatch that finds it."""

from __future__ import annotations

from iot_mqtt.broker.composition.lifecycle import Lifecycle
from iot_mqtt.broker.composition.login import Login
from iot_mqtt.broker.composition.publish_path import PublishPath
from iot_mqtt.broker.composition.readers import Readers
from iot_mqtt.broker.composition.routing import Routing
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.connections.dispatch import Dispatch
from iot_mqtt.broker.connections.filter_turns import FilterTurns
from iot_mqtt.broker.connections.handlers import (
    AcksHandler,
    DisconnectHandler,
    PingreqHandler,
    PublishAnswers,
    PublishGate,
    PublishHandler,
    Requests,
    Subacks,
    SubscribeHandler,
    UnsubscribeHandler,
    WholeHandler,
    table,
)
from iot_mqtt.broker.connections.lookup_turns import LookupTurns
from iot_mqtt.broker.connections.turn_shares import TurnShares
from iot_mqtt.broker.readers.recorded import Recorded
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.codec import RunBatch


class InboundPackets:
    """The handlers and ``dispatch``; ``answers`` is what acknowledges publishes."""

    def __init__(
        self,
        runtime: Runtime,
        sessions: Sessions,
        routing: Routing,
        readers: Readers,
        publishing: PublishPath,
        lifecycle: Lifecycle,
        login: Login,
    ) -> None:
        settings, store, counters, clock = runtime.settings, runtime.store, runtime.counters, runtime.clock
        budget, path, outflow = publishing.budget, publishing.path, readers.outflow
        accompaniment, subscriptions = routing.accompaniment, lifecycle.subscriptions
        self.answers = PublishAnswers(store, counters)
        gate = PublishGate(settings, path, budget, accompaniment)
        filters = FilterTurns(budget, runtime.call_soon)
        subscribe = SubscribeHandler(
            settings,
            Requests(settings, clock, counters, runtime.log),
            subscriptions,
            Recorded(routing.steps, routing.routes, readers.groups, runtime.log),
            Subacks(subscriptions, publishing.retained_reading, sessions),
            accompaniment,
            filters,
            counters,
        )
        lookups = LookupTurns(budget, routing.routes, runtime.call_soon)
        shares = TurnShares(budget, clock.monotonic, runtime.call_soon)
        publish = PublishHandler(settings, path, budget, gate, lookups, shares, self.answers, clock, counters)
        self.handlers = table(
            login.connect,
            login.auth,
            publish,
            AcksHandler(outflow, store, runtime.turn, accompaniment, shares, counters),
            subscribe,
            UnsubscribeHandler(settings, subscriptions, filters, counters),
            PingreqHandler(counters),
            DisconnectHandler(sessions, lifecycle.wills, counters),
            filters,
            shares,
        )
        self.handlers[RunBatch] = WholeHandler(publish, gate, budget, self.handlers).serve
        self.dispatch = Dispatch(self.handlers, routing.routes, budget, shares, gate, outflow)
