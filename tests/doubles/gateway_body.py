"""A gateway's side of its frames. Written apart from ``grid.ignite.frames``, so that both would have to be wrong."""

from __future__ import annotations

import struct

NO_VALUE = 0xFFFF_FFFF

#: Of one page of a READ: cache, prefix or key, the key that was had last, entries at most (0: that key alone).
Wanted = tuple[str, bytes, bytes | None, int]


class Body:
    """A request's body, read from the front."""

    __slots__ = ("data", "at")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    @property
    def left(self) -> int:
        """Bytes that were not read."""
        return len(self.data) - self.at

    def skip(self) -> None:
        """Nothing of the rest matters."""
        self.at = len(self.data)

    def number(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "big")

    def raw(self, size: int) -> bytes:
        end = self.at + size
        assert end <= len(self.data), "a request ends early"
        found = self.data[self.at : end]
        self.at = end
        return found

    def text(self) -> str:
        return self.raw(self.number(2)).decode()

    def key(self) -> bytes:
        return self.raw(self.number(2))

    def value(self) -> bytes | None:
        size = self.number(4)
        return None if size == NO_VALUE else self.raw(size)

    def wanted(self) -> list[Wanted]:
        """What a READ asks for. In one piece: a simulated server is asked for hundreds of thousands."""
        data, found = self.data, []
        at = self.at + 2
        for _ in range(int.from_bytes(data[self.at : at], "big")):
            key = at + 2 + int.from_bytes(data[at : at + 2], "big")
            after = key + 2 + int.from_bytes(data[key : key + 2], "big")
            size = int.from_bytes(data[after : after + 4], "big")
            end = after + 4 + (0 if size == NO_VALUE else size)
            assert end + 4 <= len(data), "a request ends early"
            last = None if size == NO_VALUE else data[after + 4 : end]
            limit = int.from_bytes(data[end : end + 4], "big")
            found.append((data[at + 2 : key].decode(), data[key + 2 : after], last, limit))
            at = end + 4
        self.at = at
        return found


def frame(op: int, body: bytes) -> bytes:
    return struct.pack(">IB", len(body) + 1, op) + body


def text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()
