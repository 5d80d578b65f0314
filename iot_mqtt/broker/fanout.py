"""From a publication to its receivers: who gets which bytes now, and who must queue or store.

The common case, a receiver whose connection can take it and whose session keeps nothing, costs one list
append for the whole run. Everything else goes message by message through ``outflow``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from iot_mqtt.broker.replay import ReplayCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.topics import Match, SharedGroup, merged

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.topics import Route


class Outcome:
    """What became of a publication: how many receivers it had, and what the publisher's answer waits for."""

    __slots__ = ("receivers", "ticket", "refused")

    def __init__(self) -> None:
        self.receivers = 0
        #: The commit to wait for before acknowledging; 0: none.
        self.ticket = 0
        #: Position in the run → receivers that had no room for it.
        self.refused: dict[int, int] | None = None

    def refuse(self, position: int) -> None:
        """Note that one receiver had no room for the message at this position."""
        if self.refused is None:
            self.refused = {}
        self.refused[position] = self.refused.get(position, 0) + 1

    def wholly_refused(self) -> list[int]:
        """Positions that not one receiver took: the publisher is told so (v5: 0x97)."""
        if self.refused is None:
            return []
        return [position for position, count in self.refused.items() if count >= self.receivers]


def fan_out(broker: Broker, publication: Publication, match: Match[Session], source: Session | None) -> Outcome:
    """Hand a publication to every receiver of ``match``; ``source`` is left out where no-local says so."""
    outcome = Outcome()
    for route in match.plain:
        if route.receiver.__class__ is not Session:
            _to_replay(broker, publication, route, source, outcome)
            continue
        if route.parts and route.receiver is source:
            own = merged(route.parts, exclude_no_local=True, receiver=source)  # [MQTT-3.8.3-3]
            if own is None:
                continue
            route = own
        outcome.receivers += 1
        _to_session(broker, publication, route, outcome)
    for shared in match.shared:
        _to_group(broker, publication, shared.group, outcome)
    counters = broker.counters
    counters.messages_matched += outcome.receivers * publication.count
    return outcome


def _to_session(
    broker: Broker,
    publication: Publication,
    route: Route[Session],
    outcome: Outcome,
    origin: SharedGroup[Session] | None = None,
    offset: int = 0,
) -> None:
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
    if session.cursor is not None and origin is None:
        logged = broker.record(publication)
        session.cursor.offer(broker, publication, logged, qos, retain, route.identifiers)
        outcome.ticket = broker.store.latest
        return
    start = 0
    if not session.expiry_interval and origin is None and connection is not None and not session.queue:
        start = connection.send_now(publication, qos, retain, route.identifiers)
        if start == publication.count:
            return
    _keep(broker, publication, start, session, qos, retain, route.identifiers, outcome, origin, offset)


def _to_replay(
    broker: Broker, publication: Publication, route: Route[Session], source: Session | None, outcome: Outcome
) -> None:
    """A ``$replay/`` subscription: its history and what is live come from one cursor, through the log."""
    replay = cast(ReplayCursor, route.receiver)
    if replay.session is source and replay.subscription.no_local:  # [MQTT-3.8.3-3]
        return
    outcome.receivers += 1
    if broker.budget.full and not publication.qos:
        broker.drop(replay.session, Drop.DISK_FULL, publication.count)
        return
    replay.offer(broker, publication, broker.record(publication))
    outcome.ticket = broker.store.latest


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
    if cursor is not None and publication.qos:
        cursor.offer(broker, publication, broker.record(publication))
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
            _to_session(broker, part, group.route(receiver), outcome, group, position)
            position += count


def _reachable(session: Session) -> bool:
    connection = session.connection
    return connection is not None and connection.writable and not session.queue


def _persistent(session: Session) -> bool:
    return session.expiry_interval > 0 or session.connection is not None


def redispatch(broker: Broker, publication: Publication, group: SharedGroup[Session]) -> None:
    """Give a message that a vanished member did not acknowledge to another one [MQTT-4.8.2-6].

    By value: in the log it would be a second message, for every reader.
    """
    _to_members(broker, publication, group, Outcome())
