"""Replay: a subscription that begins in the past.

    $replay/<from>/<filter>        from: a duration (90s, 15m, 12h, 7d, 2w), a time of ISO 8601 or an offset in the log

A time without an offset from UTC is UTC. An offset beyond the end begins at the end, and what begins before the
first message kept begins there. ``2.3355443200`` is an offset in the log of node number 2, and refused elsewhere.

Its messages say to a client of MQTT 5 when they came and where the next one is (``publication.Replayed``): what goes on
from there gets what is behind them.

Its cursor is set to that place in the log and reads; when it has reached the end it is live. One cursor for
history and presence, so there is neither a gap nor a double between them. It belongs to the session like any
subscription; a durable session's goes on where it was after a restart, wherever that was by then.

Clients of MQTT 5 may say it otherwise: the user property ``replay: <from>`` of a SUBSCRIBE makes every plain filter in
it a replay. Such a subscription keeps the name that the client gave it: UNSUBSCRIBE takes the plain filter, and
a SUBSCRIBE of the same filter, with the property or without, replaces it [MQTT-3.8.4-3]. It is kept as
``$replay//<filter>``, a form that nobody can subscribe to. ``$replay/<from>/<filter>`` is a filter of its own, beside
the plain one and beside other beginnings.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar, cast

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.log_cursor import Replay
from iot_mqtt.broker.publication import Publication, Replayed, logged_publication
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.readers.cursors import window_of
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.session import Session
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Log, LogRun
from iot_mqtt.ports.store import StoredReplay
from iot_mqtt.topics import Route, parse_shared
from iot_mqtt.topics.filters import MAX_BYTES
from iot_mqtt.values import Subscription

logger = logging.getLogger(__name__)

PREFIX = "$replay/"
#: QoS 0 messages read in one go: nothing confirms them, only the outbox bounds them.
QOS0_ROOM = 256
#: The user property of SUBSCRIBE.
PROPERTY = "replay"
_BY_PROPERTY = PREFIX + "/"
#: Digits of an offset: those of 2**64.
LONGEST_OFFSET = 20
_PLACE = re.compile(r"([0-9]{1,3})\.([0-9]{1,20})")
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def by_property(plain: str) -> str:
    """What a plain filter is kept under that the user property made a replay."""
    if parse_shared(plain) is not None:
        raise Refused("a shared subscription can't be a replay", ReasonCode.TOPIC_FILTER_INVALID)
    name = _BY_PROPERTY + plain
    if len(name.encode()) > MAX_BYTES:
        raise Refused("the filter is too long for a replay", ReasonCode.TOPIC_FILTER_INVALID)
    return name


def twin(filter: str) -> str:
    """The other name that a client's plain filter may be kept under; "" for filters that have none."""
    if filter.startswith(_BY_PROPERTY):
        return filter[len(_BY_PROPERTY) :]
    return _BY_PROPERTY + filter if not filter.startswith(("$share/", PREFIX)) else ""


def beginning(begin: str, now: float, writer: int) -> int | float:
    """Where a replay begins: a position (int) or a time (float). ``Refused`` for what is neither, and for a position
    in the log of another node than ``writer``.
    """
    place = _PLACE.fullmatch(begin)
    if place is not None:
        if int(place[1]) != writer:
            raise Refused(
                f"{begin} is a place in the log of node number {place[1]}, and this is number {writer}: give a time",
                ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
            )
        return int(place[2])
    if begin.isascii() and begin.isdecimal() and len(begin) <= LONGEST_OFFSET:
        return int(begin)
    found = time_of(begin, now)
    if found is None:
        raise Refused(f"{begin!r} is no duration, time or offset", ReasonCode.TOPIC_FILTER_INVALID)
    return found


