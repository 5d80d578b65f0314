"""From a publication to its receivers: who gets which bytes now, and who must queue or store.

The common case, a receiver whose connection can take it and whose session keeps nothing, costs one list
append for the whole run. Everything else goes message by message through ``outflow``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from iot_mqtt.broker.claims import ClaimCursor
from iot_mqtt.broker.kept_session import SESSIONS, KeptSession
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.owing import owe, owed_by
from iot_mqtt.broker.publishing.recording import Recording
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.codec import PublishRun
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.topics import Match, Route, SharedGroup, merged
from iot_mqtt.values import Origin


class OtherReceiver(Protocol):
    """What stands in the routing table beside sessions."""

    def receive(self, fan_out: FanOut, publication: Publication, source: Session | None, outcome: Outcome) -> None:
        """A publication matches."""
        ...


class OtherMember(Protocol):
    """What stands in a shared group beside sessions."""

    @property
    def reachable(self) -> bool: ...

    def give(self, publication: Publication) -> None:
        """It was picked."""
        ...


class FanOut:
    """Hands publications to receivers, whoever published them."""

    __slots__ = ("counters", "store", "recording", "_outflow", "_groups")

    def __init__(
        self,
        counters: Counters,
        store: Store,
        recording: Recording,
        outflow: Outflow,
        groups: SharedGroups,
    ) -> None:
        self.counters = counters
        self.store = store
        self.recording = recording
        self._outflow = outflow
        self._groups = groups

    def fan_out(self, publication: Publication, match: Match[Session], source: Session | None) -> Outcome:
        """Hand a publication to every receiver of ``match``; ``source`` is left out where no-local says so."""
        outcome = Outcome()
        for route in match.plain:
            if route.receiver.__class__ not in SESSIONS:
                cast(OtherReceiver, route.receiver).receive(self, publication, source, outcome)
                continue
            if route.parts and route.receiver is source:
                own = merged(route.parts, exclude_no_local=True, receiver=source)  # [MQTT-3.8.3-3]
                if own is None:
                    continue
                route = own
            outcome.receivers += 1
            self.to_session(publication, route, outcome)
        if not publication.remote:
            # One pick per message: it is made where the message is published.
            for shared in match.shared:
                self._to_group(publication, shared.group, outcome)
        self.counters.messages_matched += outcome.receivers * publication.count
        return outcome

    def owe_row(
        self,
        runs: Sequence[PublishRun],
        counts: list[int],
        matches: list[Match[Session]],
        publisher: str,
        origin: Origin,
    ) -> Outcome | None:
        """As ``fan_out_row``, where all of it is for sessions whose clients are away: it is in the log then, and they
        are owed it. None: not all of it is, or its room has to be weighed one after the other; nothing was done.
        ``counts``: the messages of each run.
        """
        owed = owed_by(counts, matches)
        if owed is None or self.recording.append_row(runs, publisher, origin) is None:
            return None
        self.counters.messages_matched += owe(owed)
        outcome = Outcome(1)
        outcome.ticket = self.store.latest
        return outcome

    def fan_out_row(self, publications: Sequence[Publication], matches: Sequence[Match[Session]]) -> list[Outcome]:
        """As ``fan_out``, for several of QoS 1 whose matches are of sessions alone; those at the end are left while
        there is no room. Those whose receivers all keep them have one outcome.
        """
        recording, kept, rows = self.recording, Outcome(), _Rows()
        outcomes: list[Outcome] = []
        matched = 0
        wanted = [one for one, match in zip(publications, matches, strict=True) if _is_kept(match) and not one.logged]
        if wanted:
            recording.record_row(wanted)
        try:
            for publication, match in zip(publications, matches, strict=True):
                outcomes.append(self._one_of_row(publication, match, rows, kept))
                matched += len(match.plain) * publication.count
                if recording.full:
                    break
        finally:
            # What is recorded must be known to whoever is to read it.
            rows.end()
        self.counters.messages_matched += matched
        kept.receivers, kept.ticket = 1, self.store.latest
        for publication, match, outcome in zip(publications, matches, outcomes, strict=False):
            if outcome is not kept:
                outcome.receivers = len(match.plain)
                if publication.logged is not None:
                    outcome.ticket = kept.ticket
        return outcomes

    def _one_of_row(self, publication: Publication, match: Match[Session], rows: _Rows, kept: Outcome) -> Outcome:
        """``kept`` if all its receivers keep it, else an outcome of its own."""
        outcome = kept
        for route in match.plain:
            session = route.receiver
            cursor = session.cursor if isinstance(session, KeptSession) else None
            if cursor is not None and route.qos:
                if publication.logged is None:
                    self.recording.record(publication)
                if cursor.live:
                    rows.add(cursor, route.identifiers, publication)
                else:
                    cursor.owe(publication.count)
                continue
            if cursor is not None:
                rows.offer(cursor)
            if outcome is kept:
                outcome = Outcome()
            self.to_session(publication, route, outcome)
        return outcome

    def to_session(
        self,
        publication: Publication,
        route: Route[Session],
        outcome: Outcome,
        origin: SharedGroup[Session] | None = None,
        offset: int = 0,
    ) -> None:
        """Through the log, or by value; ``offset``: where the publication is in what the publisher sent at once."""
        session = route.receiver
        if origin is None and isinstance(session, KeptSession) and (session.cursor is not None or session.elsewhere):
            qos = min(route.qos, publication.qos)  # [MQTT-3.8.4-8]
            if qos and self._through_log(publication, session, route, qos, outcome):
                return
        self.by_value(publication, route, outcome, origin, offset)

    def _through_log(
        self, publication: Publication, session: KeptSession, route: Route[Session], qos: int, outcome: Outcome
    ) -> bool:
        """Offer it to the cursor of the log that it is in; False if there is none, and the session gets it by value."""
        cursor = session.cursor
        if publication.remote:
            # Not recorded where it was published, because that node did not know yet that somebody durable wants it.
            logged = self.recording.record(publication)
            cursor = session.cursor_for(logged.reference.writer)
            if cursor is None and session.durable:
                # It is found in that log when it is read here.
                outcome.receivers -= 1
                return True
        if cursor is None:
            return False
        retain = publication.run.retain and route.retain_as_published
        cursor.offer(publication, self.recording.record(publication), qos, retain, route.identifiers)
        outcome.ticket = self.store.latest
        return True

    def by_value(
        self,
        publication: Publication,
        route: Route[Session],
        outcome: Outcome,
        origin: SharedGroup[Session] | None = None,
        offset: int = 0,
    ) -> None:
        """Send it to a session now, or keep it for that, message by message."""
        session = route.receiver
        qos = min(route.qos, publication.qos)  # [MQTT-3.8.4-8]
        connection = session.connection
        if qos == 0:
            if connection is None:
                session.drop(
                    self.counters, Drop.OFFLINE_QOS0, publication.count, publication.topic, publication.publisher
                )
            elif not connection.writable:
                session.drop(
                    self.counters, Drop.OUTBOX_FULL, publication.count, publication.topic, publication.publisher
                )
            elif publication.late:
                session.drop(self.counters, Drop.EXPIRED, publication.count, publication.topic, publication.publisher)
            elif connection.plain and connection.plain == publication.plain and not route.identifiers:
                connection.send(publication.run.wire)
                session.delivered += publication.count
                self.counters.messages_delivered += publication.count
            else:
                connection.send_qos0(
                    publication, publication.run.retain and route.retain_as_published, route.identifiers
                )
            return
        retain = publication.run.retain and route.retain_as_published
        start = 0
        accompanied = publication.topic.startswith(DOWN)
        if (
            not session.expiry_interval
            and origin is None
            and connection is not None
            and not session.queue
            and not accompanied
        ):
            start = connection.send_now(publication, qos, retain, route.identifiers)
            if start == publication.count:
                return
        self._keep(publication, start, session, qos, retain, route.identifiers, outcome, origin, offset)

    def _keep(
        self,
        publication: Publication,
        start: int,
        session: Session,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        outcome: Outcome,
        origin: SharedGroup[Session] | None,
        offset: int,
    ) -> None:
        outflow = self._outflow
        messages = publication.messages
        for position in range(start, publication.count):
            reason = outflow.accept(session, messages[position], qos, retain, identifiers, origin)
            if reason is not None:
                session.drop(self.counters, reason, 1, publication.topic, publication.publisher)
                outcome.refuse(offset + position)
        if session.durable:
            outcome.ticket = self.store.latest
        outflow.pump(session)

    def _to_group(self, publication: Publication, group: SharedGroup[Session], outcome: Outcome) -> None:
        """One member gets each message; a member that can be reached now comes before one that can't."""
        outcome.receivers += 1
        cursor = self._groups.of(group)
        if publication.qos and (cursor is not None or self._groups.keeps(group)):
            logged = self.recording.record(publication)
            if cursor is not None:
                cursor.offer(publication, logged)
            else:
                # It is counted when the group is open, and reads it.
                self.counters.messages_matched -= publication.count
            outcome.ticket = self.store.latest
            return
        self._to_members(publication, group, outcome)

    def _to_members(self, publication: Publication, group: SharedGroup[Session], outcome: Outcome) -> None:
        position = 0
        while position < publication.count:
            picked = group.pick_many(
                publication.count - position, publication.publisher, publication.topic, _reachable
            ) or group.pick_many(publication.count - position, publication.publisher, publication.topic, _persistent)
            if not picked:
                self.counters.dropped[Drop.NO_SHARED_MEMBER] += publication.count - position
                return
            for receiver, count in picked:
                part = publication.part(position, position + count)
                if receiver.__class__ in SESSIONS:
                    self.to_session(part, group.route(receiver), outcome, group, position)
                else:
                    cast(OtherMember, receiver).give(part)
                    outcome.elsewhere = True
                    self.counters.messages_handed_over += count
                    self.counters.messages_lent += count
                position += count

    def deliver_to_member(self, publication: Publication, filter: str, session: Session | None) -> bool:
        """A publication whose member was picked on another node; False if that is no member any more."""
        group = self._groups.find(filter)
        if session is None or group is None or session not in group.members:
            return False
        self.counters.messages_matched += publication.count
        self.counters.messages_borrowed += publication.count
        self.to_session(publication, group.route(session), Outcome(), group)
        return True

    def follow(self, publication: Publication, context: str, deliver: Callable[[], None]) -> None:
        """Deliver what came from another node with the context of a trace."""
        deliver()

    def redispatch(self, publication: Publication, group: SharedGroup[Session]) -> None:
        """Give a message that a vanished member did not acknowledge to another one [MQTT-4.8.2-6].

        By value: in the log it would be a second message, for every reader.
        """
        self._to_members(publication, group, Outcome())


