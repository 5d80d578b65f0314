"""Calls to one codec object, with all that it may do wrong turned into values. Used inline and in a worker.

A codec may raise anything, return anything, and return it lazily. What comes out here are checked events, bytes, or a
``Trouble``; whose fault it is stands in there.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from iot_mqtt.sdk import BadBatch, BadFrame, CannotEncode, Codec, Command, Event, Host
from iot_mqtt.sdk.checking import Checker, Garbage, check_bytes, check_encoded

#: What one hook may return, in events and in bytes.
MAX_EVENTS = 100_000
MAX_SAID = 8 * 1024 * 1024
_DETAIL = 400
_WORD = re.compile(r"[a-z0-9_]{1,32}")
#: Whatever a codec can raise. A signal raises nothing, neither in a node nor in a worker.
RAISED = BaseException


class Trouble(NamedTuple):
    """Why a call came to nothing. ``reason`` is a word, of ``encode`` a sentence without anything of the command;
    ``detail`` is for a person.
    """

    kind: Literal["bad_frame", "exception", "garbage"]
    reason: str
    detail: str


class Outcome(NamedTuple):
    """The events are good, even those before the trouble."""

    events: list[Event]
    trouble: Trouble | None
    #: Of the events in bytes, roughly.
    size: int = 0


class Calling:
    """The codec of one connection. ``opened`` comes first."""

    __slots__ = ("over", "_make", "_codec", "_checker")

    def __init__(
        self,
        codec: Callable[[Host[Any]], Codec],
        config: object,
        checker: Checker,
        *,
        peer: str,
        log: logging.Logger,
        count: Callable[[str, int], None],
        now: Callable[[], int] | None = None,
    ) -> None:
        self._make: Callable[[], Codec] = lambda: codec(
            Host(config, peer=peer, log=log, count=count, now=now or milliseconds)
        )
        self._codec: Codec
        self._checker = checker
        #: A frame was bad: nothing more is decoded or encoded, but what is safe and why it ends can be said.
        self.over = False

    def opened(self) -> Outcome:
        try:
            self._codec = self._make()
        except RAISED as error:
            return Outcome([], self._trouble(error, "__init__"))
        return self._events(self._codec.opened, "opened")

    def idle(self) -> Outcome:
        return self._events(self._codec.idle, "idle")

    def decode(self, frames: Sequence[bytes]) -> Outcome:
        trouble: Trouble | None = None
        try:
            events = self._codec.decode_many(frames)
        except BadBatch as bad:
            events, trouble = bad.events, self._trouble(bad.error, "decode")
        except RAISED as error:
            return Outcome([], self._trouble(error, "decode"))
        return self._checked(events, trouble, "decode_many")

    def encode(self, command: Command) -> bytes | CannotEncode | Trouble:
        try:
            return check_encoded(self._codec.encode(command))
        except CannotEncode as error:
            return error
        except Garbage as error:
            return Trouble("garbage", unencodable(str(error)), str(error))
        except RAISED as error:
            what = f"{type(error).__name__[:64]}{_place(error)}"
            return Trouble("exception", unencodable(what), f"encode: {told(error)}")

    def welcome(self) -> bytes | Trouble:
        return self._bytes(self._codec.welcome, "welcome")

    def refuse(self, reason: str) -> bytes | Trouble:
        return self._bytes(lambda: self._codec.refuse(reason), "refuse")

    def safe(self, token: int) -> bytes | Trouble:
        return self._bytes(lambda: self._codec.safe(token), "safe")

    def _events(self, hook: Callable[[], Iterable[Event]], name: str) -> Outcome:
        try:
            events = list(islice(hook(), MAX_EVENTS + 1))
        except RAISED as error:
            return Outcome([], self._trouble(error, name))
        return self._checked(events, None, name)

    def _checked(self, events: object, trouble: Trouble | None, name: str) -> Outcome:
        if type(events) is not list or len(events) > MAX_EVENTS:
            what = f"{len(events)} events" if type(events) is list else type(events).__name__
            return Outcome([], Trouble("garbage", "garbage", f"{name} returned {what}, not a list of {MAX_EVENTS}"))
        try:
            size = self._checker.check(events)
        except Garbage as error:
            return Outcome([], Trouble("garbage", "garbage", f"{name}: {error}"))
        if size > MAX_SAID:
            told = f"{name} returned events of {size} bytes together; {MAX_SAID} are allowed"
            return Outcome([], Trouble("garbage", "garbage", told))
        return Outcome(events, trouble, size)

    def _bytes(self, hook: Callable[[], bytes], name: str) -> bytes | Trouble:
        try:
            return check_bytes(hook(), name)
        except Garbage as error:
            return Trouble("garbage", "garbage", str(error))
        except RAISED as error:
            return self._trouble(error, name)

    def _trouble(self, error: BaseException, hook: str) -> Trouble:
        if isinstance(error, BadFrame) and not self.over:
            self.over = True
            return Trouble("bad_frame", word(error.reason), str(error.detail)[:_DETAIL])
        return Trouble("exception", "exception", f"{hook}: {told(error)}")


def told(error: BaseException) -> str:
    """An exception in one line, with the place it comes from."""
    try:
        text = str(error)
    except RAISED:  # even that is the plugin's code
        text = ""
    return f"{type(error).__name__}: {' '.join(text.split())[:_DETAIL]}{_place(error)}"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""


def unencodable(why: str) -> str:
    """What the sender of a command is told on which a codec failed."""
    return f"the gateway's codec fails on it: {why}"


def word(reason: object) -> str:
    """A reason as a label of a metric: of any length and form it is none."""
    found = _WORD.fullmatch(reason) if isinstance(reason, str) else None
    return found.group() if found else "other"


def milliseconds() -> int:
    return time.time_ns() // 1_000_000
