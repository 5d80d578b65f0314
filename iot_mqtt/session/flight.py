"""Messages of the log under way to one client: where they are, and which packet ids they have.

A flight is as much of one run as one session took at once; it is one object however many messages that is. The
messages themselves are in the log: a flight holds none of them.

Flights that got their ids in one turn are one segment, which is what is stored: one record, written when it
begins and when some of it has been acknowledged, removed when all of it has.

Flights that are taken together are one object, a convoy, until somebody has to know one from another. Mostly all of
them are confirmed before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class Convoy(Flight):
    """Flights of QoS 1 for one subscription, taken together; ``sent`` counts over all of them. It is in no segment."""

    __slots__ = ("references", "flights")

    def __init__(
        self, session: Any, references: Sequence[Any], ids: Sequence[int], identifiers: tuple[int, ...], origin: Any
    ) -> None:
        super().__init__(session, references[0], ids, 1, identifiers=identifiers, origin=origin)
        self.references = references
        #: What has taken its place.
        self.flights: list[Flight] | None = None

    def unfold(self, entries: dict[int, Any]) -> list[Flight]:
        """The flights, one for each reference; those that are not over are what is under way from now on."""
        flights = self.flights
        if flights is not None:
            return flights
        flights = self.flights = []
        start = 0
        for reference in self.references:
            end = start + reference.length
            ids = self.ids[start:end]
            flight = Flight(self.session, reference, ids, 1, identifiers=self.identifiers, origin=self.origin)
            flight.ticket, flight.sent = self.ticket, min(max(self.sent - start, 0), end - start)
            for packet_id in ids:
                if entries.get(packet_id) is self:
                    entries[packet_id] = flight
            flights.append(flight)
            start = end
        return flights


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


class Row:
    """Messages of a convoy that are to be sent: ``runs`` from ``at`` on, with the ids from ``convoy.sent`` on."""

    __slots__ = ("convoy", "runs", "at", "ticket")

    def __init__(self, convoy: Convoy, runs: Sequence[Any]) -> None:
        self.convoy = convoy
        self.runs = runs
        self.at = 0
        self.ticket = convoy.ticket

    def have_left(self, runs: int, messages: int) -> None:
        """The first of them have, so many of each."""
        for flight in (self.convoy.flights or ())[self.at : self.at + runs]:
            flight.sent = len(flight.ids)
        self.convoy.sent += messages
        self.at += runs

    def pieces(self, entries: dict[int, Any], publication: Callable[[Any], Any]) -> list[Piece]:
        """The same one by one; ``publication`` makes one of a run."""
        flights = self.convoy.unfold(entries)[self.at :]
        return [
            Piece(flight, 0, flight.ids, publication(run))
            for flight, run in zip(flights, self.runs[self.at :], strict=True)
        ]
