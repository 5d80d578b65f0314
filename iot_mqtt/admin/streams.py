"""Answers that go on: server-sent events, one listener each, bounded in what waits, in time and in rights.

::

    put ──▶ queue, bounded ──▶ the connection, while it takes more
                └── full: the oldest go, and the listener is told how many

A stream ends when its listener leaves, when he may not listen any more (which is looked at every second), after
``LONGEST``, and when what it is of ends. A listener who comes back says with Last-Event-ID what he had last.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from weakref import WeakKeyDictionary

from iot_mqtt.admin.errors import ApiError

__all__ = ["Audience", "Stream", "Streams", "begin_stream", "event_bytes"]

#: Events that wait for one listener, and their bytes: those that a node keeps, and some more.
MOST: Final = 2100
MOST_BYTES: Final = 1024 * 1024
#: Seconds between two looks at the listener's rights; looks between two signs of life; seconds of a stream.
LOOK: Final = 1.0
BEAT: Final = 10
LONGEST: Final = 3600.0
#: Streams at once: a quarter of the connections that the port has by default.
AT_ONCE: Final = 64


def event_bytes(kind: str, value: object, id: str | None = None) -> bytes:
    """One event as it goes over the wire. JSON has no line breaks of its own."""
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode("utf-8", "replace")


class Stream:
    """What one listener gets. Whoever fills it calls ``put``; ``on_end`` is called once, when it is over."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        #: Events that did not reach the listener.
        self.lost = 0
        self.ended = False
        #: Whether the listener may still listen.
        self.allowed: Callable[[], bool] = lambda: True
        self._on_end = on_end
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._untold = 0
        self._send: Callable[[bytes], None] | None = None
        self._finish: Callable[[], None] = lambda: None

    def put(self, data: bytes) -> None:
        """One event more."""
        if self.ended:
            return
        if self._send is not None and not self._waiting:
            self._send(data)
            return
        self._waiting.append(data)
        self._bytes += len(data)
        while len(self._waiting) > MOST or self._bytes > MOST_BYTES:
            self._bytes -= len(self._waiting.popleft())
            self.lost += 1
            self._untold += 1

    def end(self) -> None:
        """Nothing more comes; whoever listens may come back."""
        if not self.ended:
            self.ended = True
            self._waiting.clear()
            self._on_end()
            self._finish()
            # They are of who has this: no cycle stays.
            self._on_end = self._finish = _nothing
            self._send, self.allowed = None, bool

    # For the connection.

    def open(self, send: Callable[[bytes], None], finish: Callable[[], None]) -> None:
        """The connection is there and takes events."""
        self._finish = finish
        self.resume(send)

    def resume(self, send: Callable[[bytes], None]) -> None:
        """It takes more."""
        self._send = send
        if self._untold:
            lost, self._untold = self._untold, 0
            send(event_bytes("lost", {"events": lost}))
        # Sending may fill the connection, which pauses then.
        while self._waiting and self._send is not None:
            data = self._waiting.popleft()
            self._bytes -= len(data)
            send(data)

    def pause(self) -> None:
        """It takes nothing for now."""
        self._send = None


class Streams:
    """All streams of a node's admin port."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()

    def __len__(self) -> int:
        return len(self._open)

    def make(self, on_end: Callable[[], None]) -> Stream:
        """One more; an error where there are enough."""
        if len(self._open) >= AT_ONCE:
            raise _too_many(f"{AT_ONCE} streams are open already")

        def over() -> None:
            self._open.discard(stream)
            on_end()

        stream = Stream(over)
        self._open.add(stream)
        return stream

    def close(self) -> None:
        """The node ends."""
        for stream in tuple(self._open):
            stream.end()


class Audience:
    """Who listens. A stream takes a connection for long, so no more than half of those that one address may have, and
    that there may be, are for streams: calls from there get in. One caller has half of all streams at most.
    """

    def __init__(self, connections: int, connections_per_address: int) -> None:
        self._in_all = max(1, connections // 2)
        self._of_address = max(1, connections_per_address // 2)
        self._of_caller = max(1, AT_ONCE // 2)
        #: Address and caller. Streams that have ended may be among them.
        self._of: WeakKeyDictionary[Stream, tuple[str, str]] = WeakKeyDictionary()

    def let_in(self, address: str, caller: str, begin: Callable[[], Any]) -> Any:
        """One more stream, which ``begin`` makes; an error where there is no place for it. Whoever listens already
        stays: a page of the dashboard that was closed for a new one would come back at once, and close the next.
        """
        listening = [of for stream, of in self._of.items() if not stream.ended]
        if len(listening) >= self._in_all:
            raise _too_many(f"{self._in_all} streams are open already, half of the connections that there may be")
        if sum(of[0] == address for of in listening) >= self._of_address:
            raise _too_many(f"{address} has {self._of_address} streams already, half of its connections")
        if sum(of[1] == caller for of in listening) >= self._of_caller:
            raise _too_many(f"{caller} has {self._of_caller} streams already")
        stream = begin()
        self._of[stream] = address, caller
        return stream


def _too_many(detail: str) -> ApiError:
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too_many_streams", detail, {"Retry-After": "10"})


class _Connection:
    """A request that is answered with a stream; to Twisted the producer of its answer."""

    def __init__(self, request: Any, stream: Stream) -> None:
        self._request = request
        self._stream = stream
        self._looks = 0
        self._timer: Any = None
        self._gone = False

    def begin(self) -> None:
        request = self._request
        request.setHeader("content-type", "text/event-stream")
        request.setHeader("cache-control", "no-store")
        request.setHeader("x-content-type-options", "nosniff")
        request.setHeader("x-accel-buffering", "no")
        request.notifyFinish().addBoth(self._left)
        if request.method == b"HEAD":
            self._stream.end()
            request.finish()
            return
        request.registerProducer(self, True)  # noqa: FBT003 - it pauses and resumes
        request.write(b": iot-mqtt\n\n")
        self._stream.open(request.write, self._finish)
        self._look_later()

    def pauseProducing(self) -> None:
        self._stream.pause()

    def resumeProducing(self) -> None:
        self._stream.resume(self._request.write)

    def stopProducing(self) -> None:
        self._stream.pause()

    def _look_later(self) -> None:
        self._timer = self._request.channel.callLater(LOOK, self._look)

    def _look(self) -> None:
        self._looks += 1
        if self._looks * LOOK > LONGEST or not self._stream.allowed():
            self._stream.end()
            return
        if self._looks % BEAT == 0:
            # A sign of life waits behind nothing: a connection that takes nothing is seen by the system in time.
            self._stream.put(b": alive\n\n")
        self._look_later()

    def _finish(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if not self._gone:
            self._gone = True
            self._request.unregisterProducer()
            self._request.finish()

    def _left(self, _: object) -> None:
        self._gone = True
        self._stream.end()
        # Which knows its producer.
        self._request = None


def _nothing() -> None:
    """Nobody is there."""


def begin_stream(request: Any, stream: Stream) -> None:
    """Answer a request with what comes."""
    _Connection(request, stream).begin()
