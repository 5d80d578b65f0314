"""Messages of the log under way to one client: where they are, and which packet ids they have.

A flight is as much of one run as one session took at once; it is one object however many messages that is. The
messages themselves are in the log: a flight holds none of them.

Flights that got their ids in one turn are one segment, which is what is stored: one record, written when it
begins and when some of it has been acknowledged, removed when all of it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Flight:
    """Part of a run with its packet ids: ``ids[i]`` belongs to the message at ``reference.position + i``.

    ``origin`` is the cursor it was taken by; ``session`` is who has it.
    """

    __slots__ = (
        "reference",
        "ids",
        "qos",
        "retain",
        "identifiers",
        "origin",
        "session",
        "ticket",
        "sent",
        "segment",
        "shared_segment",
        "command",
    )

    def __init__(
        self,
        session: Any,
        reference: Any,
        ids: Sequence[int],
        qos: int,
        *,
        retain: bool = False,
        identifiers: tuple[int, ...] = (),
        origin: Any = None,
    ) -> None:
        self.session = session
        self.reference = reference
        self.ids = ids
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.origin = origin
        #: The commit that must be over before the first send.
        self.ticket = 0
        #: How many of them have left on some connection, from the first on; a later send of these carries DUP.
        self.sent = 0
        self.segment: Segment | None = None
        #: The segment of the shared group that it was taken for.
        self.shared_segment: Segment | None = None
        #: The id of the command that it is, once it was about to leave as one.
        self.command: str | None = None

    def outstanding(self, entries: Mapping[int, object]) -> Iterator[tuple[int, Sequence[int]]]:
        """What is not over yet, as (offset, packet ids of consecutive messages)."""
        begin = 0
        found: list[int] = []
        for offset, packet_id in enumerate(self.ids):
            if entries.get(packet_id) is self:
                if not found:
                    begin = offset
                found.append(packet_id)
            elif found:
                yield begin, found
                found = []
        if found:
            yield begin, found


class Segment:
    """Flights that are stored as one record, under this number."""

    __slots__ = ("number", "flights", "stored")

    def __init__(self, number: int) -> None:
        self.number = number
        #: Flights, or what stands for them where a client elsewhere has the messages.
        self.flights: list[Any] = []
        self.stored = False


class Piece:
    """Messages of a flight that are to be sent now, consecutive ones."""

    __slots__ = ("flight", "offset", "ids", "publication", "base", "ticket")

    def __init__(self, flight: Flight, offset: int, ids: Sequence[int], publication: Any = None, base: int = 0) -> None:
        self.flight = flight
        self.offset = offset
        self.ids = ids
        #: Where the messages are while they wait: those of this piece begin there at ``offset - base``.
        self.publication = publication
        self.base = base
        self.ticket = flight.ticket

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int) -> Piece:
        """Split the first ``count`` messages off."""
        piece = Piece(self.flight, self.offset, self.ids[:count], self.publication, self.base)
        self.offset += count
        self.ids = self.ids[count:]
        return piece
