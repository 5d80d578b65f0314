"""Batches: PUBLISH packets of any topics that are served together, as the scan makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iot_mqtt import native

__all__ = ["PublishBatch", "batch_of"]


class PublishBatch:
    """PUBLISH packets with the same first byte, whose topics have the same route: whatever the decoder's table has for
    them, as it is, or ``above`` QoS 0, or ``retained``. Without DUP, and all properties are passed on: no alias.
    """

    __slots__ = ("_publications", "begin", "count", "data", "end", "five", "head", "ids", "longest", "route")

    def __init__(
        self,
        head: int,
        five: bool,
        data: bytes,
        begin: int,
        end: int,
        count: int,
        ids: list[int],
        longest: int,
        route: Any,
    ) -> None:
        #: ``0x30 | qos << 1 | retain``.
        self.head = head
        self.five = five
        #: What has the packets in it, one after the other, exactly as received; where they begin and end there.
        self.data = data
        self.begin = begin
        self.end = end
        self.count = count
        #: Packet ids in order; empty at QoS 0.
        self.ids = ids
        #: Bytes of the largest packet.
        self.longest = longest
        self.route = route
        #: What the broker has made of its runs, once.
        self._publications: Any = None

    @property
    def qos(self) -> int:
        """QoS of every packet."""
        return self.head >> 1 & 3

    @property
    def wire(self) -> bytes:
        """The packets alone. Whoever writes them in another form needs no copy of them, so they are cut out now."""
        if self.end - self.begin != len(self.data):
            self.data = self.data[self.begin : self.end]
            self.begin, self.end = 0, len(self.data)
        return self.data

    def written(
        self, *, five: bool, qos: int, identifiers: bytes = b"", ids: Sequence[int] = (), count: int = 0
    ) -> bytes:
        """The first ``count`` packets (0: all) in the form of one outgoing hop; ``identifiers``: its own properties."""
        head, count = 0x30 | qos << 1, count or self.count
        if head == self.head == 0x30 and five == self.five and not identifiers:
            wire = self.wire
            return wire if count == self.count else wire[: native.locate(wire, 0, count)[1]]
        return native.rewrite(self.data, self.begin, count, self.five, head, five, identifiers, ids)

    def __repr__(self) -> str:
        return f"<PublishBatch qos={self.qos} {self.count} packets>"


def batch_of(
    head: int, five: bool, data: bytes, begin: int, end: int, count: int, ids: list[int], longest: int, route: Any
) -> PublishBatch:
    """What the scan makes one with: to call a compiled function takes half of what to call a compiled class does."""
    return PublishBatch(head, five, data, begin, end, count, ids, longest, route)
