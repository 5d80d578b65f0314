"""Spans that are over, on their way to a collector: OTLP over HTTP, as JSON (docs/adr/0068).

::

    put ─▶ queue, bounded ─(a second, or so many)─▶ POST ─▶ taken
                  ▲                                  └──▶ no answer, or "later": the same batch again
                  └ full: dropped, and counted

Whoever makes spans never waits for any of it.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt import __version__
from iot_mqtt.auth.web import Web, WebError
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.tracing import Span, TracesSettings

log = logging.getLogger(__name__)

#: Spans of a request: half a millisecond of work at once.
AT_ONCE: Final = 128
#: Seconds that spans are gathered for; for an answer; and before a batch is sent again, at first and at most.
GATHER: Final = 1.0
PATIENCE: Final = 10.0
AGAIN: Final = 1.0
AGAIN_AT_MOST: Final = 30.0
#: Seconds in which a node that ends sends what waits.
AT_THE_END: Final = 1.0
#: Bytes of an answer that are read.
ANSWER: Final = 64 * 1024
#: What a collector says that wants it later, by OTLP's specification.
LATER: Final = frozenset({429, 502, 503, 504})


class TraceExport:
    """A ``ports.tracing.Spans`` for one collector."""

    def __init__(self, settings: TracesSettings, node: str, web: Callable[[], Web], clock: Clock) -> None:
        self.dropped: Counter[str] = Counter()
        #: Spans that were taken, and requests that were made again.
        self.sent = self.retries = 0
        self._settings = settings
        self._resource = _attributes(
            {"service.name": "iot-mqtt", "service.instance.id": node, "service.version": __version__}
        )
        self._web = web()
        self._clock = clock
        self._queue: deque[Span] = deque()
        self._timer: Timer | None = None
        self._sending: Deferred[None] | None = None
        #: A batch is sent again later; no batch is; nothing is sent any more.
        self._pausing = self._ending = self._closed = False
        #: Somebody waits for the end of what is being sent.
        self._finished: Deferred[None] | None = None

    @property
    def waiting(self) -> int:
        """Spans that nobody has taken yet."""
        return len(self._queue)

    def put(self, span: Span) -> None:
        """A span is over."""
        if self._closed:
            self.dropped["stopped"] += 1
            return
        if len(self._queue) >= self._settings.max_queued_spans:
            self.dropped["queue_full"] += 1
            return
        self._queue.append(span)
        if self._sending is None and self._timer is None:
            self._timer = self._clock.call_later(GATHER, self._begin)

    async def finish(self) -> None:
        """The node ends: send what waits, once, within a moment."""
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sending is not None and self._pausing:
            self._sending.cancel()
        if self._sending is None:
            self._begin()
        if self._sending is not None:
            over = self._finished = Deferred(lambda _: None)
            timer = self._clock.call_later(AT_THE_END, over.cancel)
            try:
                await over
                timer.cancel()
            except CancelledError:
                log.info("the collector does not answer, and is not waited for")

    def close(self) -> None:
        """What waits is lost."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()
        left = len(self._queue)
        if left:
            self._queue.clear()
            self.dropped["stopped"] += left
            log.warning("%d spans that nobody took are lost: the node ends", left)

    def _begin(self) -> None:
        self._timer = None
        sending = self._sending = ensureDeferred(self._send())
        sending.addErrback(self._failed)
        sending.addCallback(lambda _: self._over())

    def _over(self) -> None:
        self._sending = None
        if self._finished is not None and not self._finished.called:
            self._finished.callback(None)
        if self._queue and not (self._ending or self._closed):
            self._timer = self._clock.call_later(GATHER, self._begin)

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            log.error("traces", exc_info=failure.value)

    async def _send(self) -> None:
        """All that waits. A batch stays in the queue until it was taken or refused."""
        later = AGAIN
        while self._queue and not self._closed:
            batch = [self._queue[place] for place in range(min(AT_ONCE, len(self._queue)))]
            why = await self._post(batch)
            if not self._queue:
                # Closed meanwhile.
                return
            if why is None:
                for _ in batch:
                    self._queue.popleft()
                later = AGAIN
                continue
            if self._ending:
                return
            if later == AGAIN:
                log.warning("spans are not taken, they wait: %s", why)
            self.retries += 1
            self._pausing = True
            try:
                await pause(self._clock, later)
            finally:
                self._pausing = False
            later = min(2 * later, AGAIN_AT_MOST)

    async def _post(self, batch: Sequence[Span]) -> str | None:
        """None: it need not be sent again. Else why it must be."""
        headers = {"Content-Type": "application/json"}
        try:
            status, answer = await self._web.post(self._settings.endpoint, self._body(batch), headers, PATIENCE, ANSWER)
        except WebError as error:
            return str(error)
        if status in LATER:
            return f"HTTP status {status}"
        rejected = _rejected(answer) if 200 <= status < 300 else len(batch)
        if rejected:
            log.warning("%d of %d spans were refused: HTTP status %d", rejected, len(batch), status)
        self.dropped["refused"] += rejected
        self.sent += len(batch) - rejected
        return None

    def _body(self, batch: Sequence[Span]) -> bytes:
        spans = {"scope": {"name": "iot-mqtt", "version": __version__}, "spans": [_span(one) for one in batch]}
        told = {"resourceSpans": [{"resource": {"attributes": self._resource}, "scopeSpans": [spans]}]}
        return json.dumps(told, separators=(",", ":")).encode()


def _span(span: Span) -> dict[str, Any]:
    told: dict[str, Any] = {
        "traceId": span.context.trace_id,
        "spanId": span.context.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
    }
    if span.parent:
        told["parentSpanId"] = span.parent
    if span.context.state:
        told["traceState"] = span.context.state
    return told


def _attributes(values: Mapping[str, str | int | bool]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: str | int | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    # Whole numbers are texts in the JSON of protobuf.
    return {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}


def _rejected(answer: bytes) -> int:
    """How many spans a collector says that it did not take."""
    try:
        return int(json.loads(answer)["partialSuccess"]["rejectedSpans"])
    except (ValueError, KeyError, TypeError):
        return 0