class _Rows:
    """What sessions that are there get of a row of publications: each in its order, and what is alike in one go."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[ClaimCursor, tuple[tuple[int, ...], list[Publication]]] = {}

    def add(self, cursor: ClaimCursor, identifiers: tuple[int, ...], publication: Publication) -> None:
        """It is recorded, and for this one."""
        row = self._rows.get(cursor)
        if row is not None and row[0] == identifiers:
            row[1].append(publication)
            return
        self.offer(cursor)
        self._rows[cursor] = identifiers, [publication]

    def offer(self, cursor: ClaimCursor) -> None:
        """Something else is about to come for it."""
        row = self._rows.pop(cursor, None)
        if row is not None:
            cursor.offer_row(row[1], row[0])

    def end(self) -> None:
        """Nothing else comes."""
        for cursor in list(self._rows):
            self.offer(cursor)


def _is_kept(match: Match[Session]) -> bool:
    """Whether a session gets it through the log, at QoS 1."""
    for route in match.plain:
        session = route.receiver
        if route.qos and isinstance(session, KeptSession) and session.cursor is not None:
            return True
    return False


def _reachable(member: Session) -> bool:
    if member.__class__ not in SESSIONS:
        return cast(OtherMember, member).reachable
    connection = member.connection
    return connection is not None and connection.writable and not member.queue


def _persistent(member: Session) -> bool:
    if member.__class__ not in SESSIONS or member.ended:
        return False
    return member.expiry_interval > 0 or member.connection is not None
