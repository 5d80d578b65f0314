"""One worker process as the broker sees it: operations sent, answers checked, and the watchdog over both.

Whatever the process says that is not an answer to what it was asked ends it. Bytes of frames that it has not answered
for are counted; a connection, or all of them, wait while there are too many, and with them their gateways' TCP.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from iot_mqtt.framing import BadFraming, Framing, framing_from
from iot_mqtt.plugins.calling import MAX_EVENTS, unencodable, word
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process import wire
from iot_mqtt.plugins.process.bridge import WorkerProcess
from iot_mqtt.plugins.process.runner import ProcessRunner
from iot_mqtt.plugins.running import Clock, Sink
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.telling import Counts, Quiet, logger_of
from iot_mqtt.sdk import Event, Schema
from iot_mqtt.sdk.checking import Checker, Garbage

log = logging.getLogger(__name__)

_TICK = 0.1
#: Instead of a size: the connection's last operation.
_LAST = -1


class Hello(NamedTuple):
    """What a worker says of its plugin."""

    framing: Framing
    version: str
    schema: Schema
    answers: bool


class Owner(Protocol):
    """Who hears what becomes of a worker."""

    def confined(self, missing: dict[str, str]) -> None:
        """What of its sandbox this host can't enforce, and why; called once, before anything of the plugin runs."""
        ...

    def started(self, hello: Hello) -> None: ...

    def refused(self, reason: str) -> None:
        """The plugin does not fit; the worker is gone."""
        ...

    def gone(self, kind: str, detail: str, culprit: ProcessRunner | None) -> None:
        """It died or was killed, perhaps by a frame of ``culprit``; its runners still have to be told."""
        ...

    def admits(self, runner: ProcessRunner) -> bool:
        """Whether the gateway that logs in may."""
        ...

    def took(self, runner: ProcessRunner, seconds: float) -> None:
        """An operation took long enough to be looked at."""
        ...

    def failed(self, runner: ProcessRunner, kind: str, detail: str) -> bool:
        """The codec of one connection failed; whether its gateway is held off for that."""
        ...

    def failed_to_encode(self, runner: ProcessRunner, kind: str, detail: str) -> None:
        """Likewise, over a command: nothing that its gateway has done."""
        ...

    def closed(self, runner: ProcessRunner) -> None: ...


