"""This node's events, posted to addresses of the configuration.

::

    Events ──watch──▶ a queue for each address ──▶ a batch: JSON, signed ──▶ POST
                      full: the oldest go          no answer, 429, 5xx: again, later; other answers: given up
                      and its file (``webhook_spool``), for the next start

Each address is told of one batch after the other. A batch may come twice, if its answer was lost, or the node was
killed before it had noted the answer: ``life`` and ``number`` tell events apart.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.app.config.webhooks import WebhookEntry, secret_of, webhook_of
from iot_mqtt.app.node.webhook_spool import Entry, Spool, Spools
from iot_mqtt.auth.web import AgentWeb, Web, WebError
from iot_mqtt.pause import pause
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.events import Event, Events
from iot_mqtt.thread_bridge import Cross

log = logging.getLogger(__name__)

#: Of a batch: events, bytes of JSON, and seconds for which it is gathered.
AT_ONCE: Final = 100
MOST_BYTES: Final = 256 * 1024
GATHER: Final = 0.5
#: Bytes of a batch beside its events, at most.
AROUND: Final = 1024
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

    def __init__(self, name: str, told: WebhookEntry, node: str, web: Web, clock: Clock, spool: Spool) -> None:
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
        self._spool = spool
        self._sequence = 0
        self._waiting: deque[Entry] = deque()
        #: The batch that is under way.
        self._posted: list[Entry] = []
        #: What is not handed to the spool yet; that is done at the end of the turn.
        self._fresh: list[Entry] = []
        self._keeping: Timer | None = None
        self._timer: Timer | None = None
        self._delivering: Deferred[None] | None = None
        #: The batch that is under way was not taken at first.
        self._again = False
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._posted)

    @property
    def alarms(self) -> Iterable[Alarm]:
        """It does not keep up, or what waits is not kept."""
        if self.behind:
            text = f"{self._of} does not take events as fast as they come: the oldest are dropped"
            yield Alarm(AlarmKind.WEBHOOK, text)
        if (trouble := self._spool.trouble) is not None:
            text = f"{self._of}: what waits for it is in memory alone, and lost at a restart: {trouble}"
            yield Alarm(AlarmKind.WEBHOOK, text, trouble)

    def begin(self, events: Events) -> None:
        """What happens from now on is told, and before that what waited at the end of the last life."""
        found, unreadable = self._spool.open()
        if unreadable:
            self.dropped["unreadable"] += unreadable
            log.error("%s: %d lines of what waited for it cannot be read", self._of, unreadable)
        if len(found) > MOST_WAITING:
            self.dropped["queue_full"] += len(found) - MOST_WAITING
        if found:
            self._sequence = found[-1].sequence
            self._waiting.extend(found[-MOST_WAITING:])
            log.info("%s: %d events wait from before", self._of, len(self._waiting))
            self._plan()
        self._life = events.life
        events.watchers = (*events.watchers, self._happened)

    def close(self) -> None:
        """Nothing is told any more. What waits is kept."""
        self._closed = True
        if self._keeping is not None:
            self._keeping.cancel()
            self._keep()
        if self._timer is not None:
            self._timer.cancel()
        if self._delivering is not None:
            self._delivering.cancel()

    def _happened(self, event: Event) -> None:
        if event.kind not in self._kinds or self._closed:
            return
        told = {"number": event.number, "at": event.at, "kind": event.kind, **event.fields}
        item = json.dumps(told, separators=(",", ":"))
        if len(item) > MOST_BYTES - AROUND:
            self.dropped["too_large"] += 1
            return
        if self.waiting >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped["queue_full"] += 1
            self.behind = True
        self._sequence += 1
        entry = Entry(self._sequence, self._life, item)
        self._waiting.append(entry)
        self._fresh.append(entry)
        if self._keeping is None:
            self._keeping = self._clock.call_later(0, self._keep)
        if self._delivering is None:
            self._plan()

    def _keep(self) -> None:
        """Whoever tells is in the middle of something; now the turn is over."""
        self._keeping = None
        fresh, self._fresh = self._fresh, []
        self._spool.add(fresh, self._left, sync=self._again)

    def _left(self) -> list[Entry]:
        """All that waits."""
        return [*self._posted, *self._waiting]

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

    def _failed(self, failure: Failure) -> None:
        """By a fault of ours, or because the node ends."""
        if not self._closed:
            self.dropped["fault"] += len(self._posted)
            log.error("%s", self._of, exc_info=failure.value)

    def _delivered(self) -> None:
        if self._closed:
            # It is posted again by the next life.
            return
        last = self._posted[-1].sequence
        self._posted, self._delivering, self._again = [], None, False
        self._spool.settle(last, self._left)
        if len(self._waiting) < MOST_WAITING // 2:
            self.behind = False
        if self._waiting:
            self._plan()

    def _take_batch(self) -> bytes:
        """Of one life, because that is told once for all."""
        waiting, size, life = self._waiting, 0, self._waiting[0].life if self._waiting else ""
        items: list[Entry] = []
        while waiting and len(items) < AT_ONCE and waiting[0].life == life:
            size += len(waiting[0].item) + 1
            if items and size > MOST_BYTES - AROUND:
                break
            items.append(waiting.popleft())
        self._posted = items
        head = f'{{"node":{json.dumps(self._node)},"life":{json.dumps(life)},"events":['
        return f"{head}{','.join(entry.item for entry in items)}]}}".encode()

    async def _deliver(self, body: bytes) -> None:
        """Post it until there is an answer that settles it."""
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            headers["X-Iot-Mqtt-Signature"] = f"sha256={hmac.new(self._secret, body, 'sha256').hexdigest()}"
        later, tries = FIRST_PAUSE, 0
        while (again := await self._post(body, headers)) is not None and not self._closed:
            reason, text = again
            self.failures[reason] += 1
            if not tries:
                log.warning("%s: %s; it is tried again", self._of, text)
            tries += 1
            self._again = True
            self._spool.sync(self._left)
            await pause(self._clock, later)
            later = min(later * 2, LONGEST_PAUSE)
        if tries and not self._closed:
            log.warning("%s answers again", self._of)

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
            self.sent += len(self._posted)
        else:
            self.dropped["refused"] += len(self._posted)
            log.warning("%s refuses %d events: status %d", self._of, len(self._posted), status)
        return None


class Webhooks:
    """Those of one life of a node."""

    def __init__(
        self,
        node: str,
        entries: Sequence[Mapping[str, object]],
        make_web: Callable[[], AgentWeb],
        clock: Clock,
        folder: Path,
        cross: Cross,
    ) -> None:
        """``folder``: for what waits."""
        self._web = make_web() if entries else None
        self._spools = Spools(folder, cross)
        self._names: list[str] = []
        self.hooks: tuple[Webhook, ...] = ()
        if self._web is not None:
            told = [webhook_of(entry) for entry in entries]
            self._names += _file_names(told)
            self.hooks = tuple(
                Webhook(str(number), one, node, self._web, clock, self._spools.spool(name, MOST_WAITING))
                for number, (one, name) in enumerate(zip(told, self._names, strict=True), start=1)
            )

    def begin(self, events: Events) -> None:
        """What happens from now on is told."""
        for path in self._spools.left_over(self._names):
            log.warning("%s has events for an address that is not in events.webhooks: nobody gets them", path)
        for hook in self.hooks:
            hook.begin(events)

    def alarms(self) -> tuple[Alarm, ...]:
        """Of those that do not keep up."""
        return tuple(alarm for hook in self.hooks for alarm in hook.alarms)

    def facts(self) -> Sequence[Webhook]:
        """For metrics."""
        return self.hooks

    def close(self) -> None:
        """The node ends."""
        for hook in self.hooks:
            hook.close()
        self._spools.close()
        if self._web is not None:
            self._web.close()


def _file_names(entries: Iterable[WebhookEntry]) -> Iterable[str]:
    """By address, which may be a secret, and not by place: entries move. The second one for an address is another."""
    seen: Counter[str] = Counter()
    for entry in entries:
        name = sha256(entry.url.encode()).hexdigest()[:16]
        seen[name] += 1
        yield f"{name}-{seen[name]}"
