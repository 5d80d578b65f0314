"""What all framers have in common: reasons, errors, the end, and what they count.

Sans-IO: bytes in, frames out. One framer for each connection::

    items = framer.feed(data)          # [frame, frame, ...]; the last may be a FrameError

With ``resync: close`` the first error ends it: everything behind is ignored. With ``resync: skip`` what is thrown away
is counted in ``skipped`` and ``refused``, and the only error is that there was more of it between two frames than
``max_skipped``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from iot_mqtt.framing.checksums import SIZES, checksum_of
from iot_mqtt.framing.declare import Checksum, Framing


class FrameReason(StrEnum):
    """What is wrong with a frame; safe as a metric label."""

    #: It does not begin as every frame does.
    MAGIC = "magic"
    #: It says a length that no frame has: negative, shorter than its own header or checksum.
    LENGTH = "length"
    #: It is longer than ``max_frame``.
    TOO_LONG = "too_long"
    CHECKSUM = "checksum"
    #: More than ``max_skipped`` bytes in a row were no frame.
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class FrameError:
    """Bytes that are no frame. ``detail`` is for a person."""

    reason: FrameReason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


#: What ``feed`` returns; an error can only be the last of a list.
Item: TypeAlias = bytes | FrameError


class Framer:
    """Base of all of them. ``feed`` never raises."""

    __slots__ = (
        "_before",
        "_limit",
        "_magic",
        "_most_noise",
        "_noise",
        "_over",
        "_rest",
        "_skips",
        "refused",
        "skipped",
    )

    def __init__(self, framing: Framing) -> None:
        self._limit = framing.max_frame
        self._magic = framing.magic
        self._skips = framing.resync == "skip"
        self._over = False
        #: Bytes that were thrown away since the last frame; and how many items were there when the last of them were.
        self._noise = self._before = 0
        self._most_noise = framing.max_skipped
        self._rest: bytes | bytearray = b""
        #: Bytes that were thrown away.
        self.skipped = 0
        #: Frames that were thrown away, or that ended it, by reason.
        self.refused: dict[FrameReason, int] = {}

    @property
    def buffered(self) -> int:
        """Bytes waiting for the rest of their frame; less than ``max_frame``."""
        return len(self._rest)

    @property
    def over(self) -> bool:
        """An error ended it."""
        return self._over

    def feed(self, data: bytes) -> list[Item]:
        """The frames that these bytes complete."""
        items: list[Item] = []
        if self._over:
            return items
        self._before = 0
        self._feed(data, items)
        if len(items) > self._before:
            self._noise = 0
        return items

    def _feed(self, data: bytes, items: list[Item]) -> None:
        """Append the frames; it is not over."""
        raise NotImplementedError

    def _skip(self, size: int, items: list[Item]) -> None:
        """So many bytes are thrown away; if it has been too many in a row, it is the end."""
        self.skipped += size
        if len(items) > self._before:
            self._before = len(items)
            self._noise = 0
        self._noise += size
        if self._noise > self._most_noise and self._skips and not self._over:
            self._end(FrameReason.NOISE, f"more than {self._most_noise} bytes in a row were no frame", items)

    def _end(self, reason: FrameReason, detail: str, items: list[Item]) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self._over = True
        self._rest = b""
        items.append(FrameError(reason, detail))

    def _refuse(self, reason: FrameReason, detail: str, items: list[Item]) -> None:
        """Count it; unless bad frames are skipped, it is the end."""
        if not self._skips:
            self._end(reason, detail, items)
        else:
            self.refused[reason] = self.refused.get(reason, 0) + 1

    def _no_magic(self, data: bytes) -> str:
        there = data[: max(4, len(self._magic))].hex(" ")
        return f"begins with {there} instead of {self._magic.hex(' ')}"

    def _too_long(self, size: int, *, open_end: bool = False) -> str:
        return f"a frame of {size} bytes{' or more' if open_end else ''}; {self._limit} are allowed"


class Check:
    """A declared checksum, ready to be held against frames."""

    __slots__ = ("_sum", "_start", "_order", "_size", "_trailer", "behind", "cut")

    def __init__(self, checksum: Checksum) -> None:
        self._sum: Callable[[bytes], int] = checksum_of(checksum.kind)
        self._start = checksum.start
        self._order = checksum.order
        self._size = SIZES[checksum.kind]
        self._trailer = checksum.trailer
        #: Bytes from the checksum on, to the end of the frame.
        self.behind = self._size + checksum.trailer
        #: Bytes to take off the end.
        self.cut = self.behind if checksum.strip else 0

    @property
    def least(self) -> int:
        """A shorter frame has no room for it."""
        return self._start + self.behind

    def holds(self, data: bytes, pos: int, stop: int) -> bool:
        """Whether the frame ``data[pos:stop]``, which is long enough, has the right one."""
        at = stop - self.behind
        said = int.from_bytes(data[at : stop - self._trailer], self._order)
        return self._sum(data[pos + self._start : at]) == said

    def wrong(self, data: bytes, pos: int, stop: int) -> str:
        """What to say about a frame that has another."""
        at = stop - self.behind
        is_ = self._sum(data[pos + self._start : at]).to_bytes(self._size, self._order)
        return f"ends with {data[at : stop - self._trailer].hex(' ')} instead of {is_.hex(' ')}"
