"""Frames that are known by their ends: delimiters and lines.

A frame that is not complete is gathered, and only what is new of it is searched. What has grown to ``max_frame``
without an end is too long; if bad frames are skipped, everything up to its end is.
"""

from __future__ import annotations

import re

from iot_mqtt.framing.declare import Delimiter, Line
from iot_mqtt.framing.framer import Check, Framer, FrameReason, Item


class DelimiterFramer(Framer):
    """One delimiter or several."""

    __slots__ = ("_check", "_discarding", "_overlap", "_pattern", "_plain", "_strip")

    def __init__(self, framing: Delimiter | Line) -> None:
        super().__init__(framing)
        delimiters = framing.delimiters if isinstance(framing, Delimiter) else (b"\n",)
        self._strip = framing.strip if isinstance(framing, Delimiter) else True
        # Longest first: of two that end at the same place, the longer one is meant.
        ordered = sorted(delimiters, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(re.escape(delimiter) for delimiter in ordered))
        #: What a search must see of what it has seen before.
        self._overlap = len(ordered[0]) - 1
        self._check = Check(framing.checksum) if framing.checksum else None
        #: The delimiter, if frames can be cut by nothing else.
        self._plain = b""
        if len(ordered) == 1 and self._strip and not framing.magic and not framing.checksum:
            self._plain = ordered[0]
        #: In a frame that is too long; ``_rest`` is what could be the beginning of its end.
        self._discarding = False

    def _feed(self, data: bytes, items: list[Item]) -> None:
        if rest := self._rest:
            seen = rest[-self._overlap :] if self._overlap else b""
            if not self._pattern.search(seen + data):
                self._rest = rest = bytearray(rest) if isinstance(rest, bytes) else rest
                rest += data
                self._look_at_rest(items)
                return
            data = b"".join((rest, data))
            self._rest = b""
        pos = 0 if self._discarding else self._cut(data, items)
        for match in self._pattern.finditer(data, pos):
            if not self._one(data, pos, match.start(), match.end(), items):
                return
            pos = match.end()
        if pos < len(data):
            self._rest = data[pos:]
            self._look_at_rest(items)

    def _cut(self, data: bytes, items: list[Item]) -> int:
        """All frames at once, if there is nothing about them that needs a look; return where the rest begins."""
        delimiter = self._plain
        if not delimiter:
            return 0
        frames = data.split(delimiter)
        rest = frames.pop()
        if not frames or len(max(frames, key=len)) + len(delimiter) > self._limit:
            return 0
        items += self._trimmed(frames)
        return len(data) - len(rest)

    def _trimmed(self, frames: list[bytes]) -> list[bytes]:
        return frames

    def _one(self, data: bytes, pos: int, at: int, end: int, items: list[Item]) -> bool:
        """The frame at ``pos``, whose delimiter is from ``at`` to ``end``; return whether to go on."""
        size, check = end - pos, self._check
        if self._discarding:
            self._discarding = False
            self._skip(size, items)
            return not self._over
        if not data.startswith(self._magic, pos, at):
            return self._drop(FrameReason.MAGIC, self._no_magic(data[pos:at][:16]), size, items)
        if size > self._limit:
            return self._drop(FrameReason.TOO_LONG, self._too_long(size), size, items)
        (frame,) = self._trimmed([data[pos:at]])
        if check:
            length = len(frame)
            if length < check.least:
                detail = f"a frame of {length} bytes; {check.least} is the least"
                return self._drop(FrameReason.LENGTH, detail, size, items)
            if not check.holds(frame, 0, length):
                return self._drop(FrameReason.CHECKSUM, check.wrong(frame, 0, length), size, items)
            frame = frame[: length - check.cut]
        items.append(frame if self._strip else frame + data[at:end])
        return True

    def _drop(self, reason: FrameReason, detail: str, size: int, items: list[Item]) -> bool:
        self._refuse(reason, detail, items)
        self._skip(size, items)
        return not self._over

    def _look_at_rest(self, items: list[Item]) -> None:
        """A frame that is not complete can be wrong already."""
        rest, magic = self._rest, self._magic
        if self._discarding:
            self._shorten(items)
            return
        begins = rest.startswith(magic) if len(rest) >= len(magic) else magic.startswith(rest)
        if not begins and (not self._skips or len(rest) >= self._limit):
            self._refuse(FrameReason.MAGIC, self._no_magic(bytes(rest[:16])), items)
        elif len(rest) >= self._limit:
            self._refuse(FrameReason.TOO_LONG, self._too_long(len(rest) + 1, open_end=True), items)
        else:
            return
        if not self._over:
            self._discarding = True
            self._shorten(items)

    def _shorten(self, items: list[Item]) -> None:
        """Keep what could be the beginning of a delimiter; it is counted when that is known."""
        rest = self._rest
        self._rest = bytes(rest[-self._overlap :]) if self._overlap else b""
        self._skip(len(rest) - len(self._rest), items)


class LineFramer(DelimiterFramer):
    """Line feeds, with a carriage return before them or not."""

    __slots__ = ()

    def __init__(self, framing: Line) -> None:
        super().__init__(framing)

    def _trimmed(self, frames: list[bytes]) -> list[bytes]:
        return [frame[:-1] if frame.endswith(b"\r") else frame for frame in frames]
