"""From a publication to its receivers: who gets which bytes now, and who must queue or store.

The common case, a receiver whose connection can take it and whose session keeps nothing, costs one list
append for the whole run. Everything else goes message by message through ``outflow``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from iot_mqtt.broker.publishing.accompanying import DOWN
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.topics import Match, SharedGroup, merged

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.topics import Route


class OtherReceiver(Protocol):
    """What stands in the routing table beside sessions."""

    def receive(self, broker: Broker, publication: Publication, source: Session | None, outcome: Outcome) -> None:
        """A publication matches."""
        ...


class OtherMember(Protocol):
    """What stands in a shared group beside sessions."""

    @property
    def reachable(self) -> bool: ...

    def give(self, broker: Broker, publication: Publication) -> None:
        """It was picked."""
        ...


class Outcome:
    """What became of a publication: how many receivers it had, and what the publisher's answer waits for."""

    __slots__ = ("receivers", "elsewhere", "ticket", "position", "refused")

    def __init__(self) -> None:
        self.receivers = 0
        #: Somebody on another node wants it.
        self.elsewhere = False
        #: The commit to wait for before acknowledging; 0: none.
        self.ticket = 0
        #: Before acknowledging, everything in the log before it must be safe in the uplink's sink, too; 0: nothing.
        self.position = 0
        #: Position in the run → receivers that had no room for it.
        self.refused: dict[int, int] | None = None

    @property
    def nobody(self) -> bool:
        """Whether it had no receiver anywhere."""
        return not (self.receivers or self.elsewhere)

    def refuse(self, position: int) -> None:
        """Note that one receiver had no room for the message at this position."""
        if self.refused is None:
            self.refused = {}
        self.refused[position] = self.refused.get(position, 0) + 1

    def wholly_refused(self) -> list[int]:
        """Positions that not one receiver took: the publisher is told so (v5: 0x97)."""
        if self.refused is None or self.elsewhere:
            return []
        return [position for position, count in self.refused.items() if count >= self.receivers]


def fan_out(broker: Broker, publication: Publication, match: Match[Session], source: Session | None) -> Outcome:
    """Hand a publication to every receiver of ``match``; ``source`` is left out where no-local says so."""
    outcome = Outcome()
    for route in match.plain:
        if route.receiver.__class__ is not Session:
            cast(OtherReceiver, route.receiver).receive(broker, publication, source, outcome)
            continue
        if route.parts and route.receiver is source:
            own = merged(route.parts, exclude_no_local=True, receiver=source)  # [MQTT-3.8.3-3]
            if own is None:
                continue
            route = own
        outcome.receivers += 1
        to_session(broker, publication, route, outcome)
    if not publication.remote:
        # One pick per message: it is made where the message is published.
        for shared in match.shared:
            _to_group(broker, publication, shared.group, outcome)
    counters = broker.counters
    counters.messages_matched += outcome.receivers * publication.count
    return outcome


def to_session(
    broker: Broker,
    publication: Publication,
    route: Route[Session],
    outcome: Outcome,
    origin: SharedGroup[Session] | None = None,
    offset: int = 0,
) -> None:
    """Through the log, or by value; ``offset``: where the publication is in what the publisher sent at once."""
    session = route.receiver
    if origin is None and (session.cursor is not None or session.elsewhere):
        qos = min(route.qos, publication.qos)  # [MQTT-3.8.4-8]
        if qos and _through_log(broker, publication, route, qos, outcome):
            return
    by_value(broker, publication, route, outcome, origin, offset)


def _through_log(broker: Broker, publication: Publication, route: Route[Session], qos: int, outcome: Outcome) -> bool:
    """Offer it to the cursor of the log that it is in; False if there is none, and the session gets it by value."""
    session = route.receiver
    cursor = session.cursor
    if publication.remote:
        # Not recorded where it was published, because that node did not know yet that somebody durable wants it.
        logged = broker.record(publication)
        cursor = session.cursor_for(logged.reference.writer)
        if cursor is None and session.durable:
            # It is found in that log when it is read here.
            outcome.receivers -= 1
            return True
    if cursor is None:
        return False
    retain = publication.run.retain and route.retain_as_published
    cursor.offer(broker, publication, broker.record(publication), qos, retain, route.identifiers)
    outcome.ticket = broker.store.latest
    return True


