"""This node's events, posted to addresses of the configuration.

::

    Events ──watch──▶ a queue for each address ──▶ a batch: JSON, signed ──▶ POST
                      full: the oldest go          no answer, 429, 5xx: again, later; other answers: given up

Each address is told of one batch after the other. A batch may come twice, if its answer was lost: ``life`` and
``number`` tell events apart. What waits is in memory, and is lost with the process.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.app.config.webhooks import WebhookEntry, secret_of, webhook_of
from iot_mqtt.auth.web import AgentWeb, Web, WebError
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.events import Event, Events

log = logging.getLogger(__name__)

#: Of a batch: events, bytes of JSON, and seconds for which it is gathered.
AT_ONCE: Final = 100
MOST_BYTES: Final = 256 * 1024
GATHER: Final = 0.5
#: Events that wait for one address, with those of the batch that is under way.
MOST_WAITING: Final = 10_000
#: Seconds for an answer, and bytes of it, which nobody reads.
PATIENCE: Final = 10.0
MOST_ANSWER: Final = 1024 * 1024
#: Seconds until a batch is posted again: at first, and at most.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0

TOO_MANY_REQUESTS: Final = 429


class Webhook:
    """One address. Its attributes are its figures."""

    def __init__(self, name: str, told: WebhookEntry, node: str, web: Web, clock: Clock) -> None:
        self.name = name
        self.sent = 0
        #: Events that are told nobody, by reason.
        self.dropped: Counter[str] = Counter()
        #: Requests that are made again, by reason.
        self.failures: Counter[str] = Counter()
        #: Events are dropped because the queue is full.
        self.behind = False
        self._of = f"webhook {name} ({told.host})"
        self._url = told.url
        self._kinds = told.wanted
        self._secret = secret_of(told)
        self._node = node
        self._life = ""
        self._web = web
        self._clock = clock
        self._waiting: deque[Event] = deque()
        #: Events of the batch that is under way.
        self._posted = 0
        self._timer: Timer | None = None
        self._delivering: Deferred[None] | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting) + self._posted

    @property
    def alarm(self) -> str | None:
        """It does not keep up."""
        return f"{self._of} does not take events as fast as they come: the oldest are dropped" if self.behind else None

    def begin(self, events: Events) -> None:
        """What happens from now on is told."""
        self._life = events.life
        events.watchers = (*events.watchers, self._happened)

    def close(self) -> None:
        """Nothing is told any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._delivering is not None:
            self._delivering.cancel()

    def _happened(self, event: Event) -> None:
        if event.kind not in self._kinds or self._closed:
            return
        if self.waiting >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped["queue_full"] += 1
            self.behind = True
        self._waiting.append(event)
        if self._delivering is None:
            self._plan()

    def _plan(self) -> None:
        """A batch, when it is full or has been gathered for long enough. Later: whoever tells is in the middle of
        something.
        """
        if self._timer is None:
            self._timer = self._clock.call_later(0 if len(self._waiting) >= AT_ONCE else GATHER, self._begin_batch)
        elif len(self._waiting) == AT_ONCE:
            self._timer.cancel()
            self._timer = self._clock.call_later(0, self._begin_batch)

    def _begin_batch(self) -> None:
        self._timer = None
        body = self._take_batch()
        if self._posted:
            delivering = self._delivering = ensureDeferred(self._deliver(body))
            delivering.addErrback(self._failed)
            delivering.addCallback(lambda _: self._delivered())
        elif self._waiting:
            self._plan()

    def _failed(self, failure: Failure) -> None:
        """By a fault of ours."""
        self.dropped["fault"] += self._posted
        log.error("%s", self._of, exc_info=failure.value)

    def _delivered(self) -> None:
        self._posted, self._delivering = 0, None
        if len(self._waiting) < MOST_WAITING // 2:
            self.behind = False
        if self._waiting and not self._closed:
            self._plan()

    def _take_batch(self) -> bytes:
        waiting, size = self._waiting, 0
        items: list[str] = []
        head = f'{{"node":{json.dumps(self._node)},"life":"{self._life}","events":['
        room = MOST_BYTES - len(head) - 2
        while waiting and len(items) < AT_ONCE:
            event = waiting[0]
            told = {"number": event.number, "at": event.at, "kind": event.kind, **event.fields}
            item = json.dumps(told, separators=(",", ":"))
            if items and size + len(item) + 1 > room:
                break
            waiting.popleft()
            if len(item) > room:
                self.dropped["too_large"] += 1
                continue
            items.append(item)
            size += len(item) + 1
        self._posted = len(items)
        return f"{head}{','.join(items)}]}}".encode()

    async def _deliver(self, body: bytes) -> None:
        """Post it until there is an answer that settles it."""
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            headers["X-Iot-Mqtt-Signature"] = f"sha256={hmac.new(self._secret, body, 'sha256').hexdigest()}"
        pause, tries = FIRST_PAUSE, 0
        while (again := await self._post(body, headers)) is not None and not self._closed:
            reason, text = again
            self.failures[reason] += 1
            if not tries:
                log.warning("%s: %s; it is tried again", self._of, text)
            tries += 1
            if not await self._pause(pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE)
        if tries and not self._closed:
            log.info("%s answers again", self._of)

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[str, str] | None:
        """None: it is settled, one way or the other; else why it is not, in a word and for people."""
        try:
            status, _ = await self._web.post(self._url, body, headers, PATIENCE, MOST_ANSWER)
        except WebError as error:
            return "network", str(error)
        if status == TOO_MANY_REQUESTS:
            return "too_many_requests", f"status {status}"
        if status >= 500:
            return "server_error", f"status {status}"
        if 200 <= status < 300:
            self.sent += self._posted
        else:
            self.dropped["refused"] += self._posted
            log.warning("%s refuses %d events: status %d", self._of, self._posted, status)
        return None

    async def _pause(self, seconds: float) -> bool:
        """False: the node ends meanwhile."""
        waiting: Deferred[None] = Deferred(lambda _: timer.cancel())
        timer = self._clock.call_later(seconds, lambda: waiting.callback(None))
        try:
            await waiting
        except CancelledError:
            return False
        return True


class Webhooks:
    """Those of one life of a node."""

    def __init__(
        self, node: str, entries: Sequence[Mapping[str, object]], make_web: Callable[[], AgentWeb], clock: Clock
    ) -> None:
        self._web = make_web() if entries else None
        self.hooks: tuple[Webhook, ...] = ()
        if self._web is not None:
            told = [webhook_of(entry) for entry in entries]
            self.hooks = tuple(Webhook(str(n), one, node, self._web, clock) for n, one in enumerate(told, start=1))

    def begin(self, events: Events) -> None:
        """What happens from now on is told."""
        for hook in self.hooks:
            hook.begin(events)

    def alarms(self) -> tuple[str, ...]:
        """Of those that do not keep up."""
        return tuple(hook.alarm for hook in self.hooks if hook.alarm is not None)

    def facts(self) -> Sequence[Webhook]:
        """For metrics."""
        return self.hooks

    def close(self) -> None:
        """The node ends."""
        for hook in self.hooks:
            hook.close()
        if self._web is not None:
            self._web.close()