def time_of(text: str, now: float) -> float | None:
    """So long ago, or at a time of ISO 8601; None: it is neither."""
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return now - int(duration[1]) * _SECONDS[duration[2]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


class ReplayCursor(Replay):
    """One replay of one session. It is also the receiver that ``topics.Routes`` holds for it."""

    __slots__ = ("session", "subscription", "began", "sought")

    #: What it wants is logged, whoever else wants it.
    records: ClassVar[bool] = True

    def __init__(
        self, node: Reading, session: Session, log: Log, subscription: Subscription, plain: str, position: int
    ) -> None:
        super().__init__(node, log, position, plain)
        self.session = session
        self.subscription = subscription
        self.name = subscription.filter
        #: The end of the log when it was asked for. What is before was nobody's to deliver, and is not backlog.
        self.began = log.end
        #: The time to begin at, while its place is being looked for.
        self.sought: float | None = None
        self.backlog = 0

    @property
    def _here(self) -> Reading:
        return cast(Reading, self.node)

    def begin_read(self) -> None:
        self._here.replay_turns.ask(self)

    def read_in_turn(self) -> None:
        """It is its turn."""
        if self._here.outflow.must_wait(self):
            self._here.replay_turns.read_ended(self)
        else:
            self.reading = True
            drive(self._read_once(), done, self._failed)

    async def _read_once(self) -> None:
        try:
            await self._read()
        finally:
            self._here.replay_turns.read_ended(self)

    def caught_up(self) -> None:
        self._here.replay_turns.over(self)

    def begin(self, begin: int | float) -> None:
        """Find the place to begin at, and read."""
        if not self.idle:
            self._here.replay_turns.begun(self)
        if isinstance(begin, int):
            self._found(begin)
            return
        # Kept until it is found: a restart meanwhile looks for the same time.
        self.sought, self.reading = begin, True
        drive(self.log.position_at(begin), self._found, partial(self._not_found, begin))

    def _found(self, position: int) -> None:
        # What was published since it was asked for is wanted in any case, be the time asked for in the future.
        self.position = min(position, self.began)
        self.sought, self.reading = None, False
        if not self.closed:
            self._here.progress.moved(self.session)
            self.read_on()

    def _not_found(self, begin: float, error: BaseException) -> None:
        logger.error("reading the log failed; trying again: %s", error)
        self._here.clock.call_later(RETRY_SECONDS, partial(self._seek_again, begin))

    def _seek_again(self, begin: float) -> None:
        if not self.closed:
            self.begin(begin)

    @property
    def client_id(self) -> str:
        """As a receiver."""
        return self.session.client_id

    @property
    def inflight_count(self) -> int:
        """As a receiver."""
        return self.session.inflight_count

    def stored(self, end: int) -> StoredReplay:
        """What is kept of it."""
        return StoredReplay(self.name, self.place(end), self.sought, self.log.writer)

    def filters(self) -> list[str]:
        return [self.plain]

    def room(self) -> int:
        if self.subscription.qos:
            return window_of(self.session)
        connection = self.session.connection
        return QOS0_ROOM if connection is not None and connection.writable else 0

    @property
    def idle(self) -> bool:
        return self.session.connection is None

    def lose(self, count: int) -> None:
        self.over(count)
        self.session.drop(self._here.counters, Drop.RETENTION, count)

    def receive(self, fan_out: FanOut, publication: Publication, source: Session | None, outcome: Outcome) -> None:
        """As a receiver: history and what is live come from one cursor, through the log."""
        if self.session is source and self.subscription.no_local:  # [MQTT-3.8.3-3]
            return
        outcome.receivers += 1
        if publication.remote:
            # It reads the log of this node and no other.
            fan_out.by_value(publication, Route(self.session, self.subscription), outcome)
            return
        if fan_out.recording.full and not publication.qos:
            self.session.drop(
                fan_out.counters, Drop.DISK_FULL, publication.count, publication.topic, publication.publisher
            )
            return
        self.offer(publication, fan_out.recording.record(publication))
        outcome.ticket = fan_out.store.latest

    def offer(self, publication: Publication, logged: LogRun) -> None:
        """A message that it wants was published."""
        if not self.live:
            self.owe(publication.count)
            return
        taken = self._give(publication, logged)
        if taken < publication.count:
            self.fall_behind(logged.position + taken, publication.count - taken)

    def is_own(self, run: LogRun) -> bool:
        """Whether it is not wanted because its client has published it [MQTT-3.8.3-3]."""
        return self.subscription.no_local and run.publisher == self.session.client_id

    def take(self, run: LogRun) -> int:
        length = run.reference.length
        if self.is_own(run):
            return length
        wall = self._here.clock.wall()
        publication = logged_publication(run, wall)
        if publication.expired(wall):  # [MQTT-3.3.2-5]
            self.session.drop(self._here.counters, Drop.EXPIRED, length, publication.topic, run.publisher)
            taken = length
        else:
            taken = self._give(publication, run)
        if run.position < self.began:
            self._here.counters.messages_matched += taken
        else:
            self.over(taken)
        return taken

    def _give(self, publication: Publication, run: LogRun) -> int:
        subscription, session = self.subscription, self.session
        if session.connection is not None and session.connection.five:
            publication = Replayed(run, session.connection.max_packet_size, publication.waited_until)
        qos = min(subscription.qos, publication.qos)
        retain = publication.run.retain and subscription.retain_as_published
        identifiers = () if subscription.identifier is None else (subscription.identifier,)
        if qos:
            return self._here.outflow.take(session, publication, run.reference, qos, retain, identifiers, self)
        if session.connection is None or not session.connection.writable:
            return 0
        session.connection.send_qos0(publication, retain, identifiers)
        session.connection.write_out()
        # Nothing will be acknowledged; a restart goes on behind it.
        self._here.progress.moved(session)
        return publication.count
