"""A codec at work for one connection: what a ``Runner`` is told, and what it tells its ``Sink``.

::

    DeviceStage ──decode, encode, safe …──▶ Runner ──▶ Codec, in this process or in another one
    DeviceStage ◀──events, encoded, send …── Runner

The stage does not know where its codec runs. Results come in the order of the calls, in the reactor's thread; inline
they come before the call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from iot_mqtt.sdk import Command, Event, Framing


class Sink(Protocol):
    """Who a runner works for. After ``codec_failed`` it is told nothing more; after ``bad_frame`` only what
    ``welcome``, ``refuse`` and ``safe`` returned, or that they failed.
    """

    def events(self, events: list[Event]) -> None: ...

    def encoded(self, number: int, data: bytes) -> None: ...

    def not_encoded(self, number: int, reason: str) -> None: ...

    def send(self, data: bytes) -> None:
        """What ``welcome``, ``refuse`` or ``safe`` returned."""
        ...

    def bad_frame(self, reason: str, detail: str) -> None:
        """The gateway's fault: nothing more is decoded or encoded. Say what is safe and why it ends, and close."""
        ...

    def codec_failed(self, reason: str, detail: str = "") -> None:
        """The codec's fault, one of ``FAILURES``, and what there is to say of it: close."""
        ...

    def ready(self) -> None:
        """After ``decode`` said False: go on reading."""
        ...


class Runner(Protocol):
    """One codec object at work."""

    def opened(self) -> None: ...

    def decode(self, frames: list[bytes]) -> bool:
        """False: these were taken, but read no further until ``Sink.ready``."""
        ...

    def encode(self, command: Command) -> None: ...

    def welcome(self) -> None: ...

    def refuse(self, reason: str) -> None: ...

    def safe(self, token: int) -> None: ...

    def idle(self) -> None: ...

    def settle(self, then: Callable[[], None]) -> None:
        """``then`` is called once the sink heard what came of all calls before, or it is clear that it never will."""
        ...

    def close(self) -> None:
        """The connection is gone; the sink is told nothing more. May be called twice."""
        ...


class Clock(Protocol):
    """What is used of a reactor's clock."""

    def seconds(self) -> float: ...

    def callLater(self, delay: float, call: Callable[..., object], /, *arguments: object) -> Any: ...


#: Why a codec failed. A closed set: each is a label of a metric.
FAILURES = ("exception", "garbage", "slow", "timeout", "died", "quarantined", "held_off")


class NotAvailable(Exception):
    """A plugin takes no connections now. ``reason`` is a word for counters, ``detail`` a sentence for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Opened:
    """A codec for a new connection. It counts as a connection on its version until ``runner.close``."""

    __slots__ = ("runner", "framing", "codec_name", "version", "schema_version", "answers", "on_drain", "__weakref__")

    def __init__(
        self, runner: Runner, framing: Framing, codec_name: str, version: str, schema_version: int, *, answers: bool
    ) -> None:
        self.runner = runner
        self.framing = framing
        self.codec_name = codec_name
        self.version = version
        self.schema_version = schema_version
        #: Whether gateways answer commands.
        self.answers = answers
        #: Set by the stage: close gracefully, because the version is to be done with. Called once at most.
        self.on_drain: Callable[[], None] | None = None
