"""Captures: what goes over the links to gateways, written down for a while to be looked at or replayed.

A capture is of one codec (every connection that speaks it, from its first byte) or of one gateway (what it has now,
and what comes after its next logins: the login itself, with its password, is not in it). It ends after its time, at
its size, when it is stopped, or with the node. The format is ``iot_mqtt.sdk.capture``'s; ``iot-mqtt frames`` reads it.

What is looked at frame by frame, and not written down, is for a ``Watcher``. A link that nobody looks at has no stage
for either.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from iot_mqtt.pipeline import Batch, Context, Stage
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.sdk import Event
from iot_mqtt.sdk.capture import CaptureWriter, Header

log = logging.getLogger(__name__)

#: At a time; a capture costs every frame of what it is of.
MOST: Final = 8
LONGEST_SECONDS: Final = 24 * 3600.0
LARGEST_BYTES: Final = 1 << 30
#: Files of captures that are over, and their bytes, when one begins; the oldest go.
KEPT: Final = 32
KEPT_BYTES: Final = 1 << 30
#: How they are named.
_FILES: Final = "[0-9]*-[0-9]*.jsonl"
#: Of a file, that are read in one go.
READ_BYTES: Final = 256 * 1024


class CaptureError(Exception):
    """What was asked for cannot be had; the text says why."""


@dataclass(frozen=True, slots=True)
class CaptureInfo:
    """One capture."""

    id: str
    codec: str
    #: None: every gateway that speaks the codec.
    gateway: str | None
    file: str
    bytes: int
    connections: int
    #: "running", "stopped", "time", "size" or "failed".
    state: str


class _Capture:
    """A file, and the numbers of its connections."""

    def __init__(self, id: str, codec: str, gateway: str | None, path: Path, file: IO[bytes], clock: Clock) -> None:
        self.id = id
        self.codec = codec
        self.gateway = gateway
        self.path = path
        self.bytes = 0
        self.connections = 0
        self.state = "running"
        self.timer: Timer | None = None
        self.writer: CaptureWriter
        self._file = file

    def write(self, line: bytes) -> None:
        self.bytes += len(line)
        self._file.write(line)

    def flush(self) -> None:
        if self.state == "running":
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def info(self) -> CaptureInfo:
        return CaptureInfo(self.id, self.codec, self.gateway, str(self.path), self.bytes, self.connections, self.state)


class Tap:
    """One connection of one capture."""

    __slots__ = ("_captures", "_capture", "_number")

    def __init__(self, captures: Captures, capture: _Capture, number: int) -> None:
        self._captures = captures
        self._capture = capture
        self._number = number

    @property
    def running(self) -> bool:
        return self._capture.state == "running"

    def up(self, data: bytes) -> None:
        self._tell(lambda: self._capture.writer.up(self._number, data))

    def down(self, data: bytes) -> None:
        self._tell(lambda: self._capture.writer.down(self._number, data))

    def events(self, events: Sequence[Event]) -> None:
        self._tell(lambda: self._capture.writer.events(self._number, events))

    def closed(self, reason: str) -> None:
        self._tell(lambda: self._capture.writer.closed(self._number, reason))

    def _tell(self, write: Callable[[], bool]) -> None:
        if not self.running:
            return
        try:
            if not write():
                self._captures.finish(self._capture, "size")
        except OSError as error:
            log.error("a capture cannot be written: %s", error)
            self._captures.finish(self._capture, "failed")


class TapStage(Stage):
    """Between the transport and the frames of a connection that is captured."""

    __slots__ = ("tap",)

    def __init__(self, tap: Tap) -> None:
        self.tap = tap

    def read(self, ctx: Context, batch: Batch) -> None:
        self.tap.up(b"".join(batch))
        ctx.fire_read(batch)

    def write(self, ctx: Context, batch: Batch) -> None:
        self.tap.down(b"".join(batch))
        ctx.write(batch)


class Watcher(Protocol):
    """Is called in the middle of a receive or a write, and raises nothing."""

    def frames(self, link: ObservedLink, direction: str, frames: Sequence[bytes]) -> None:
        """``direction``: "in" or "out"."""
        ...

    def events(self, link: ObservedLink, events: Sequence[Event]) -> None:
        """What the codec made of frames."""
        ...


class WatchStage(Stage):
    """Between the frames of a connection and its codec."""

    __slots__ = ("_link", "_watcher")

    def __init__(self, link: ObservedLink, watcher: Watcher) -> None:
        self._link = link
        self._watcher = watcher

    def read(self, ctx: Context, batch: Batch) -> None:
        self._watcher.frames(self._link, "in", batch)
        ctx.fire_read(batch)

    def write(self, ctx: Context, batch: Batch) -> None:
        self._watcher.frames(self._link, "out", batch)
        ctx.write(batch)


class ObservedLink:
    """A gateway's connection, as captures and traces see it. ``ctx``: of the stage that hears the codec's events."""

    __slots__ = ("codec", "gateway", "observed", "_ctx", "_captures", "_tap", "_watcher")

    def __init__(self, codec: str, ctx: Context, captures: Captures) -> None:
        #: As the listener says.
        self.codec = codec
        #: Empty before the login.
        self.gateway = ""
        #: Whether ``events`` has to be called.
        self.observed = False
        self._ctx = ctx
        self._captures = captures
        self._tap: Tap | None = None
        self._watcher: Watcher | None = None

    @property
    def peer(self) -> str:
        """The address at the other end."""
        return self._ctx.channel.peer

    def tap(self, tap: Tap) -> bool:
        """Write down what is said from now on; False if somebody does already."""
        pipeline = self._ctx.pipeline
        if self._tap is not None:
            if self._tap.running:
                return False
            pipeline.remove("tap")
        self._tap = tap
        self.observed = True
        pipeline.add_before("frames", "tap", TapStage(tap))
        return True

    def watch(self, watcher: Watcher | None) -> None:
        """Look at it from now on, in place of whoever did; None: nobody does."""
        if watcher is self._watcher:
            return
        pipeline = self._ctx.pipeline
        if self._watcher is not None:
            pipeline.remove("watch")
        self._watcher = watcher
        self.observed = watcher is not None or self._tap is not None
        if watcher is not None:
            pipeline.add_before(self._ctx.name, "watch", WatchStage(self, watcher))

    def events(self, events: Sequence[Event]) -> None:
        """What the codec made of frames."""
        if self._tap is not None:
            self._tap.events(events)
        if self._watcher is not None:
            self._watcher.events(self, events)

    def opened(self) -> None:
        """The connection has a codec."""
        self._captures.opened(self)

    def logged_in(self) -> None:
        """Its gateway was let in."""
        self._captures.named(self)

    def closed(self) -> None:
        """Nobody asks for it any more."""
        self._captures.closed(self)
        if self._tap is not None:
            self._tap.closed("" if self._ctx.channel.close_reason is None else "closed")


class Captures:
    """Of one node. ``folder`` is made when it is needed."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._links: set[ObservedLink] = set()
        self._named: set[ObservedLink] = set()
        self._captures: dict[str, _Capture] = {}
        self._count = 0
        #: Told of each gateway that has logged in. Its login is over, so its password is not among what is seen.
        self.on_logged_in: Callable[[ObservedLink], None] | None = None

    @property
    def logged_in(self) -> list[ObservedLink]:
        """Those that have; of those who are about to log in none is among them."""
        return list(self._named)

    # Asked by operators.

    def start(self, codec: str, gateway: str | None, seconds: float, limit: int) -> CaptureInfo:
        """Begin; raises ``CaptureError``."""
        if not 0 < seconds <= LONGEST_SECONDS or not 0 < limit <= LARGEST_BYTES:
            raise CaptureError(f"at most {LONGEST_SECONDS:g} seconds and {LARGEST_BYTES} bytes")
        if sum(1 for one in self._captures.values() if one.state == "running") >= MOST:
            raise CaptureError(f"{MOST} captures are running already; stop one")
        self._count += 1
        now = int(self._clock.wall() * 1000)
        id = f"{now}-{self._count}"
        path = self._folder / f"{id}.jsonl"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._forget()
            file = path.open("xb")
        except OSError as error:
            raise CaptureError(f"cannot write there: {error}") from error
        capture = _Capture(id, codec, gateway, path, file, self._clock)
        capture.writer = CaptureWriter(capture.write, self._clock.monotonic, Header(now, codec), limit)
        capture.timer = self._clock.call_later(seconds, lambda: self.finish(capture, "time"))
        self._captures[id] = capture
        for link in tuple(self._links):
            if link.codec == codec and (gateway is None or link.gateway == gateway):
                self._tap(link, capture)
        return capture.info()

    def stop(self, id: str) -> CaptureInfo:
        """End one; raises ``CaptureError``."""
        capture = self._captures.get(id)
        if capture is None:
            raise CaptureError(f"there is no capture {id!r}")
        self.finish(capture, "stopped")
        return capture.info()

    def info(self) -> list[CaptureInfo]:
        """Those that run, and the last ones that did."""
        return [capture.info() for capture in self._captures.values()]

    def read(self, id: str, after: int) -> tuple[CaptureInfo, list[Mapping[str, Any]], int]:
        """Lines of a capture from a place in its file on, those that fit into a part of it, and the place behind them.
        Raises ``CaptureError``.
        """
        capture = self._captures.get(id)
        if capture is None:
            raise CaptureError(f"there is no capture {id!r}")
        try:
            capture.flush()
            with capture.path.open("rb") as file:
                file.seek(after)
                found = file.read(READ_BYTES)
                # Of a line that is longer than that the beginning is shown, and it is passed over.
                end = found.rfind(b"\n") + 1 or (len(found) if len(found) == READ_BYTES else 0)
        except OSError as error:
            raise CaptureError(f"the capture cannot be read: {error}") from error
        return capture.info(), [_line(one) for one in found[:end].splitlines()], after + end

    def close(self) -> None:
        """The node ends."""
        for capture in self._captures.values():
            self.finish(capture, "stopped")

    def finish(self, capture: _Capture, state: str) -> None:
        """Nothing more is written to it."""
        if capture.state == "running":
            capture.state = state
            if capture.timer is not None:
                capture.timer.cancel()
            try:
                capture.close()
            except OSError as error:
                log.error("a capture cannot be closed: %s", error)
                capture.state = "failed"

    def _forget(self) -> None:
        over = [id for id, capture in self._captures.items() if capture.state != "running"]
        for id in over[:-MOST]:
            del self._captures[id]
        self._remove_files({id for id, capture in self._captures.items() if capture.state == "running"})

    def _remove_files(self, running: set[str]) -> None:
        """Those of earlier lives, too. Names begin with the time."""
        kept = 0
        found = sorted((path for path in self._folder.glob(_FILES) if path.stem not in running), reverse=True)
        for number, path in enumerate(found):
            kept += path.stat().st_size
            if number >= KEPT or kept > KEPT_BYTES:
                path.unlink()
                self._captures.pop(path.stem, None)

    # Told by links.

    def opened(self, link: ObservedLink) -> None:
        """A connection whose gateway is not known yet."""
        self._links.add(link)
        for capture in self._captures.values():
            if capture.state == "running" and capture.codec == link.codec and capture.gateway is None:
                self._tap(link, capture)

    def named(self, link: ObservedLink) -> None:
        """Now it is."""
        self._named.add(link)
        if self.on_logged_in is not None:
            self.on_logged_in(link)
        for capture in self._captures.values():
            if capture.state == "running" and capture.codec == link.codec and capture.gateway == link.gateway:
                self._tap(link, capture)

    def closed(self, link: ObservedLink) -> None:
        self._links.discard(link)
        self._named.discard(link)

    def _tap(self, link: ObservedLink, capture: _Capture) -> None:
        capture.connections += 1
        tap = Tap(self, capture, capture.connections)
        if link.tap(tap):
            capture.writer.opened(capture.connections, link.peer)


def _line(line: bytes) -> Mapping[str, Any]:
    """What stands in it; the rest of a line that was passed over is no JSON."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
