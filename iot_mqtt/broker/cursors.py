"""How far a reader of the log is, and how it catches up.

::

               offered while there is room                  no room, or the client is gone
    LIVE ───────────────────────────────▶ LIVE        LIVE ───────────────────────────────▶ BEHIND
                                                      BEHIND ──(read to the end of the log)──▶ LIVE

A live cursor is offered messages as they are published and needs no position. One that is behind is offered
nothing: what it is owed is in the log from its position on, and it reads as far as there is room.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.publication import Publication, logged_publication
from iot_mqtt.broker.repeating import Doubt, out_of_order
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.store import StoredPast
from iot_mqtt.topics import Route, combined, is_wildcard, matches, parse_shared
from iot_mqtt.values import Subscription

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.session import Session
    from iot_mqtt.ports.log import LogReader, LogRun

logger = logging.getLogger(__name__)

#: Bytes that one read brings at most, about.
READ_BYTES = 1024 * 1024
#: The part of a large window that a session must have free before it reads: a fourth.
PART_OF_WINDOW = 4
LARGE_WINDOW = 64
#: Topics whose claims are kept while a session catches up.
MAX_CLAIMS = 1000
#: Ended or replaced subscriptions that a session may still be owed messages for.
MAX_PAST = 100

#: (subscription, since, until)
Claims = list[tuple[Subscription, int, int | None]]


class Cursor:
    """The part that every kind of reader shares."""

    __slots__ = ("log", "position", "live", "reading", "backlog", "version", "closed", "name", "uncounted")

    def __init__(self, log: LogReader, position: int, *, live: bool) -> None:
        #: What it reads; positions are places in this log.
        self.log = log
        #: Everything before it has been taken or is not wanted. Means nothing while ``live``.
        self.position = position
        self.live = live
        self.reading = False
        #: Messages that are owed from ``position`` on; None when nobody has counted them since the start.
        self.backlog: int | None = 0 if live else None
        #: While the backlog is unknown: messages in it that are counted already, as matched or as restored.
        self.uncounted = 0
        #: Moves when what is wanted changes: a read that began before is worth nothing.
        self.version = 0
        self.closed = False
        #: What flights are stored under: "" for a session's main cursor, else the filter as subscribed.
        self.name = ""

    # What a kind of reader is.

    def filters(self) -> Sequence[str]:
        """Plain filters that cover what is wanted."""
        raise NotImplementedError

    def room(self) -> int:
        """How many messages can be taken now."""
        raise NotImplementedError

    def take(self, broker: Broker, run: LogRun) -> int:
        """Take what is wanted of a run; how many of its messages are dealt with (fewer than all: no room)."""
        raise NotImplementedError

    def may_rest(self) -> bool:
        """Whether the end of the log is all there is to reach."""
        return True

    def is_offered(self, broker: Broker) -> bool:
        """Whether, once at the end of the log, it can rely on being offered what is published from now on."""
        return True

    def caught_up(self, broker: Broker) -> None:
        """The end of the log was reached."""

    def lose(self, broker: Broker, count: int) -> None:
        """Messages that were owed are not in the log any more."""
        raise NotImplementedError

    @property
    def idle(self) -> bool:
        """Whether nobody is there to take anything."""
        raise NotImplementedError

    # Falling behind and catching up.

    def place(self, end: int) -> int:
        """How far it is; ``end`` is that of the log, where a live one is."""
        return end if self.live else self.position

    def fall_behind(self, position: int, owed: int) -> None:
        """From this position on messages have to be read."""
        self.live = False
        self.position = position
        self.backlog = owed

    def owe(self, count: int) -> None:
        """Messages were appended that this reader will want."""
        if self.backlog is None:
            self.uncounted += count
        else:
            self.backlog += count

    @property
    def owed(self) -> int:
        """Messages that are known to be owed: the backlog, or what is known of it."""
        return self.uncounted if self.backlog is None else self.backlog

    def over(self, broker: Broker, count: int) -> None:
        """Owed messages were taken, or given up. Those that nobody had counted waited before the node started."""
        known = min(count, self.owed)
        if self.backlog is None:
            self.uncounted -= known
        else:
            self.backlog -= known
        broker.counters.messages_restored += count - known

    def read_on(self, broker: Broker) -> None:
        """Read what there is room for, unless that is being done."""
        if self.can_read():
            self.begin_read(broker)

    def can_read(self) -> bool:
        """Whether there is something to read, and room for it."""
        return not (self.live or self.reading or self.closed) and self.room() > 0

    def begin_read(self, broker: Broker) -> None:
        """Read, or wait where too much is under way."""
        if not broker.outflow.must_wait(self):
            self.reading = True
            drive(self._read(broker), done, partial(self._failed, broker))

    async def _read(self, broker: Broker) -> None:
        version = self.version
        room = min(self.room(), broker.read_messages)
        reading = await self.log.read(self.filters(), self.position, room, READ_BYTES)
        self.reading = False
        if self.closed or self.room() <= 0:
            return
        if version == self.version and not self._take_all(broker, reading.runs):
            return
        if version == self.version:
            self.position = reading.position
            if reading.at_end and self.may_rest():
                if not self.is_offered(broker):
                    return
                if self.owed:
                    # What is owed and is nowhere was removed by retention, or is damaged.
                    self.lose(broker, self.owed)
                self.live, self.backlog = True, 0
                self.caught_up(broker)
                return
        broker.call_soon(partial(self.read_on, broker))

    def _take_all(self, broker: Broker, runs: Sequence[LogRun]) -> bool:
        for run in runs:
            count = self.take(broker, run)
            if count < run.reference.length:
                self.position = run.position + count
                return False
        return True

    def _failed(self, broker: Broker, error: BaseException) -> None:
        """Not ready is not empty: later again."""
        self.reading = False
        logger.error("reading the log failed; trying again: %s", error)
        broker.clock.call_later(RETRY_SECONDS, partial(self.read_on, broker))


class SessionCursor(Cursor):
    """What a durable session is owed of one log for its plain subscriptions."""

    __slots__ = ("session", "since", "past", "doubt", "_claims", "_claims_version")

    def __init__(self, session: Session, log: LogReader, position: int, *, live: bool) -> None:
        super().__init__(log, position, live=live)
        self.session = session
        #: Filter → where its claim on the log begins.
        self.since: dict[str, int] = {}
        self._claims: dict[bytes, Claims] | None = None
        self._claims_version = 0
        self.past: list[StoredPast] | None = None
        self.doubt: Doubt | None = None

    def filters(self) -> list[str]:
        names = list(self.since)
        if self.past:
            names.extend({past.subscription.filter for past in self.past} - self.since.keys())
        return names

    def room(self) -> int:
        return window_of(self.session)

    @property
    def idle(self) -> bool:
        return self.session.connection is None

    def lose(self, broker: Broker, count: int) -> None:
        self.over(broker, count)
        broker.drop(self.session, Drop.RETENTION, count)

    # Subscriptions come and go.

    def subscribed(self, filter: str, end: int, replaced: Subscription | None) -> None:
        """A plain filter is wanted from the end of the log on, with new options perhaps."""
        if replaced is not None:
            self._keep_past(replaced, end)
        self.since[filter] = end
        self.version += 1

    def unsubscribed(self, subscription: Subscription, end: int) -> None:
        """A plain filter is wanted no more; what is owed for it stays owed [MQTT-3.10.4-3]."""
        self._keep_past(subscription, end)
        self.since.pop(subscription.filter, None)
        self.version += 1

    def _keep_past(self, subscription: Subscription, end: int) -> None:
        since = self.since.get(subscription.filter, end)
        if not self.live and max(since, self.position) < end:
            if self.past is None:
                self.past = []
            self.past.append(StoredPast(subscription, since, end))

    @property
    def crowded(self) -> bool:
        """Whether no further subscription may begin, which could end in its turn, before it has caught up."""
        return self.past is not None and len(self.past) >= MAX_PAST

    # Messages.

    def offer(
        self,
        broker: Broker,
        publication: Publication,
        logged: LogRun,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
    ) -> None:
        """A message that it wants was published."""
        if not self.live:
            self.owe(publication.count)
            return
        if self.session.queue:
            # What waits there came before.
            self.fall_behind(logged.position, publication.count)
            return
        taken = broker.outflow.take(self.session, publication, logged.reference, qos, retain, identifiers, self)
        if taken < publication.count:
            self.fall_behind(logged.position + taken, publication.count - taken)

    def take(self, broker: Broker, run: LogRun) -> int:
        length = run.reference.length
        route = self.wanted(run)
        qos = 0 if route is None else min(route.qos, run.run.qos)
        if route is None or qos == 0:
            return length
        if qos == 2:
            # It would be written, had it been sent, and it would have been sent before what is behind it.
            self.doubt = None
        doubt = self.doubt if self.doubt is not None and self.doubt.covers(run.position) else None
        publication = logged_publication(run)
        if publication.expired(broker.clock.wall()):  # [MQTT-3.3.2-5]
            if doubt is not None:
                out_of_order(self.session)
            self.dealt_with(broker, length)
            broker.drop(self.session, Drop.EXPIRED, length)
            return length
        retain = run.run.retain and route.retain_as_published
        taken = broker.outflow.take(
            self.session, publication, run.reference, qos, retain, route.identifiers, self, again=doubt is not None
        )
        if doubt is not None:
            doubt.taken(taken)
        self.dealt_with(broker, taken)
        return taken

    def dealt_with(self, broker: Broker, count: int) -> None:
        """So many messages that were read are not owed any more."""
        self.over(broker, count)

    def _claims_on(self, topic: bytes) -> Claims:
        """Subscriptions that match a topic, with the part of the log they claim; looked up once while it reads on."""
        if self._claims is None or self._claims_version != self.version or len(self._claims) >= MAX_CLAIMS:
            self._claims, self._claims_version = {}, self.version
        claims = self._claims.get(topic)
        if claims is None:
            name, subscriptions = topic.decode(), self.session.subscriptions
            claims = self._claims[topic] = [
                (subscriptions[filter], since, None)
                for filter, since in self.since.items()
                if filter == name or (is_wildcard(filter) and matches(filter, name))
            ]
            claims.extend(past for past in self.past or () if matches(past.subscription.filter, name))
        return claims

    def wanted(self, run: LogRun) -> Route[Session] | None:
        """How the session wants a run: by the subscriptions that it had when the run was published."""
        session, position = self.session, run.position
        parts = [
            subscription
            for subscription, since, until in self._claims_on(run.topic)
            if since <= position and (until is None or position < until)
        ]
        if run.publisher == session.client_id:
            parts = [part for part in parts if not part.no_local]  # [MQTT-3.8.3-3]
        return combined(parts, session) if parts else None

    def caught_up(self, broker: Broker) -> None:
        self._claims = self.doubt = None
        if self.past:
            self.past = None
            broker.progress.moved(self.session)
        if not self.session.durable:
            # The session ends with its connection now, and is served like all of these again.
            self.session.let_go(self)
            self.closed = True


def window_of(session: Session) -> int:
    """How many messages to read for a session now. A read costs the same for few as for many, so with a large window
    it waits until a good part of that is free; what is under way then will free it.
    """
    connection, outbound = session.connection, session.outbound
    if connection is None or not connection.writable:
        return 0
    room, limit = outbound.room, outbound.limit
    return room if limit < LARGE_WINDOW or room * PART_OF_WINDOW >= limit else 0


def is_plain(filter: str) -> bool:
    """Whether the main cursor of a session reads for this filter: neither shared nor a replay."""
    return not filter.startswith("$") or (parse_shared(filter) is None and not filter.startswith("$replay/"))
