"""The traces of a node's messages: which there are, how many spans, and when each is over.

::

    receive ──┬── commit       from the hand-over to the receivers until the commit that it waits for
              ├── deliver …    one for each subscriber, until its bytes are written
              └── forward …    one for each node, until the link has it, which goes on with a ``receive`` of its own

Who sends a context gains nothing by that, unless its user is trusted; and the limit of spans in a second holds for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from secrets import token_hex
from typing import Final
from zlib import crc32

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.codec import Properties, PublishRun
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.store import Store
from iot_mqtt.ports.tracing import (
    TRACEPARENT,
    TRACESTATE,
    Context,
    Kind,
    Span,
    Spans,
    TracesSettings,
    context_of,
    state_of,
)
from iot_mqtt.wildcards import for_fnmatch

#: Seconds after which a delivery that has not left is one that waits for its client.
PATIENCE: Final = 5.0
#: What became of a delivery, and of a message.
DELIVERY, OUTCOME = "iot_mqtt.delivery", "iot_mqtt.outcome"


class Trace:
    """Of one message on this node."""

    __slots__ = ("run", "span", "outcome")

    def __init__(self, run: PublishRun, span: Span) -> None:
        self.run = run
        self.span = span
        #: Once it was handed to its receivers.
        self.outcome: Outcome | None = None


class Tracer:
    """One for each node. Everything is called in the reactor's thread."""

    def __init__(self, settings: TracesSettings, spans: Spans, clock: Clock, store: Store) -> None:
        self.settings = settings
        #: Of the message that is being handed to its receivers.
        self.current: Trace | None = None
        self._clients = _pattern(settings.clients)
        self._users = _pattern(settings.trusted_users)
        self._share = int(settings.share * (1 << 32))
        self.spans = spans
        self._clock = clock
        self._store = store
        self._second = self._begun = 0
        #: What waits for a commit, in order; and deliveries that have not left, with the time when they are given up.
        self._waiting: list[tuple[int, Trace, Span | None]] = []
        self._leaving: dict[Span, float] = {}

    # Whose messages.

    def samples(self, client_id: str) -> bool:
        """Whether all messages of a client are traced; the same on each node."""
        return self._clients.fullmatch(client_id) is not None or crc32(client_id.encode()) < self._share

    def trusts(self, user: str) -> bool:
        """Whether a user's clients say themselves which of their messages are traced."""
        return self._users.fullmatch(user) is not None

    # One message.

    def begin(self, run: PublishRun, client_id: str, user: str, *, sampled: bool) -> Trace | None:
        """A client publishes one message; None: it is not traced."""
        came_with = _brought(run.properties) if run.raw_properties and self.trusts(user) else None
        if came_with is None and not sampled:
            return None
        return self._begin(run, run.topic, client_id, came_with)

    def follow(self, publication: Publication, context: str) -> Trace | None:
        """A message comes from another node, with the context of the span that it was forwarded by."""
        traceparent, _, state = context.partition(" ")
        parent = context_of(traceparent)
        if parent is None:
            return None
        came_with = parent._replace(state=state_of([state]))
        return self._begin(publication.run, publication.topic, publication.publisher, came_with)

    def _begin(self, run: PublishRun, topic: bytes, client_id: str, parent: Context | None) -> Trace | None:
        if not self._takes():
            return None
        trace_id = token_hex(16) if parent is None else parent.trace_id
        attributes = self._attributes("receive", "receive", topic, client_id)
        attributes |= {
            "messaging.message.body.size": len(run.payloads()[0]),
            "messaging.message.envelope.size": len(run.wire),
            "mqtt.qos": run.qos,
            "mqtt.retain": run.retain,
        }
        context = Context(trace_id, token_hex(8), "" if parent is None else parent.state)
        span = Span(context, parent.span_id if parent else "", "receive", Kind.CONSUMER, self._now(), attributes)
        return Trace(run, span)

    def served(self, trace: Trace, *, held: bool) -> None:
        """What there is to do with it now was done; ``held``: it waits for room, and begins anew."""
        outcome = trace.outcome
        if outcome is None:
            if held:
                self._begun -= 1
                return
            trace.span.attributes[OUTCOME] = "not_handed_on"
            self.end(trace.span)
        elif outcome.ticket <= self._store.committed:
            self.end(trace.span)
        elif len(self._waiting) < self.settings.max_queued_spans:
            self._waiting.append((outcome.ticket, trace, self.child(trace, "commit", Kind.INTERNAL, {})))
        else:
            self.spans.dropped["queue_full"] += 1

    def committed(self) -> None:
        """A commit is over."""
        committed, waiting = self._store.committed, self._waiting
        if waiting and waiting[0][0] <= committed:
            self._waiting = [one for one in waiting if one[0] > committed]
            for ticket, trace, commit in waiting:
                if ticket <= committed:
                    if commit is not None:
                        self.end(commit)
                    self.end(trace.span)

    # Its steps.

    def child(self, trace: Trace, name: str, kind: Kind, attributes: dict[str, str | int | bool]) -> Span | None:
        """A step that begins now; None: there are too many."""
        if not self._takes():
            return None
        above = trace.span.context
        return Span(
            Context(above.trace_id, token_hex(8), above.state), above.span_id, name, kind, self._now(), attributes
        )

    def delivery(self, trace: Trace, topic: bytes, client_id: str, qos: int) -> Span | None:
        """A subscriber is to get it."""
        attributes = self._attributes("deliver", "send", topic, client_id) | {"mqtt.qos": qos}
        return self.child(trace, "deliver", Kind.PRODUCER, attributes)

    def forwarded(self, trace: Trace, topic: bytes, peer: int) -> str:
        """It leaves for another node, whose span is below this one; what ``follow`` takes there."""
        attributes = self._attributes("forward", "send", topic, "") | {"iot_mqtt.peer": peer}
        attributes.pop("messaging.client.id", None)
        span = self.child(trace, "forward", Kind.PRODUCER, attributes)
        if span is None:
            return ""
        span.start = trace.span.start
        self.end(span)
        return f"{span.context.traceparent} {span.context.state}".rstrip()

    def waits(self, span: Span) -> None:
        """A delivery leaves later, behind its commit."""
        if len(self._leaving) < self.settings.max_queued_spans:
            self._leaving[span] = self._clock.monotonic() + PATIENCE
        else:
            self.spans.dropped["queue_full"] += 1

    def delivered(self, span: Span, how: str) -> None:
        """What became of it."""
        self._leaving.pop(span, None)
        span.attributes[DELIVERY] = how
        self.end(span)

    def sweep(self) -> None:
        """Give up waiting for deliveries that do not leave; called each second."""
        now = self._clock.monotonic()
        for span in [span for span, until in self._leaving.items() if until <= now]:
            self.delivered(span, "queued")

    def end(self, span: Span) -> None:
        """A step is over."""
        span.end = self._now()
        self.spans.put(span)

    def _attributes(self, name: str, type: str, topic: bytes, client_id: str) -> dict[str, str | int | bool]:
        found: dict[str, str | int | bool] = {
            "messaging.system": "mqtt",
            "messaging.operation.name": name,
            "messaging.operation.type": type,
        }
        if self.settings.names:
            found["messaging.destination.name"] = topic.decode("utf-8", "replace")
            found["messaging.client.id"] = client_id
        return found

    def _takes(self) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._begun = second, 0
        if self._begun >= self.settings.max_spans_per_second:
            self.spans.dropped["rate"] += 1
            return False
        self._begun += 1
        return True

    def _now(self) -> int:
        return int(self._clock.wall() * 1e9)


def _brought(properties: Properties) -> Context | None:
    """The context that a message came with."""
    parents = properties.named(TRACEPARENT)
    context = context_of(parents[0]) if parents else None
    return context if context is None else context._replace(state=state_of(properties.named(TRACESTATE)))


def _pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    """What any of these with * and ? matches; nothing where there are none."""
    return re.compile("|".join(translate(for_fnmatch(one)) for one in patterns) or r"(?!)")
