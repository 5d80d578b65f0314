"""Many messages of the log towards one session in one go, where nothing has to be decided one by one.

What a session finds when its client is back is mostly alike: QoS 1, of one subscription, without properties, each run
in a page of its own. Such runs are taken, noted, numbered and sent together. What is different (several subscriptions,
QoS 2, retained, expiring, a repetition, a command, more than the window takes) goes through ``outflow``, run by run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from iot_mqtt.broker.publication import logged_publication
from iot_mqtt.broker.publishing.accompanying import DOWN
from iot_mqtt.broker.sending.repeating import out_of_order
from iot_mqtt.session import Delivery, Flight, Piece

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.readers.cursors import Claims, SessionCursor
    from iot_mqtt.broker.session import Session
    from iot_mqtt.ports.log import LogRun
    from iot_mqtt.values import Subscription

#: The first byte of what is taken together, and of its repetition.
_ALIKE = (0x32, 0x3A)
#: Bytes that are handed to the connection at once.
_WRITE_BYTES = 64 * 1024


def alike(
    runs: Sequence[LogRun], start: int, claims_on: Callable[[bytes], Claims], room: int
) -> tuple[int, Subscription | None]:
    """How many runs from the one at ``start`` on can be taken together, and the one subscription that they are for."""
    wanted: Subscription | None = None
    for number, found in enumerate(islice(runs, start, None)):
        run, (_, _, position, length) = found.run, found.reference
        room -= length
        if room < 0 or run.head not in _ALIKE or run.raw_properties:
            return number, wanted
        claims = claims_on(run.topic)
        if len(claims) != 1:
            return number, wanted
        subscription, since, until = claims[0]
        if position < since or until is not None:
            return number, wanted
        if subscription is not wanted:
            if wanted is not None or not subscription.qos or subscription.no_local:
                return number, wanted
            wanted = subscription
    return len(runs) - start, wanted


def take(broker: Broker, cursor: SessionCursor, runs: Sequence[LogRun], subscription: Subscription) -> int:
    """Put runs under way that are alike; how many messages that is."""
    session = cursor.session
    outbound = session.outbound
    if cursor is not session.cursor:
        out_of_order(session)
    identifiers = () if subscription.identifier is None else (subscription.identifier,)
    origin = cursor if cursor.name else None
    count = sum([run.reference[3] for run in runs])
    ids = outbound.reserve(count)
    flights: list[Flight] = []
    start = 0
    for run in runs:
        end = start + run.reference[3]
        flights.append(Flight(session, run.reference, ids[start:end], 1, identifiers=identifiers, origin=origin))
        start = end
    if count == len(flights):
        outbound.entries.update(zip(ids, flights, strict=True))
    else:
        for flight in flights:
            outbound.entries.update(dict.fromkeys(flight.ids, flight))
    broker.outflow.under_way(session, flights, cursor, count)
    if session.sending is None:
        session.sending = deque()
    pieces = [Piece(flight, 0, flight.ids, logged_publication(run)) for flight, run in zip(flights, runs, strict=True)]
    session.sending.extend(pieces)
    session.unsent += count
    return count


def send(broker: Broker, session: Session, sending: deque[Delivery | Piece], room: int) -> bool:
    """Send the first of what waits, as many as are alike; False if the very first one is not."""
    connection, committed = session.connection, broker.store.committed
    assert connection is not None
    if connection.max_packet_size or connection.outbound_aliases is not None:
        return False
    five = connection.five
    parts: list[bytes] = []
    count = size = 0
    while sending and size < _WRITE_BYTES:
        item = sending[0]
        if item.ticket > committed or isinstance(item, Delivery) or item.publication is None or item.flight.sent:
            break
        publication, flight, ids = item.publication, item.flight, item.ids
        length, topic = len(ids), publication.topic
        if count + length > room or publication.run.raw_properties or topic.startswith(DOWN):
            break
        if not connection.may_receive(topic):
            break
        data = publication.with_ids(five, flight.qos, flight.retain, flight.identifiers, ids, item.offset - item.base)
        parts.append(data)
        size += len(data)
        count += length
        flight.sent = item.offset + length
        sending.popleft()
    if not parts:
        return False
    session.unsent -= count
    connection.send(b"".join(parts))
    return True
