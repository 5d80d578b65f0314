"""From a traced message to its receivers: each has a step of the trace, which ends when its bytes are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack
from typing import ClassVar

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.recording import Recording
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.traces.runs import has_context
from iot_mqtt.broker.traces.tracer import Trace, Tracer
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import Store
from iot_mqtt.ports.tracing import TRACEPARENT, Span
from iot_mqtt.topics import Match, Route, SharedGroup
from iot_mqtt.values import Message


class TracedFanOut(FanOut):
    """For whatever does not go as a batch; what is not traced pays for one comparison."""

    __slots__ = ("_tracer", "_delivering")

    def __init__(
        self,
        counters: Counters,
        store: Store,
        recording: Recording,
        outflow: Outflow,
        groups: SharedGroups,
        tracer: Tracer,
    ) -> None:
        super().__init__(counters, store, recording, outflow, groups)
        self._tracer = tracer
        self._delivering = _Delivering(counters, store, recording, outflow, groups)
        self._delivering.tracer = tracer

    def fan_out(self, publication: Publication, match: Match[Session], source: Session | None) -> Outcome:
        trace = self._tracer.current
        if trace is None or trace.run is not publication.run:
            return super().fan_out(publication, match, source)
        view = TracedPublication(publication, self._tracer, trace)
        trace.outcome = self._delivering.fan_out(view, match, source)
        publication.logged = view.logged
        return trace.outcome

    def deliver_to_member(self, publication: Publication, filter: str, session: Session | None) -> bool:
        trace = self._tracer.current
        if trace is None or trace.run is not publication.run:
            return super().deliver_to_member(publication, filter, session)
        trace.outcome = trace.outcome or Outcome()
        return self._delivering.deliver_to_member(publication, filter, session)

    def follow(self, publication: Publication, context: str, deliver: Callable[[], None]) -> None:
        tracer = self._tracer
        trace = tracer.current = tracer.follow(publication, context)
        try:
            deliver()
        finally:
            tracer.current = None
            if trace is not None:
                tracer.served(trace, held=False)


class _Delivering(FanOut):
    """Of traced messages alone."""

    __slots__ = ("tracer",)

    tracer: Tracer

    def to_session(
        self,
        publication: Publication,
        route: Route[Session],
        outcome: Outcome,
        origin: SharedGroup[Session] | None = None,
        offset: int = 0,
    ) -> None:
        trace = self.tracer.current
        assert trace is not None
        session, refused = route.receiver, outcome.refused
        qos = min(route.qos, publication.qos)
        span = self.tracer.delivery(trace, publication.topic, session.client_id, qos)
        if span is None:
            super().to_session(publication, route, outcome, origin, offset)
            return
        delivered = session.delivered
        view = Delivered(publication, self.tracer, span, said=self._said(publication, session, span))
        super().to_session(view, route, outcome, origin, offset)
        publication.logged = view.logged
        view.settle(sent=session.delivered > delivered, dropped=not qos or outcome.refused is not refused)

    def _said(self, publication: Publication, session: Session, span: Span) -> bytes:
        """The user property that this receiver gets, as bytes; nothing where it might not fit."""
        connection = session.connection
        if not self.tracer.settings.user_property or connection is None or not connection.five:
            return b""
        if connection.max_packet_size or has_context(publication.run):
            return b""
        value = span.context.traceparent
        return pack(">BH", 0x26, len(TRACEPARENT)) + TRACEPARENT.encode() + pack(">H", len(value)) + value.encode()


class _View(Publication):
    """The same messages, seen by a trace."""

    __slots__ = ()

    def __init__(self, publication: Publication) -> None:
        super().__init__(
            publication.run, publication.topic, publication.publisher, publication.wall, publication.origin
        )
        self.remote, self.late, self.logged = publication.remote, publication.late, publication.logged
        self.plain, self.waited_until = publication.plain, publication.waited_until


class TracedPublication(_View):
    """A traced message for all of its receivers: other nodes get the context of their span with it."""

    __slots__ = ("_tracer", "_trace")

    traced: ClassVar[bool] = True

    def __init__(self, publication: Publication, tracer: Tracer, trace: Trace) -> None:
        super().__init__(publication)
        self._tracer = tracer
        self._trace = trace

    def forwarded(self, peer: int) -> str:
        return self._tracer.forwarded(self._trace, self.topic, peer)


class Delivered(_View):
    """A traced message for one receiver: it sees when it is written, and adds what is said to this one alone."""

    __slots__ = ("_tracer", "_span", "_said", "_settled")

    def __init__(self, publication: Publication, tracer: Tracer, span: Span, *, said: bytes) -> None:
        super().__init__(publication)
        if said:
            self.plain = 0
        self._tracer = tracer
        #: None: it is known what became of it.
        self._span: Span | None = span
        self._said = said
        self._settled = False

    def at_qos0(self, five: bool, retain: bool, identifiers: tuple[int, ...]) -> bytes:
        self._over("sent")
        return super().at_qos0(five, retain, identifiers)

    def with_ids(
        self,
        five: bool,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        ids: Sequence[int],
        start: int = 0,
        *,
        dup: bool = False,
        wall: float | None = None,
    ) -> bytes:
        self._over("sent")
        return super().with_ids(five, qos, retain, identifiers, ids, start, dup=dup, wall=wall)

    @property
    def messages(self) -> list[Message]:
        """Before ``settle``: to be kept; behind it: for a client that gets them one by one, now."""
        if self._settled:
            self._over("sent")
        return super().messages

    def settle(self, *, sent: bool, dropped: bool) -> None:
        """It was handed to its receiver: it has left, waits for its commit, is kept for the client, or is gone."""
        self._settled = True
        if sent or self._span is None:
            self._over("sent")
        elif dropped:
            self._over("dropped")
        elif self.logged is not None:
            self._tracer.waits(self._span)
        else:
            self._over("queued")

    def _hop(self, five: bool, identifiers: tuple[int, ...], wall: float | None = None) -> bytes:
        block = super()._hop(five, identifiers, wall)
        return block + self._said if five else block

    def _over(self, how: str) -> None:
        span, self._span = self._span, None
        if span is not None:
            self._tracer.delivered(span, how)
