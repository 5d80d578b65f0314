"""What was sent to one peer and is not confirmed yet: the numbers of items, and the datagrams for sending again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


class Sent(NamedTuple):
    """A DATA datagram with the numbers of its first and last item; no payload: it cannot be sent again."""

    first: int
    last: int
    payload: bytes


class Ring:
    """Numbers items from 1 on. Datagrams without a gap between them; the oldest go when there is no room."""

    __slots__ = ("next", "bytes", "_sent", "_most_bytes", "_most_count")

    def __init__(self, most_bytes: int, most_count: int) -> None:
        #: The number of the item that is sent next.
        self.next = 1
        #: Of the datagrams that are kept.
        self.bytes = 0
        self._sent: deque[Sent] = deque()
        self._most_bytes = most_bytes
        self._most_count = most_count

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def start(self) -> int:
        """The oldest number that is kept."""
        return self._sent[0].first if self._sent else self.next

    def add(self, payload: bytes, items: int) -> None:
        """A datagram with the items from ``next`` on; without payload, if it cannot be sent at all."""
        self._sent.append(Sent(self.next, self.next + items - 1, payload))
        self.next += items
        self.bytes += len(payload)
        while self._sent and (self.bytes > self._most_bytes or len(self._sent) > self._most_count):
            self._drop()

    def confirmed(self, received: int) -> None:
        """The peer needs nothing before this number any more."""
        while self._sent and self._sent[0].last < received:
            self._drop()

    def clear(self) -> None:
        self._sent.clear()
        self.bytes = 0

    def between(self, first: int, last: int) -> Iterator[Sent]:
        """The datagrams in which any of these items is."""
        for sent in self._sent:
            if sent.first > last:
                return
            if sent.last >= first:
                yield sent

    def _drop(self) -> None:
        self.bytes -= len(self._sent.popleft().payload)
