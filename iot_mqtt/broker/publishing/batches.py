"""From a batch to its receivers: PUBLISH packets of one client, of any topics, that are served together.

::

    scan ─▶ batch of one match ─┬─▶ sent as it came, or written once in another form   a connection that takes it all
                                └─▶ its runs, one by one, by the ``path``              whoever has no room
         ─▶ batch of ``MIXED`` ───▶ its runs, one by one, by the ``path``, and one answer for all

What the decoder puts into a batch is what ``class_of`` says of a topic. What is in a batch may have changed between the
decoder and here, by a packet of the same read: then it is taken run by run, as if it had come that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from iot_mqtt.broker.kept_session import SESSIONS, KeptSession
from iot_mqtt.broker.publication import GROWTH, IDENTIFIER, Publication, hop_properties
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.session import Session
from iot_mqtt.codec import PublishBatch, PublishRun, runs_of
from iot_mqtt.topics import MIXED, Match, Mixed, Route, is_reserved
from iot_mqtt.topics.reserved import FIRST_BYTES

if TYPE_CHECKING:
    from iot_mqtt.broker.publishing.fanout import FanOut
    from iot_mqtt.ports.clock import Clock
    from iot_mqtt.ports.counters import Counters
    from iot_mqtt.values import Origin

#: The first byte of what may be passed on as it came.
AS_SENT: Final = 0x30
#: In that byte, what there is more to do for than to send it: QoS and RETAIN.
MORE_THAN_SENT: Final = 0x07


def flattened(items: Sequence[object]) -> list[object]:
    """The same with the runs of each batch in its place: for what has to wait, or must be looked at topic by topic."""
    found: list[object] = []
    for item in items:
        found += runs_of(item) if isinstance(item, PublishBatch) else (item,)
    return found


def class_of(topic: bytes, match: Match[Session]) -> Match[Session] | Mixed | None:
    """What messages of a topic are served together with: those of the same match, if there is nothing to do but to send
    them to sessions; others of which something is kept, recorded or forwarded; nothing, where each has to be looked at.
    """
    if topic and topic[0] in FIRST_BYTES and is_reserved(topic):
        return None
    if not (match.plain or match.steps or match.shared):
        return match
    if any(step.alone for step in match.steps):
        return None
    if match.shared or any(not step.above_qos0 for step in match.steps):
        return MIXED
    routes: Sequence[Route[Any]] = match.plain
    for route in routes:
        if route.parts or route.receiver.__class__ not in SESSIONS:
            return MIXED
    if match.steps or any(route.qos and isinstance(route.receiver, KeptSession) for route in match.plain):
        match.above = MIXED
    return match


def deliver(fan_out: FanOut, batch: PublishBatch, origin: Origin, publisher: Session, clock: Clock) -> Outcome | None:
    """Hand a batch, which came now, to every receiver of its match. None: all took it, and that is all."""
    counters, count = fan_out.counters, batch.count
    match: Match[Session] = batch.route
    receivers = len(match.plain)
    counters.messages_received += count
    counters.messages_matched += receivers * count
    if not receivers:
        counters.messages_unmatched += count
    outcome = Outcome(receivers) if batch.head & MORE_THAN_SENT else None
    for route in match.plain:
        sent = _send(counters, batch, route)
        if sent < count:
            if outcome is None:
                outcome = Outcome(receivers)
            for offset, publication in _behind(batch, origin, publisher, sent, clock.wall()):
                fan_out.to_session(publication, route, outcome, None, offset)
    return outcome


def _send(counters: Counters, batch: PublishBatch, route: Route[Session]) -> int:
    """Send as much of a batch as a receiver takes as it comes; how many messages that is."""
    session, count = route.receiver, batch.count
    connection = session.connection
    if connection is None or not connection.writable:
        return 0
    if connection.outbound_aliases is not None and connection.aliases(count):
        return 0
    five, identifiers = connection.five, route.identifiers
    limit = connection.max_packet_size
    if limit and batch.longest + GROWTH + IDENTIFIER * len(identifiers) > limit:
        return 0
    qos = batch.head >> 1 & 3
    if route.qos < qos:  # noqa: PLR1730 - a call less [MQTT-3.8.4-8]
        qos = route.qos
    block = hop_properties(b"", identifiers=identifiers) if identifiers and five else b""
    if qos == 0:
        data = batch.data
        if batch.head != AS_SENT or five != batch.five or block or batch.end - batch.begin != len(data):
            data = batch.written(five=five, qos=0, identifiers=block)
        connection.send(data)
        session.delivered += count
        counters.messages_delivered += count
        return count
    if session.__class__ is KeptSession or session.queue or session.sending:
        return 0
    outbound = session.outbound
    count = min(count, outbound.limit - len(outbound.entries))
    if count <= 0:
        return 0
    ids = outbound.reserve(count)
    outbound.mark(ids, qos)
    connection.send(batch.written(five=five, qos=qos, identifiers=block, ids=ids, count=count))
    return count


def publications_of(batch: PublishBatch, origin: Origin, publisher: Session, wall: float) -> list[Publication]:
    """Its runs, which came at ``wall``; made once, whoever asks."""
    publications: list[Publication] | None = batch._publications
    if publications is None:
        publications = batch._publications = each_of(runs_of(batch), origin, publisher, wall)
    return publications


def each_of(runs: Sequence[PublishRun], origin: Origin, publisher: Session, wall: float) -> list[Publication]:
    """Runs of one client, which came at ``wall``."""
    client_id = publisher.client_id
    return [Publication(run, run.topic, client_id, wall, origin) for run in runs]


def _behind(
    batch: PublishBatch, origin: Origin, publisher: Session, start: int, wall: float
) -> Iterator[tuple[int, Publication]]:
    """Its runs from a message on, with their places in the batch."""
    offset = 0
    for publication in publications_of(batch, origin, publisher, wall):
        if offset >= start:
            yield offset, publication
        elif offset + publication.count > start:
            yield start, publication.part(start - offset, publication.count)
        offset += publication.count
