"""What nodes say to each other, as values: items, which arrive once and in order, and the datagrams around them.

How they are written is the business of ``proto_v1``. A version of the protocol may lack a field that stands
here, never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from iot_mqtt.codec import PublishRun
from iot_mqtt.ports.cluster import Forwarded

# -- items ---------------------------------------------------------------------------------------------


def halves(item: Forwarded) -> tuple[Forwarded, Forwarded]:
    """The same as two items; there are at least two messages in it."""
    run, reference, more = item.run, item.reference, item.more
    if more:
        middle = len(more) // 2
        first, rest = more[middle], more[middle + 1 :]
        return item._replace(more=more[:middle]), item._replace(run=first, topic=first.topic, more=rest)
    count, middle = run.count, run.count // 2
    return (
        item._replace(run=run.part(0, middle), reference=reference and reference.part(0, middle)),
        item._replace(run=run.part(middle, count), reference=reference and reference.part(middle, count)),
    )


#: Flags of a route: somebody is connected, or some durable session wants it. Other bits are kept as they come.
LIVE: Final = 0x01
DURABLE: Final = 0x02


class Route(NamedTuple):
    """That the sender has receivers for a filter; ``flags`` 0: it has none any more."""

    filter: str
    flags: int
    #: Of a shared group: the members that are here.
    members: int = 0


class Routes(NamedTuple):
    """How the sender's routes changed between two versions of them."""

    #: The version that it is a change of; not looked at if ``full``.
    since: int
    version: int
    routes: tuple[Route, ...]
    #: It replaces all that was known of the sender's routes.
    full: bool = False
    #: More parts of the same change follow, and only behind the last one the version is reached.
    more: bool = False

    def parts(self, limit: int) -> Iterator[Routes]:
        """The same as several items of about ``limit`` bytes of filters each."""
        begin = size = 0
        full = self.full
        for index, route in enumerate(self.routes):
            size += len(route.filter) + 8
            if size >= limit and index + 1 < len(self.routes):
                yield Routes(self.since, self.version, self.routes[begin : index + 1], full=full, more=True)
                begin, size, full = index + 1, 0, False
        yield Routes(self.since, self.version, self.routes[begin:], full=full, more=self.more)


class RoutesAck(NamedTuple):
    """The sender of this knows the other's routes up to this version and forwards by them."""

    version: int
    #: The end of its log when that began, committed or not: whatever has been or is appended from there on is
    #: forwarded by these routes, and what is before it has to be read.
    position: int = 0


class Retained(NamedTuple):
    """A topic's retained message changed at the sender."""

    topic: bytes
    version: int
    #: None: it was removed.
    run: PublishRun | None
    publisher: str = ""
    arrived: float = 0.0
    #: Who it counts for; None: nobody.
    user: str | None = None


class Request(NamedTuple):
    """A question by name; the answer is a ``Reply`` with the same id."""

    id: int
    name: str
    body: bytes


class Reply(NamedTuple):
    """``body`` is the reason, as text, if it is refused."""

    id: int
    body: bytes
    refused: bool = False


class Unknown(NamedTuple):
    """An item that a later version of the sender wrote; it keeps its place in the sequence."""

    kind: int


Item = Forwarded | Routes | RoutesAck | Retained | Request | Reply | Unknown

# -- datagrams -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """What every datagram begins with: from which life of whom, to which life of whom."""

    sender: int
    sender_boot: int
    receiver: int
    #: 0: the sender does not know it yet. Only a heartbeat may be sent like this.
    receiver_boot: int


@dataclass(frozen=True, slots=True)
class Data:
    """Items with consecutive numbers, the first of which is ``first``."""

    first: int
    #: All that the sender's log has below this position, and that the receiver has to get, is in this datagram or
    #: in an earlier one.
    end: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How far the sender is, and how it is."""

    #: Number of the item it will send next.
    next: int
    #: As in ``Data``, of what is before ``next``.
    end: int
    #: All items of the other side before this number have come, or were given up.
    received: int
    routes_version: int = 0
    routes_digest: int = 0
    #: 0 (idle) to 1.
    load: float = 0.0
    #: It wants no new clients.
    draining: bool = False
    #: It hears the one it sends this to.
    hears: bool = False
    #: It reads publications of several runs.
    takes_more: bool = False
    #: Its wall clock when it was sent, and what it has seen of the other's, if anything: see ``peer_clock``.
    clocks: tuple[float, float | None] | None = None


#: First and last number of items.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Repair:
    """Please send these again."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """These cannot be sent again."""

    first: int
    last: int


Datagram = Data | Heartbeat | Repair | Lost


class LinkError(Exception):
    """A request was not answered, or was refused; the text says which."""


class RequestRefused(LinkError):
    """The peer has the request, and does nothing about it; the text is its own."""
