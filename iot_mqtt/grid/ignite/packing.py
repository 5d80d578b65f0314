"""Commits as frames: which entries make a stretch, and how many stretches a frame holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.faults import TooLarge
from iot_mqtt.grid.ignite.frames import LONGEST_KEY, MOST_STRETCHES, Stretch
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.ports.grid import CacheName, Operation

#: Bytes after which a commit goes on in another frame: messages to other nodes travel between the two.
COMMIT_BYTES: Final = 4 << 20
#: Bytes of a frame around its stretches, and at most of an entry around its key and value, its stretch included.
FRAME: Final = 11
ENTRY: Final = 32


def room_of(key: bytes, value: bytes | None) -> int:
    """Bytes that an entry takes in a COMMIT, at most."""
    return ENTRY + len(key) + (0 if value is None else len(value))


class Packing:
    """Commits into frames: each a list of stretches, in order."""

    def __init__(self, frame_limit: int) -> None:
        self._most = frame_limit
        self._soft = min(frame_limit, COMMIT_BYTES)
        self.frames: list[list[Stretch]] = []
        self._size = 0

    def refuses(self, operations: Sequence[Operation], size: int) -> Unavailable | None:
        """Why a commit of these operations can't be sent at all."""
        if size + FRAME <= self._most and size <= LONGEST_KEY:
            return None
        for _, key, value in operations:
            if len(key) > LONGEST_KEY:
                return TooLarge(f"a key of {len(key)} bytes; a gateway takes {LONGEST_KEY}")
            if room_of(key, value) + FRAME > self._most:
                return TooLarge(f"an entry of {len(key) + len(value or b'')} bytes; a frame holds {self._most}")
        return None

    def add(self, operations: Sequence[Operation]) -> None:
        """The next commit. Its stretches are its own; the last operation on a key of a stretch wins."""
        last: CacheName | None = None
        entries: dict[bytes, bytes | None] = {}
        for cache, key, value in operations:
            room = room_of(key, value)
            full = not self.frames or self._size + room > self._soft
            if full or cache is not last:
                if full or len(self.frames[-1]) >= MOST_STRETCHES:
                    self.frames.append([])
                    self._size = FRAME
                last, entries = cache, {}
                self.frames[-1].append((name_of(cache), entries))
            self._size += room
            entries[key] = value
