"""What watches a node's broker and tells of it: figures, recorded packets, events, traces, webhooks, metrics, ``$SYS``.

None of it takes part in what happens to a message. It is made before the broker, and begins in the order of the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from iot_mqtt.admin.alarm_resources import AlarmResources
from iot_mqtt.admin.event_resources import EventResources
from iot_mqtt.admin.figures_resources import FiguresResources
from iot_mqtt.admin.packet_resources import PacketResources
from iot_mqtt.admin.routes import Resource
from iot_mqtt.admin.trace_resources import TraceResources
from iot_mqtt.app.config.folders import history_file, recorder_dir, webhooks_dir
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.event_topics import EventTopics
from iot_mqtt.app.node.events import EventDesk, sources_of
from iot_mqtt.app.node.figures import LOOK_SECONDS as FIGURES_SECONDS
from iot_mqtt.app.node.figures import NodeFigures
from iot_mqtt.app.node.packets import SWEEP_SECONDS, Packets
from iot_mqtt.app.node.periodic import Periodic
from iot_mqtt.app.node.trace_export import TraceExport
from iot_mqtt.app.node.tracing import TraceDesk
from iot_mqtt.app.node.webhooks import Webhooks
from iot_mqtt.auth.web import AgentWeb
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.recorder import Recorder
from iot_mqtt.broker.views.view import View
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.link import Captures
from iot_mqtt.metrics.collectors import TracesCollector, WebhooksCollector
from iot_mqtt.metrics.exposition import Collector, Metrics
from iot_mqtt.metrics.facts import ListenerCounts
from iot_mqtt.metrics.history.history import SAMPLE_SECONDS
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.metrics.sys_tree import Load, sys_tree
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.log import Breath
from iot_mqtt.ports.questions import AskingLater
from iot_mqtt.values import Message


class Watching:
    """Of one life."""

    def __init__(
        self,
        config: Config,
        reactor: Any,
        clock: Clock,
        web: Callable[[], AgentWeb],
        repeat: Periodic,
        *,
        clustered: bool,
    ) -> None:
        self._config = config
        self._reactor = reactor
        self._clock = clock
        self._repeat = repeat
        #: How late the loop is.
        self.lag = LoopLag(clock)
        #: From when there is a broker.
        self.packets: Packets | None = None
        self._load = Load()
        self._figures = NodeFigures(history_file(config), clustered=clustered)
        self._events = EventDesk(config.node.id, clock)
        self._traces = TraceDesk(config.node.id, clock)
        told, cross = config.events.webhooks, reactor.callFromThread
        self._web = web
        #: Spans of messages, if any are told.
        self._spans: TraceExport | None = None
        self._webhooks = Webhooks(config.node.id, told, web, clock, webhooks_dir(config), cross)

    @property
    def resources(self) -> list[Resource]:
        """Its part of the API, once there is a broker."""
        assert self.packets is not None, "they come with the broker"
        return [
            FiguresResources(self._figures),
            PacketResources(self.packets),
            EventResources(self._events),
            AlarmResources(self._events.alarms),
            TraceResources(self._traces, self._events.streams),
        ]

    def record(self, recorder: Recorder, ended: str) -> None:
        """Keep the last packets of clients from now on; ``ended``: how the life before did."""
        self.packets = Packets(recorder, recorder_dir(self._config), self._reactor, ended)
        self._repeat(recorder.settings.save_seconds or SWEEP_SECONDS, self.packets.save)

    def trace(self, broker: Composition) -> None:
        """Tell the way of messages from now on, of those clients that the configuration says."""
        settings = self._config.telemetry.traces
        if settings.enabled:
            self._spans = TraceExport(settings, self._config.node.id, self._web, self._clock)
            self._repeat(1.0, broker.trace(settings, self._spans).sweep)

    async def count(self, broker: Composition, view: View, grid: Grid, number: int, breathe: Breath) -> None:
        """Go on with the figures where the life before has ended; before anything is loaded."""
        await self._figures.begin(broker, view, grid, number, breathe)
        self._repeat(FIGURES_SECONDS, self._figures.look)
        self._repeat(SAMPLE_SECONDS, self._figures.sample)

    def tell(
        self, broker: Composition, view: View, devices: Accompanied, asking: AskingLater | None, links: Captures
    ) -> None:
        """Tell what happens to whoever listens; ``links``: to gateways."""
        sources = sources_of(broker, view, devices, asking)
        self._repeat(*self._events.begin(sources))
        self._traces.begin(broker.monitoring.recorder, sources, links)
        if self._config.events.topics:
            EventTopics(self._config.node.id, broker.publishing.path, broker.turn.call_soon).begin(sources.events)
        self._webhooks.begin(sources.events)
        view.further_alarms.append(self._webhooks.alarms)

    def measure(self, watch: Callable[[float, float], None]) -> None:
        """Measure how late the loop is; ``watch`` is told."""
        self.lag.watchers = (watch, self._figures.late)
        self.lag.start()

    def publish(self, broker: Composition, view: View) -> None:
        """Publish figures below ``$SYS``."""
        facts, now = view.info(), self._clock.wall()
        self._load.sample(view.counters, facts, now)
        for topic, payload in sys_tree(view.counters, facts, now, self._load, view.log.info()):
            broker.publishing.path.quietly(Message(topic, payload, retain=True))

    def metrics(self, view: View, listeners: Callable[[], Iterable[ListenerCounts]], *collectors: Collector) -> Metrics:
        """``collectors``: of what it does not know."""
        return Metrics(
            view.counters,
            view.info,
            *collectors,
            WebhooksCollector(self._webhooks.facts),
            TracesCollector(lambda: self._spans),
            lag=self.lag,
            listeners=listeners,
            log=view.log.info,
        )

    def abandon(self) -> None:
        """Keep nothing more: others have taken this node's place."""
        self._figures.abandon()

    def settle(self) -> None:
        """Keep what is left, with the last commit."""
        self._figures.close()

    async def finish(self) -> None:
        """Send the spans that wait; everything else is over."""
        if self._spans is not None:
            await self._spans.finish()

    def close(self) -> None:
        """Nobody is told anything any more."""
        if self.packets is not None:
            self.packets.close()
            self.packets = None
        self._events.close()
        self._webhooks.close()
        if self._spans is not None:
            self._spans.close()