class Worker:
    """A worker from its start to its end."""

    def __init__(
        self,
        clock: Clock,
        launch: Callable[[Worker], WorkerProcess],
        owner: Owner,
        limits: Limits,
        *,
        counts: Counts,
        output: Quiet,
    ) -> None:
        self._clock = clock
        self._owner = owner
        self._limits = limits
        self._counts = counts
        self._output = output
        self._checker = Checker()
        self._rest = b""
        #: Of each unanswered operation: when it was sent, its connection and how many bytes of frames it holds.
        self._asked: deque[tuple[float, int, int]] = deque()
        self._answered = 0
        #: How many operations have to be answered, since when that is waited for, and what is to be called then.
        self._settling: deque[tuple[int, float, Callable[[], None]]] = deque()
        self._progress = clock.seconds()
        self._overdue = False
        self._hello: Hello | None = None
        self._confined = False
        self._numbers = 0
        self._runners: dict[int, ProcessRunner] = {}
        #: Closed here, but there may still be answers on their way.
        self._closing: dict[int, ProcessRunner] = {}
        self._in_flight = 0
        #: Connections that may have one frame under way, and have it.
        self._single: set[int] = set()
        self._paused: list[ProcessRunner] = []
        self._alive = True
        self.frames = 0
        self._link = launch(self)
        self._timer = clock.callLater(_TICK, self._watch)

    def start(self, place: Place, config: Mapping[str, object], sandbox: str) -> None:
        level = logger_of(place.name).getEffectiveLevel()
        order = {"place": place.as_json(), "config": dict(config), "level": level, "sandbox": sandbox}
        self._send(wire.operation(wire.START, 0, json.dumps(order).encode()), 0, 0)

    @property
    def runners(self) -> list[ProcessRunner]:
        return list(self._runners.values())

    def open(self, peer: str, sink: Sink) -> ProcessRunner:
        self._numbers += 1
        runner = ProcessRunner(self, self._numbers, peer, sink)
        self._runners[runner.number] = runner
        return runner

    def finish(self) -> None:
        """There are no connections on it any more, and there will be none."""
        self._end()
        self._link.finish()

    def kill(self) -> None:
        self._end()
        self._link.kill()

    # For runners.

    def ask(self, kind: int, runner: ProcessRunner, payload: bytes = b"") -> None:
        self._send(wire.operation(kind, runner.number, payload), runner.number, 0)

    def decode(self, runner: ProcessRunner, frames: list[bytes]) -> bool:
        self.frames += len(frames)
        size = sum(map(len, frames))
        runner.in_flight += size
        self._in_flight += size
        if runner.accepted:
            self.send(runner, frames)
        else:
            runner.waiting.extend(frames)
            if runner.number not in self._single:
                self._next(runner)
        full = runner.in_flight > self._limits.connection_bytes or self._in_flight > self._limits.worker_bytes
        if full and not runner.paused:
            runner.paused = True
            self._paused.append(runner)
        return not full

    def send(self, runner: ProcessRunner, frames: list[bytes]) -> None:
        """Frames that are counted already."""
        for data, size in wire.decodes(runner.number, frames):
            self._send(data, runner.number, size)

    def _next(self, runner: ProcessRunner) -> None:
        """One frame of a gateway that was not let in yet; none behind its login."""
        self._single.discard(runner.number)
        if runner.waiting and runner.open and not runner.gateway:
            self._single.add(runner.number)
            self.send(runner, [runner.waiting.popleft()])

    def settle(self, then: Callable[[], None]) -> None:
        if not self._asked:
            then()
            return
        self._settling.append((self._answered + len(self._asked), self._clock.seconds(), then))

    def close(self, runner: ProcessRunner) -> None:
        if self._runners.pop(runner.number, None) is None:
            return
        if runner.paused:
            self._paused.remove(runner)
        self._in_flight -= sum(map(len, runner.waiting))
        runner.waiting.clear()
        self._single.discard(runner.number)
        if self._alive and runner.begun:
            self._closing[runner.number] = runner
            self._send(wire.operation(wire.CLOSE, runner.number), runner.number, _LAST)
        self._owner.closed(runner)

    # ``bridge.Told``.

    def received(self, data: bytes) -> None:
        self._rest = self._rest + data if self._rest else data
        buffer, at, end = self._rest, 0, len(self._rest)
        try:
            while end - at >= wire.LENGTH.size and self._alive:
                (length,) = wire.LENGTH.unpack_from(buffer, at)
                if length > wire.MAX_ANSWER:
                    raise wire.Garbled(f"an answer of {length} bytes")
                stop = at + wire.LENGTH.size + length
                if stop > end:
                    break
                self._take(buffer[at + wire.LENGTH.size : stop])
                at = stop
        except (wire.Garbled, Garbage) as error:
            self._lose("garbage", f"its worker sent garbage: {error}")
            return
        self._rest = buffer[at:] if self._alive else b""

    def line(self, text: str) -> None:
        level, said = wire.level_of(text)
        self._output.say(level, "%s", said)

    def ended(self, how: str) -> None:
        self._lose("died", f"its worker ended: {how}")

    # Answers.

    def _take(self, body: bytes) -> None:
        done, results = wire.read_answer(body)
        for result in results:
            if self._alive:
                self._result(*result)
        if not self._alive or not done:
            return
        self._acknowledge(done)
        self._settle()
        self._resume()

    def _acknowledge(self, done: int) -> None:
        if done < self._answered or done - self._answered > len(self._asked):
            raise wire.Garbled(f"it says that {done} operations are done")
        if done == self._answered:
            return
        self._progress = self._clock.seconds()
        self._overdue = False
        for _ in range(done - self._answered):
            _, number, size = self._asked.popleft()
            if size > 0:
                self._in_flight -= size
                runner = self._runners.get(number)
                if runner is not None:
                    runner.in_flight -= size
                    if number in self._single:
                        self._next(runner)
            elif size == _LAST:
                self._closing.pop(number, None)
        self._answered = done

    def _result(self, number: int, kind: str, *rest: Any) -> None:
        if number == 0:
            self._of_worker(kind, rest)
            return
        runner = self._runners.get(number)
        if kind == "took":
            self._took(runner or self._closing.get(number), rest)
            return
        if runner is None:
            if number not in self._closing:
                raise wire.Garbled(f"there is no connection {number}")
            return
        match kind, rest:
            case (("events" | "part"), (packed,)) if not runner.over:
                self._events(runner, packed, more=kind == "part")
            case "encoded", (int(command), str(data)) if command in runner.encoding:
                runner.encoding.discard(command)
                self._tell(runner, runner.sink.encoded, command, _bytes(data))
            case "not_encoded", (int(command), str(reason)) if command in runner.encoding:
                runner.encoding.discard(command)
                self._tell(runner, runner.sink.not_encoded, command, reason)
            case "encode_failed", (
                int(command),
                ("exception" | "garbage") as fault,
                str(reason),
                str(detail),
            ) if command in runner.encoding:
                runner.encoding.discard(command)
                self._owner.failed_to_encode(runner, fault, detail)
                self._tell(runner, runner.sink.not_encoded, command, reason)
            case "send", (str(data),):
                self._tell(runner, runner.sink.send, _bytes(data))
            case "bad_frame", (str(reason), str(detail)) if not runner.over:
                runner.over = True
                self._tell(runner, runner.sink.bad_frame, word(reason), detail)
            case (("exception" | "garbage"), (str(), str(detail))):
                runner.close()
                self._owner.failed(runner, kind, detail)
                runner.sink.codec_failed(kind, detail)
            case _:
                raise wire.Garbled("a result of no known kind")

    def _events(self, runner: ProcessRunner, packed: Any, *, more: bool) -> None:
        """What a codec has said at once; ``more``: the rest of it is still on its way."""
        events = wire.unpack_events(packed)
        self._checker.check(events)
        runner.heard += events
        if len(runner.heard) > MAX_EVENTS:
            raise wire.Garbled(f"more than {MAX_EVENTS} events at once")
        if more:
            return
        events, runner.heard = runner.heard, []
        if runner.gateway or self._may_log_in(runner, events):
            self._tell(runner, runner.sink.events, events)

    def _may_log_in(self, runner: ProcessRunner, events: list[Event]) -> bool:
        """Whether nobody logs in with these events who is held off."""
        if not runner.logs_in(events) or self._owner.admits(runner):
            return True
        runner.close()
        runner.sink.codec_failed("held_off")
        return False

    def _took(self, runner: ProcessRunner | None, rest: tuple[Any, ...]) -> None:
        if len(rest) != 1 or type(rest[0]) is not float:
            raise wire.Garbled("a time that is none")
        if runner is not None:
            self._owner.took(runner, rest[0])

    @staticmethod
    def _tell(runner: ProcessRunner, call: Callable[..., None], *arguments: object) -> None:
        """What goes wrong behind a sink is no fault of the worker, nor of its other connections."""
        try:
            call(*arguments)
        except Exception:
            log.exception("what a codec said could not be dealt with; its connection is closed")
            if runner.open:
                runner.close()
                runner.sink.codec_failed("died")

    def _culprit(self, kind: str) -> tuple[ProcessRunner | None, int]:
        """On whose operation the worker died or stopped; who wrote garbage may have finished since. And the command
        that it was over, 0: none.
        """
        number, busy, command = self._link.busy_with()
        if not busy and kind != "garbage":
            return None, 0
        return self._runners.get(number) or self._closing.get(number), command

    def _of_worker(self, kind: str, rest: tuple[Any, ...]) -> None:
        match kind, rest:
            case "counts", (dict(counts),):
                for name, count in counts.items():
                    self._counts.count(name, count)
            case "confined", (dict(missing),) if not self._confined:
                self._confined = True
                self._owner.confined({str(step)[:16]: str(why)[:200] for step, why in list(missing.items())[:8]})
            case "refused", (str(reason),) if self._hello is None:
                self.kill()
                self._owner.refused(reason[:2000])
            case (
                "hello",
                ({"framing": dict(framing), "version": str(version), "schema": schema, "answers": bool(answers)},),
            ) if self._hello is None:
                try:
                    self._hello = Hello(framing_from(framing), version[:64], wire.unpack_schema(schema), answers)
                except BadFraming as error:
                    raise wire.Garbled(f"a framing that is none: {error}") from error
                self._owner.started(self._hello)
            case _:
                raise wire.Garbled("a result of no known kind")

    def _settle(self) -> None:
        """Nobody waits longer than an answer may take: a busy worker may have much to do before."""
        late = self._clock.seconds() - self._limits.answer_within
        while self._settling and (self._settling[0][0] <= self._answered or self._settling[0][1] < late):
            self._settling.popleft()[2]()

    def _resume(self) -> None:
        if not self._paused or self._in_flight > self._limits.worker_bytes // 2:
            return
        half = self._limits.connection_bytes // 2
        ready = [runner for runner in self._paused if runner.in_flight <= half]
        if ready:
            self._paused = [runner for runner in self._paused if runner.in_flight > half]
        for runner in ready:
            runner.paused = False
        for runner in ready:
            if runner.open:
                runner.sink.ready()

    # The end.

    def _send(self, data: bytes, number: int, size: int) -> None:
        if self._alive:
            if not self._asked:
                self._progress = self._clock.seconds()
            self._asked.append((self._clock.seconds(), number, size))
            self._link.write(data)

    def _watch(self) -> None:
        """Looks twice before it kills: an answer may be there that the reactor had no time to read."""
        limits = self._limits
        within = limits.start_within if self._hello is None else limits.answer_within
        late = self._asked and self._clock.seconds() - max(self._progress, self._asked[0][0]) > within
        if late and self._overdue:
            self._lose("timeout", f"its worker did not answer within {within:g} s")
            return
        self._overdue = bool(late)
        self._settle()
        if not self._alive:
            return
        self._timer = self._clock.callLater(_TICK, self._watch)

    def _lose(self, kind: str, detail: str) -> None:
        if not self._alive:
            return
        culprit, command = self._culprit(kind)
        self.kill()
        if culprit is not None and culprit.open and command in culprit.encoding:
            # Or its next connection gets the command again, and the worker with it.
            self._tell(culprit, culprit.sink.not_encoded, command, unencodable(detail))
        runners, self._runners = list(self._runners.values()), {}
        self._paused = []
        self._owner.gone(kind, detail, culprit)
        for runner in runners:
            if runner.open:
                runner.open = False
                self._owner.closed(runner)
                runner.sink.codec_failed(kind, detail)

    def _end(self) -> None:
        self._alive = False
        self._asked.clear()
        if self._timer.active():
            self._timer.cancel()
        while self._settling:
            self._settling.popleft()[2]()


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise wire.Garbled("bytes that are none") from error
