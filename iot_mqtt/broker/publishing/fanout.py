"""From a publication to its receivers: who gets which bytes now, and who must queue or store.

The common case, a receiver whose connection can take it and whose session keeps nothing, costs one list
append for the whole run. Everything else goes message by message through ``outflow``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from iot_mqtt.broker.claims import ClaimCursor
from iot_mqtt.broker.kept_session import SESSIONS, KeptSession
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.recording import Recording
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.topics import Match, Route, SharedGroup, merged


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

    def fan_out_row(self, publications: Sequence[Publication], match: Match[Session]) -> list[Outcome]:
        """As ``fan_out``, for several of QoS 1 in a row whose match is of sessions alone, one of them at least kept;
        those at the end are left while there is no room.
        """
        cursors = [_cursor_of(route) for route in match.plain]
        recorded = any(cursors)
        if recorded:
            publications = self._record_row(publications)
        outcomes = [Outcome() for _ in publications]
        for route, cursor in zip(match.plain, cursors, strict=True):
            if cursor is not None:
                cursor.offer_row(publications, route.identifiers)
                continue
            for publication, outcome in zip(publications, outcomes, strict=True):
                self.to_session(publication, route, outcome)
        ticket = self.store.latest if recorded else 0
        for outcome in outcomes:
            outcome.receivers = len(match.plain)
            outcome.ticket = max(outcome.ticket, ticket)
        self.counters.messages_matched += len(match.plain) * sum([one.count for one in publications])
        return outcomes

    def _record_row(self, publications: Sequence[Publication]) -> Sequence[Publication]:
        recording = self.recording
        for number, publication in enumerate(publications, 1):
            recording.record(publication)
            if recording.full:
                return publications[:number]
        return publications

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
                session.drop(self.counters, Drop.OFFLINE_QOS0, publication.count)
            elif not connection.writable:
                session.drop(self.counters, Drop.OUTBOX_FULL, publication.count)
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
                session.drop(self.counters, reason, 1)
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
                    # It is matched where it is delivered.
                    self.counters.messages_matched -= count
                position += count

    def deliver_to_member(self, publication: Publication, filter: str, session: Session | None) -> bool:
        """A publication whose member was picked on another node; False if that is no member any more."""
        group = self._groups.find(filter)
        if session is None or group is None or session not in group.members:
            return False
        self.counters.messages_matched += publication.count
        self.to_session(publication, group.route(session), Outcome(), group)
        return True

    def redispatch(self, publication: Publication, group: SharedGroup[Session]) -> None:
        """Give a message that a vanished member did not acknowledge to another one [MQTT-4.8.2-6].

        By value: in the log it would be a second message, for every reader.
        """
        self._to_members(publication, group, Outcome())


def _cursor_of(route: Route[Session]) -> ClaimCursor | None:
    """What takes messages above QoS 0 for a route through the log."""
    session = route.receiver
    return session.cursor if route.qos and isinstance(session, KeptSession) else None


def _reachable(member: Session) -> bool:
    if member.__class__ not in SESSIONS:
        return cast(OtherMember, member).reachable
    connection = member.connection
    return connection is not None and connection.writable and not member.queue


def _persistent(member: Session) -> bool:
    return member.__class__ in SESSIONS and (member.expiry_interval > 0 or member.connection is not None)