def by_value(
    broker: Broker,
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
            broker.drop(session, Drop.OFFLINE_QOS0, publication.count)
        elif not connection.writable:
            broker.drop(session, Drop.OUTBOX_FULL, publication.count)
        elif connection.plain and connection.plain == publication.plain and not route.identifiers:
            connection.send(publication.run.wire)
            session.delivered += publication.count
            broker.counters.messages_delivered += publication.count
        else:
            connection.send_qos0(publication, publication.run.retain and route.retain_as_published, route.identifiers)
        return
    retain = publication.run.retain and route.retain_as_published
    start = 0
    accompanied = broker.accompanying is not None and publication.topic.startswith(DOWN)
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
    _keep(broker, publication, start, session, qos, retain, route.identifiers, outcome, origin, offset)


def _keep(
    broker: Broker,
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
    outflow = broker.outflow
    messages = publication.messages
    for position in range(start, publication.count):
        reason = outflow.accept(session, messages[position], qos, retain, identifiers, origin)
        if reason is not None:
            broker.drop(session, reason, 1)
            outcome.refuse(offset + position)
    if session.durable:
        outcome.ticket = broker.store.latest
    outflow.pump(session)


def _to_group(broker: Broker, publication: Publication, group: SharedGroup[Session], outcome: Outcome) -> None:
    """One member gets each message; a member that can be reached now comes before one that can't."""
    outcome.receivers += 1
    cursor = broker.groups.of(group)
    if publication.qos and (cursor is not None or broker.groups.keeps(group)):
        logged = broker.record(publication)
        if cursor is not None:
            cursor.offer(broker, publication, logged)
        outcome.ticket = broker.store.latest
        return
    _to_members(broker, publication, group, outcome)


def _to_members(broker: Broker, publication: Publication, group: SharedGroup[Session], outcome: Outcome) -> None:
    position = 0
    while position < publication.count:
        picked = group.pick_many(
            publication.count - position, publication.publisher, publication.topic, _reachable
        ) or group.pick_many(publication.count - position, publication.publisher, publication.topic, _persistent)
        if not picked:
            broker.counters.dropped[Drop.NO_SHARED_MEMBER] += publication.count - position
            return
        for receiver, count in picked:
            part = publication.part(position, position + count)
            if receiver.__class__ is Session:
                to_session(broker, part, group.route(receiver), outcome, group, position)
            else:
                cast(OtherMember, receiver).give(broker, part)
                outcome.elsewhere = True
                # It is matched where it is delivered.
                broker.counters.messages_matched -= count
            position += count


def _reachable(member: Session) -> bool:
    if member.__class__ is not Session:
        return cast(OtherMember, member).reachable
    connection = member.connection
    return connection is not None and connection.writable and not member.queue


def _persistent(member: Session) -> bool:
    return member.__class__ is Session and (member.expiry_interval > 0 or member.connection is not None)


def deliver_to_member(broker: Broker, publication: Publication, filter: str, client_id: str) -> bool:
    """A publication whose member was picked on another node; False if that is no member any more."""
    session = broker.sessions.get(client_id)
    group = broker.groups.find(filter)
    if session is None or group is None or session not in group.members:
        return False
    broker.counters.messages_matched += publication.count
    to_session(broker, publication, group.route(session), Outcome(), group)
    return True


def redispatch(broker: Broker, publication: Publication, group: SharedGroup[Session]) -> None:
    """Give a message that a vanished member did not acknowledge to another one [MQTT-4.8.2-6].

    By value: in the log it would be a second message, for every reader.
    """
    _to_members(broker, publication, group, Outcome())
