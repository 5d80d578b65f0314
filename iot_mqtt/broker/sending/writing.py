"""What leaves to a client: messages of the log as runs, and others one by one. Time is looked at here for the last
time: what is over when it would leave for the first time does not leave [MQTT-3.3.2-5].
"""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.publication import GROWTH, IDENTIFIER, hop_properties, logged_publication
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.sending.ending import Ending
from iot_mqtt.broker.session import ClientConnection, Line, Session
from iot_mqtt.codec import encode_wires
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.log import LogRun, survey
from iot_mqtt.session import Delivery, Piece, Row

#: Bytes that are handed to the connection at once.
WRITE_BYTES = 64 * 1024


class Writing:
    """To all clients of a node."""

    __slots__ = ("_clock", "_counters", "_ending")

    def __init__(self, clock: Clock, counters: Counters, ending: Ending) -> None:
        self._clock = clock
        self._counters = counters
        self._ending = ending

    def send_alike(self, session: Session, sending: Line, room: int, committed: int) -> bool:
        """Send the first of what waits, as many as are alike and safe; False if the very first one is not.

        Alike is what nothing has to be decided for: messages of the log without properties, for the first time. A row
        is, or it is taken apart.
        """
        connection, first = session.connection, sending[0]
        assert connection is not None
        if isinstance(first, Row):
            if not self._send_row(session, sending, first, room):
                sending.popleft()
                sending.extendleft(reversed(first.pieces(session.outbound.entries, logged_publication)))
            return True
        if connection.max_packet_size or connection.aliases(len(sending)):
            return False
        five = connection.five
        parts: list[bytes] = []
        count = size = 0
        while sending and size < WRITE_BYTES:
            item = sending[0]
            if not isinstance(item, Piece) or item.ticket > committed or item.publication is None or item.flight.sent:
                break
            publication, flight, ids = item.publication, item.flight, item.ids
            length, topic = len(ids), publication.topic
            if count + length > room or publication.run.raw_properties or topic.startswith(DOWN):
                break
            if not connection.may_receive(topic):
                break
            start = item.offset - item.base
            data = publication.with_ids(five, flight.qos, flight.retain, flight.identifiers, ids, start)
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

    def _send_row(self, session: Session, sending: Line, row: Row, room: int) -> bool:
        """As much of it as is written at once; False if each message has to be looked at."""
        connection, convoy = session.connection, row.convoy
        assert connection is not None
        if connection.aliases(len(convoy.ids) - convoy.sent):
            return False
        stop, count = _alike(connection, row.runs, row.at, room, convoy.identifiers)
        if not count:
            return False
        five, runs = connection.five, row.runs[row.at : stop]
        wires = [logged.run.wire for logged in runs]
        block = hop_properties(b"", identifiers=convoy.identifiers) if convoy.identifiers and five else b""
        ids = convoy.ids[convoy.sent : convoy.sent + count]
        connection.send(encode_wires(wires, count, from_five=runs[0].run.five, five=five, block=block, ids=ids))
        session.unsent -= count
        row.have_left(len(wires), count)
        if row.at == len(row.runs):
            sending.popleft()
        return True

    def send_piece(self, session: Session, piece: Piece) -> None:
        """Messages of a flight, as one run where nothing has happened to them meanwhile."""
        flight = piece.flight
        session.unsent -= len(piece)
        if not flight.sent and piece.publication.expired(self._clock.wall()):
            self._ending.discard_flight(session, flight, piece.ids, Drop.EXPIRED, piece.publication.topic)
            return
        # What was sent before is sent again with DUP; where only part of it was, that is two runs.
        again = min(max(flight.sent - piece.offset, 0), len(piece))
        if again:
            self._send_again(session, piece.first(again))
        if len(piece):
            flight.sent = piece.offset + len(piece)
            self._send_run(session, piece, dup=False)

    def _send_again(self, session: Session, piece: Piece) -> None:
        """What was not confirmed meanwhile: a client may remember what came over its last connection."""
        for offset, ids in piece.flight.outstanding(session.outbound.entries):
            start, stop = max(offset, piece.offset), min(offset + len(ids), piece.offset + len(piece))
            if start < stop:
                part = Piece(piece.flight, start, ids[start - offset : stop - offset], piece.publication, piece.base)
                self._counters.messages_resent += len(part)
                self._send_run(session, part, dup=True)

    def _send_run(self, session: Session, piece: Piece, *, dup: bool) -> None:
        connection = session.connection
        assert connection is not None
        too_large = connection.send_piece(piece, dup=dup)
        if too_large:  # [MQTT-3.1.2-25]
            self._ending.discard_flight(session, piece.flight, too_large, Drop.TOO_LARGE, piece.publication.topic)

    def send_delivery(self, session: Session, delivery: Delivery) -> None:
        """One that is kept by value."""
        connection = session.connection
        assert connection is not None
        session.unsent -= 1
        if session.outbound.entries.get(delivery.packet_id) is not delivery:
            return
        if delivery.message.expires_at is not None and not delivery.sent and delivery.expired(self._clock.wall()):
            self._ending.discard(session, delivery, Drop.EXPIRED)
            return
        if not connection.send_delivery(delivery):
            self._ending.discard(session, delivery, Drop.TOO_LARGE)  # [MQTT-3.1.2-25]
            return
        if delivery.sent:
            self._counters.messages_resent += 1
        delivery.sent = True


def _alike(
    connection: ClientConnection, runs: Sequence[LogRun], at: int, room: int, identifiers: tuple[int, ...]
) -> tuple[int, int]:
    """How far those from ``at`` on go that can be written together, and how many messages they are."""
    stop, count, longest, topics = survey(runs, at, len(runs), room, WRITE_BYTES)
    cut, limit, permissions = stop, connection.max_packet_size, connection.permissions
    if limit:
        limit -= GROWTH + IDENTIFIER * len(identifiers)
        if longest > limit:
            cut = next(place for place in range(at, stop) if runs[place].run.longest > limit)
    free = permissions is not None and permissions.unrestricted
    for topic, first in topics.items():
        if topic.startswith(DOWN) or not (free or connection.may_receive(topic)):
            cut = min(cut, first)
            break
    if cut < stop:
        stop, count, _, _ = survey(runs, at, cut, room, WRITE_BYTES)
    return stop, count
