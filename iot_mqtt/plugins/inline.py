"""A codec in the broker's own process: fastest, and trusted not to stop it; what it raises and returns is checked.

Time is measured around each call. Nothing can interrupt a codec here, so one that took long is judged afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from iot_mqtt.plugins.calling import Calling, Outcome, Trouble
from iot_mqtt.plugins.running import Sink
from iot_mqtt.plugins.suspects import Peer
from iot_mqtt.sdk import CannotEncode, Command, Event


class Judge(Protocol):
    """Who hears of faults: the version that the codec belongs to."""

    def failed(self, runner: InlineRunner, kind: str, detail: str) -> object:
        """An exception or garbage."""
        ...

    def failed_to_encode(self, runner: InlineRunner, kind: str, detail: str) -> None:
        """Likewise, over a command: nothing that its gateway has done."""
        ...

    def took(self, runner: InlineRunner, seconds: float, frames: int) -> None:
        """A call was slow enough to be looked at."""
        ...

    def admits(self, runner: InlineRunner) -> bool:
        """Whether the gateway that logs in may."""
        ...

    def closed(self, runner: InlineRunner) -> None: ...


class InlineRunner(Peer):
    """``Runner`` that calls the codec. ``now`` is monotonic seconds."""

    __slots__ = ("_calling", "_sink", "_judge", "_slow", "_now", "_closed")

    def __init__(
        self, calling: Calling, sink: Sink, judge: Judge, *, peer: str, slow: float, now: Callable[[], float]
    ) -> None:
        super().__init__(peer)
        self._calling = calling
        self._sink = sink
        self._judge = judge
        self._slow = slow
        self._now = now
        self._closed = False

    def opened(self) -> None:
        self._run(self._calling.opened)

    def idle(self) -> None:
        self._run(self._calling.idle)

    def decode(self, frames: list[bytes]) -> bool:
        # Spelled out rather than run through _run: this is where the time goes.
        if self._closed or self._calling.over:
            return True
        begun = self._now()
        outcome = self._calling.decode(frames)
        took = self._now() - begun
        if took > self._slow:
            self._judge.took(self, took, len(frames))
        self._deliver(outcome)
        return True

    def encode(self, command: Command) -> None:
        if self._closed or self._calling.over:
            return
        begun = self._now()
        result = self._calling.encode(command)
        if not self._goes_on(begun):
            return
        if isinstance(result, Trouble):
            self._judge.failed_to_encode(self, result.kind, result.detail)
            self._sink.not_encoded(command.number, result.reason)
        elif isinstance(result, CannotEncode):
            self._sink.not_encoded(command.number, str(result))
        else:
            self._sink.encoded(command.number, result)

    def welcome(self) -> None:
        self.accepted = True
        self._send(self._calling.welcome)

    def refuse(self, reason: str) -> None:
        self._send(lambda: self._calling.refuse(reason))

    def safe(self, token: int) -> None:
        self._send(lambda: self._calling.safe(token))

    def settle(self, then: Callable[[], None]) -> None:
        then()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._judge.closed(self)

    def abort(self, reason: str) -> None:
        """The plugin is kept from work: this connection has to end."""
        if not self._closed:
            self.close()
            self._sink.codec_failed(reason)

    def _run(self, hook: Callable[[], Outcome]) -> None:
        if self._closed or self._calling.over:
            return
        begun = self._now()
        outcome = hook()
        self._goes_on(begun)
        self._deliver(outcome)

    def _send(self, hook: Callable[[], bytes | Trouble]) -> None:
        if self._closed:
            return
        begun = self._now()
        result = hook()
        if not self._goes_on(begun):
            return
        if isinstance(result, Trouble):
            self._fail(result)
        elif result:
            self._sink.send(result)

    def _goes_on(self, begun: float) -> bool:
        """Look at the time that a call took; False if the plugin was condemned for it."""
        took = self._now() - begun
        if took > self._slow:
            self._judge.took(self, took, 1)
        return not self._closed

    def _deliver(self, outcome: Outcome) -> None:
        # It may have been condemned for its slowness a moment ago; and the sink may close us in the midst of this.
        if outcome.events and not self._closed and (self.gateway or self._may_log_in(outcome.events)):
            self._sink.events(outcome.events)
        if outcome.trouble is not None and not self._closed:
            self._fail(outcome.trouble)

    def _may_log_in(self, events: list[Event]) -> bool:
        """Whether nobody logs in with these events who is held off."""
        if not self.logs_in(events) or self._judge.admits(self):
            return True
        self.abort("held_off")
        return False

    def _fail(self, trouble: Trouble) -> None:
        if trouble.kind == "bad_frame":
            self._sink.bad_frame(trouble.reason, trouble.detail)
        else:
            self.close()
            self._judge.failed(self, trouble.kind, trouble.detail)
            self._sink.codec_failed(trouble.kind, trouble.detail)
