"""Traced messages on their way to Kafka: between the uplink's reader and its sink.

::

    SendUp ─ recorded ─▶ span, by its place in the log
    reader ─ records ──▶ those of traced messages get headers ─▶ sink ─ safe ─▶ the span is over

The log keeps no contexts: they are in memory, as many as spans may wait. What is read again when Kafka fails has the
same context; after a restart it goes up without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.recording import Recording
from iot_mqtt.broker.traces.tracer import Trace, Tracer
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.uplink import SendUp, Uplink
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import Store
from iot_mqtt.ports.tracing import TRACEPARENT, TRACESTATE, Kind, Span
from iot_mqtt.ports.uplink import Done, Record

Send = Callable[[Sequence[Record], Done], bool]

_ATTRIBUTES: Final[dict[str, str | int | bool]] = {
    "messaging.system": "kafka",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
}


class TracedUplink:
    """The spans of what is recorded and not yet safe in Kafka; ``send`` is the sink's, with headers."""

    __slots__ = ("_tracer", "_uplink", "_send", "_spans")

    def __init__(self, tracer: Tracer, uplink: Uplink) -> None:
        self._tracer = tracer
        self._uplink = uplink
        self._send: Send = uplink.send
        #: By the position in the log, which grows.
        self._spans: dict[int, Span] = {}

    def recorded(self, trace: Trace, position: int) -> None:
        """A traced message goes up."""
        most = self._tracer.settings.max_queued_spans
        if len(self._spans) >= most:
            self._take(self._uplink.safe_position)
        if len(self._spans) >= most:
            self._tracer.spans.dropped["queue_full"] += 1
            return
        span = self._tracer.child(trace, "send", Kind.PRODUCER, dict(_ATTRIBUTES))
        if span is not None:
            self._spans[position] = span

    def send(self, records: Sequence[Record], done: Done) -> bool:
        """Batches without a traced message go as they are."""
        if not self._spans or next(iter(self._spans)) > records[-1].position:
            return self._send(records, done)
        headed = [self._headed(record) for record in records]
        sent = frozenset([record.position for record in records])
        return self._send(headed, partial(self._done, sent, records[-1].position + 1, done))

    def _headed(self, record: Record) -> Record:
        span = self._spans.get(record.position)
        if span is None:
            return record
        if self._tracer.settings.names:
            span.attributes["messaging.destination.name"] = record.topic
        headers = (*record.headers, (TRACEPARENT, span.context.traceparent.encode()))
        if span.context.state:
            headers = (*headers, (TRACESTATE, span.context.state.encode()))
        return record._replace(headers=headers)

    def _done(self, sent: frozenset[int], end: int, done: Done, error: BaseException | None) -> None:
        if error is None:
            for position, span in self._take(end):
                if position in sent:
                    self._tracer.end(span)
        done(error)

    def _take(self, end: int) -> list[tuple[int, Span]]:
        """What is over; no rule wanted the message after all where its batch, or a later one, had no record of it."""
        over = list(takewhile(end.__gt__, self._spans))
        return [(position, self._spans.pop(position)) for position in over]


class TracedSendUp(SendUp):
    """Knows of what is recorded whether it is traced; what is not pays for one comparison."""

    __slots__ = ("_tracer", "_traced")

    def __init__(
        self,
        uplink: Uplink,
        recording: Recording,
        budget: Budget,
        counters: Counters,
        store: Store,
        turn: Turn,
        tracer: Tracer,
        traced: TracedUplink,
    ) -> None:
        super().__init__(uplink, recording, budget, counters, store, turn)
        self._tracer = tracer
        self._traced = traced

    def before(self, publication: Publication) -> bool:
        wanted = super().before(publication)
        trace = self._tracer.current
        if trace is not None and trace.run is publication.run and publication.logged is not None:
            self._traced.recorded(trace, publication.logged.position)
        return wanted
