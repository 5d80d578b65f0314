"""What durable sessions are owed of the log: the claims of their plain subscriptions, and who reads for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publication import Publication, logged_publication
from iot_mqtt.broker.readers.alike import Claims, alike
from iot_mqtt.broker.readers.in_order import OrderedCursor
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.sending.repeating import out_of_order
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import LogReader, LogRun
from iot_mqtt.topics import FilterSet, Route, combined, matches, parse_shared

#: The part of a large window that a session must have free before it reads: a fourth.
PART_OF_WINDOW = 4
LARGE_WINDOW = 64
#: Topics whose claims are kept while a session catches up.
MAX_CLAIMS = 1000


class SessionCursor(OrderedCursor):
    """What a durable session is owed of one log for its plain subscriptions."""

    __slots__ = ("_claims", "_claims_version", "_filters")

    def __init__(self, node: Reading, session: KeptSession, log: LogReader, position: int, *, live: bool) -> None:
        super().__init__(node, session, log, position, live=live)
        self._claims: dict[bytes, Claims] | None = None
        self._claims_version = 0
        #: Of ``since``, while it reads on.
        self._filters: FilterSet | None = None

    @property
    def _here(self) -> Reading:
        return cast(Reading, self.node)

    def room(self) -> int:
        return window_of(self.session)

    @property
    def idle(self) -> bool:
        return self.session.connection is None

    def begin_read(self) -> None:
        self._here.progress.begin(self.session)
        if self.session.application and self.ahead is None:
            turns = self._here.application_turns
            if turns.must_wait(self):
                return
            turns.effort.left -= min(self.room(), self._here.read_messages)
        super().begin_read()

    def lose(self, count: int) -> None:
        self.over(count)
        self.session.drop(self._here.counters, Drop.RETENTION, count)

    # Messages.

    def offer(
        self,
        publication: Publication,
        logged: LogRun,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
    ) -> None:
        if not self.live:
            self.owe(publication.count)
            self.learns_of(logged)
            return
        if self.session.elsewhere and not self.may_take(logged):
            self.wait_for_others(logged, publication.count)
            return
        if self.session.queue:
            # What waits there came before.
            self.fall_behind(logged.position, publication.count)
            return
        taken = self._here.outflow.take(self.session, publication, logged.reference, qos, retain, identifiers, self)
        if taken < publication.count:
            self.fall_behind(logged.position + taken, publication.count - taken)

    def offer_row(self, publications: Sequence[Publication], identifiers: tuple[int, ...]) -> None:
        session, runs = self.session, [logged for one in publications if (logged := one.logged) is not None]
        count = sum([run.reference[3] for run in runs])
        if not self.live:
            self.owe(count)
            self.learns_of(runs[0])
        elif (
            session.connection is not None
            and not session.queue
            and session.outbound.room >= count
            and (not session.elsewhere or self.may_take(runs[-1]))
        ):
            self._here.outflow.take_alike(session, runs, identifiers, self)
        else:
            for publication, run in zip(publications, runs, strict=True):
                self.offer(publication, run, 1, False, identifiers)  # noqa: FBT003 - not retained

    def take_runs(self, runs: Sequence[LogRun]) -> bool:
        """Runs that are alike together, the others one by one."""
        at, session = 0, self.session
        while at < len(runs):
            room = session.outbound.room if session.connection is not None and self.doubt is None else 0
            count, subscription = alike(runs, at, self._claims_on, room)
            if count > 1 and subscription is not None:
                identifiers = () if subscription.identifier is None else (subscription.identifier,)
                self.dealt_with(self._here.outflow.take_alike(session, runs[at : at + count], identifiers, self))
                at += count
            elif super().take_runs(runs[at : at + 1]):
                at += 1
            else:
                return False
        return True

    def take(self, run: LogRun) -> int:
        length = run.reference.length
        route = self.wanted(run)
        qos = 0 if route is None else min(route.qos, run.run.qos)
        if route is None or qos == 0:
            return length
        doubt = self.doubt
        if qos == 2:
            # It would be written, had it been sent, and it would have been sent before what is behind it.
            self.doubt = doubt = None
            self.session.outbound.let_go()
        if doubt is not None and not doubt.covers(run.position):
            doubt = None
        publication = logged_publication(run)
        if publication.expired(self._here.clock.wall()):  # [MQTT-3.3.2-5]
            if doubt is not None:
                out_of_order(self.session)
            self.dealt_with(length)
            self.session.drop(self._here.counters, Drop.EXPIRED, length, publication.topic, run.publisher)
            return length
        retain = run.run.retain and route.retain_as_published
        taken = self._here.outflow.take(
            self.session, publication, run.reference, qos, retain, route.identifiers, self, again=doubt is not None
        )
        if doubt is not None:
            doubt.taken(taken)
        self.dealt_with(taken)
        return taken

    def dealt_with(self, count: int) -> None:
        """So many messages that were read are not owed any more."""
        self.over(count)

    def _claims_on(self, topic: bytes) -> Claims:
        """Subscriptions that match a topic, with the part of the log they claim; looked up once while it reads on."""
        if self._claims is None or self._filters is None or self._claims_version != self.version:
            self._claims, self._claims_version = {}, self.version
            self._filters = FilterSet(self.since)
        elif len(self._claims) >= MAX_CLAIMS:
            self._claims = {}
        claims = self._claims.get(topic)
        if claims is None:
            name, subscriptions = topic.decode(), self.session.subscriptions
            claims = self._claims[topic] = [
                (subscriptions[filter], self.since[filter], None) for filter in self._filters.match(name)
            ]
            claims.extend(past for past in self.past or () if matches(past.subscription.filter, name))
        return claims

    def forget_claims(self) -> None:
        """It does not read on for now."""
        self._claims = self._filters = None

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

    def caught_up(self) -> None:
        super().caught_up()
        self.forget_claims()
        self.doubt = None
        self.session.outbound.let_go()
        if self.past:
            self.past = None
            self._here.progress.moved(self.session)
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
