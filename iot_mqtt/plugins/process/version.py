"""One version of a plugin in a worker process: started, started again after a while, or kept from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process.bridge import Reactor, WorkerProcess
from iot_mqtt.plugins.process.launch import confined
from iot_mqtt.plugins.process.runner import ProcessRunner
from iot_mqtt.plugins.process.worker import Hello, Worker
from iot_mqtt.plugins.running import NotAvailable, Opened, Sink
from iot_mqtt.plugins.versions import Common, Version
from iot_mqtt.sdk import Schema


class ProcessVersion(Version):
    """A version and its worker: one at a time, or none."""

    def __init__(self, place: Place, common: Common, reactor: Reactor) -> None:
        super().__init__(place, common)
        self._reactor = reactor
        self._worker: Worker | None = None
        self._process: WorkerProcess | None = None
        self._hello: Hello | None = None
        self._ready = False
        self._ready_at = 0.0
        self._then: Callable[[str | None], None] | None = None
        self._last = ""
        self._failures = 0
        self._timer: Any = None
        self.restarts = 0

    def _at_work(self) -> str:
        if self._ready:
            return "ready"
        return "restarting" if self._failures else "starting"

    def _trouble(self) -> str | None:
        return None if self._ready else self._last or None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def version(self) -> str:
        return self.place.version if self._hello is None else self._hello.version

    @property
    def schema(self) -> Schema | None:
        return None if self._hello is None else self._hello.schema

    def start(self, then: Callable[[str | None], None]) -> None:
        self._then = then
        self._begin()

    def _open(self, peer: str, sink: Sink) -> Opened:
        name, hello, worker = self._common.name, self._hello, self._worker
        if not self._ready or hello is None or worker is None:
            raise NotAvailable(self.state, f"the worker of {name} is {self.state}; {self._last or 'wait a moment'}")
        runner = worker.open(peer, sink)
        return Opened(runner, hello.framing, name, hello.version, hello.schema.version, answers=hello.answers)

    def stop(self) -> None:
        self._retired = True
        self._cancel()
        worker, self._worker, self._process = self._worker, None, None
        if worker is not None:
            for runner in worker.runners:
                runner.close()
            worker.kill()

    # ``worker.Owner``.

    def confined(self, missing: dict[str, str]) -> None:
        if missing and missing != self.unconfined:
            told = "; ".join(f"{step}: {why}" for step, why in missing.items())
            self._common.quiet.say(logging.WARNING, "the sandbox of %s is not whole: %s", self.place.label, told)
        self.unconfined = missing

    def started(self, hello: Hello) -> None:
        if self._hello is not None and hello != self._hello:
            self._common.quiet.say(logging.WARNING, "%s declares other things than before", self.place.label)
        self._hello = hello
        self._ready = True
        self._ready_at = self._common.clock.seconds()
        self._answer(None)

    def refused(self, reason: str) -> None:
        self._refused = reason
        self._worker = self._process = None
        self._answer(reason)

    def gone(self, kind: str, detail: str, culprit: ProcessRunner | None = None) -> None:
        limits, now = self._common.limits, self._common.clock.seconds()
        if self._ready and now - self._ready_at > limits.window:
            self._failures = 0
        self._worker = self._process = None
        self._ready = False
        self._last = detail
        # Whoever caused it is held off, so that the others need not wait for longer each time.
        suspect = None if culprit is None else culprit.suspect
        self._failures = self._failures + 1 if suspect is None else 1
        self._common.faulty(kind)
        if suspect is not None:
            detail = f"{detail}, on a frame of {suspect}"
        self._common.quiet.say(logging.ERROR, "%s %s: %s", kind, self.place.label, detail)
        self.conduct.grave(kind, detail, suspect)
        wait = self.conduct.remaining or min(limits.backoff_most, limits.backoff * 2.0 ** min(self._failures - 1, 20))
        self._cancel()
        if not self._retired:
            self._timer = self._common.clock.callLater(wait, self._again)
        self._answer(detail)

    def took(self, runner: ProcessRunner, seconds: float) -> None:
        limits = self._common.limits
        stalled = seconds >= limits.stall
        self.conduct.took(seconds, stalled=stalled)
        detail = f"a call took {seconds:.2f} s, in which all others of the plugin had to wait"
        if stalled and self.failed(runner, "slow", detail) and runner.open:
            runner.close()
            runner.sink.codec_failed("slow")

    def _begin(self) -> None:
        limits = self._common.limits

        def launch(worker: Worker) -> WorkerProcess:
            self._process = WorkerProcess(self._reactor, confined(limits), worker)
            return self._process

        common = self._common
        try:
            self._worker = Worker(common.clock, launch, self, limits, counts=common.counts, output=common.output)
        except OSError as error:  # no process, no memory, no descriptors
            self.gone("died", f"its worker could not be started: {error}")
            return
        try:
            self._worker.start(self.place, common.config, common.sandbox)
        except (TypeError, ValueError) as error:  # YAML knows more than JSON: dates, for one
            self._worker.kill()
            self.refused(f"its configuration cannot be given to a worker: {error}")

    def _again(self) -> None:
        self._timer = None
        self.restarts += 1
        self._begin()

    def _answer(self, reason: str | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(reason)

    def _keep_from_work(self) -> None:
        worker, self._worker, self._process = self._worker, None, None
        if worker is None:  # it is gone already: that is what the quarantine is for
            return
        self._ready = False
        runners = worker.runners
        for runner in runners:
            runner.close()
        worker.kill()
        for runner in runners:
            runner.sink.codec_failed("quarantined")
        self._cancel()
        self._timer = self._common.clock.callLater(self.conduct.remaining, self._again)

    def _end(self) -> bool:
        self._cancel()
        worker, self._worker, self._process = self._worker, None, None
        self._ready = False
        if worker is not None:
            worker.finish()
        return True

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
