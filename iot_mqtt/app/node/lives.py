"""The process of a node: signals, and one life after the other.

A sole node has one life. A node of a cluster that was declared dead (it was paused, or cut off) has nothing that is
still true: it lets its clients go, refuses new ones with a reason, and begins a new life, at the same ports, as soon as
the cluster lets it in.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.internet.process import reapAllProcesses
from twisted.internet.task import LoopingCall, deferLater
from twisted.python.failure import Failure

from iot_mqtt import __version__
from iot_mqtt.app.config.effects import notes
from iot_mqtt.app.config.private_files import narrow, set_umask
from iot_mqtt.app.config.reading import LoadedConfig, Reread
from iot_mqtt.app.config.sections import Config, LogConfig
from iot_mqtt.app.data_format import FormatRefused, prepare
from iot_mqtt.app.data_lock import holding
from iot_mqtt.app.form import form
from iot_mqtt.app.logging import configure_logging, reopen_log
from iot_mqtt.app.node.notifying import Notifier
from iot_mqtt.app.node.service import Service
from iot_mqtt.grid.disk import left_on
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.pipeline.descriptors import raise_limit
from iot_mqtt.pipeline.reactor import install

log = logging.getLogger(__name__)

#: Seconds after which the reactor gives the interpreter to a waiting thread. Python's 5 ms would be most of a
#: commit's time: the grid's thread needs it between its two system calls.
SWITCH_INTERVAL = 0.0005
#: Seconds between two attempts to begin a new life.
AGAIN_SECONDS = 1.0


class Lives:
    """The lives of one node."""

    def __init__(
        self,
        config: Config,
        reactor: Any,
        failed: Callable[[Failure], None],
        reread: Reread | None = None,
        loaded: LoadedConfig | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._config = config
        self._loaded = loaded
        self._notifier = notifier or Notifier()
        self._reread = reread
        self._reactor = reactor
        self._failed = failed
        #: The life that serves, or the last one that did: its ports refuse clients until the next one takes them.
        self._service: Service | None = None
        #: The life that begins in its place.
        self._beginning: Service | None = None
        self._stopping = False

    def begin(self) -> None:
        """The first life; if it cannot begin, the process ends."""
        try:
            service = self._service = self._life(self._config, self._loaded)
        except Exception:  # noqa: BLE001 - every failure to start ends in one line and exit code 1
            self._failed(Failure())
            return
        started: Deferred[str] = ensureDeferred(service.start())
        started.addCallback(self._say_ready).addCallbacks(lambda _: self._say_first_password(service), self._not_begun)

    def _not_begun(self, failure: Failure) -> None:
        """It could not; or it was stopped meanwhile, and what it waited for was given up: that is no failure."""
        if self._stopping:
            log.debug("stopped while it started", exc_info=failure.value)
        else:
            self._failed(failure)

    def _say_ready(self, line: str) -> None:
        print(line, flush=True)  # the contract's one line on standard output
        self._notifier.ready(line)
        if self._notifier.period:
            loop = LoopingCall(self._notifier.alive)
            loop.clock = self._reactor
            loop.start(self._notifier.period / 2)

    def _say_first_password(self, service: Service) -> None:
        stream = terminal(self._config.log)
        making: Deferred[str | None] = ensureDeferred(service.first_password())
        making.addCallback(partial(say_first_password, stream))
        making.addErrback(lambda failure: log.warning("no first admin user: %s", failure.getErrorMessage()))

    def _life(self, config: Config, loaded: LoadedConfig | None) -> Service:
        return Service(config, self._reactor, self._over, loaded, self._reread)

    def _over(self, reason: str) -> None:
        if not self._stopping:
            log.error("this life of the node is over: %s; beginning a new one", reason)
            self._notifier.status(f"not part of the cluster: {reason}")
            ensureDeferred(self._again()).addErrback(self._not_begun)

    async def _again(self) -> None:
        before = self._service
        assert before is not None
        config, loaded = at_ports(before.live.config, before.ports), before.configuration.loaded
        await before.abandon()
        while not self._stopping and not await self._begin_after(before, config, loaded):
            await deferLater(self._reactor, AGAIN_SECONDS)

    async def _begin_after(self, before: Service, config: Config, loaded: LoadedConfig | None) -> bool:
        """False: it could not, and is to be tried again."""
        service = self._beginning = self._life(config, loaded)
        try:
            await service.start(before.release_ports)
        except Exception as error:  # noqa: BLE001 - whatever it is, a node of a cluster tries again
            if self._stopping:
                return True
            log.warning("a new life cannot begin yet: %s", error)
            await service.abandon()
            await service.release_ports()
            self._beginning = None
            return False
        self._service, self._beginning = service, None
        log.warning("the node is part of the cluster again")
        self._notifier.status("part of the cluster again")
        return True

    def look_again(self) -> None:
        """SIGHUP: the log file is opened anew, and the files that may have changed are read again."""
        reopen_log()
        if self._service is not None and not self._stopping:
            self._notifier.reloading()
            self._service.look_again()
            self._notifier.reloaded()

    def signalled(self, number: int) -> None:
        """The process was told to end."""
        patience = max((life.patience for life in self._lives), default=0.0)
        log.info("%s: the node stops, within %g s", signal.Signals(number).name, patience)
        self._reactor.stop()

    @property
    def _lives(self) -> list[Service]:
        return [life for life in (self._service, self._beginning) if life is not None]

    def stop(self) -> Deferred[None] | None:
        """The process is to end."""
        self._stopping = True
        self._notifier.stopping()
        lives = self._lives
        return gatherResults(map(_stop, lives)).addCallback(lambda _: None) if lives else None


def _stop(life: Service) -> Deferred[None]:
    stopping: Deferred[None] = ensureDeferred(life.stop())
    return stopping.addErrback(lambda failure: log.error("stopping failed", exc_info=failure.value))


def at_ports(config: Config, ports: dict[str, int]) -> Config:
    """The configuration with the ports that were bound in the places of those that were asked for."""
    listeners = {
        name: replace(listener, port=ports.get(f"listeners.{name}", listener.port))
        for name, listener in config.listeners.items()
    }
    admin = replace(config.admin, port=ports.get("admin", config.admin.port))
    return replace(config, listeners=listeners, admin=admin)


def run(loaded: LoadedConfig, reread: Reread) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. ``reread`` reads the configuration again."""
    node = loaded.config.node
    set_umask(loaded.config)
    try:
        with holding(Path(node.data_dir), f"node {node.id}"):
            return _serve(loaded, reread)
    except OpenFault as error:
        return _refused(str(error))


def _serve(loaded: LoadedConfig, reread: Reread) -> int:
    """Nobody else is in the data directory."""
    config = loaded.config
    told = narrow(config)
    try:
        configure_logging(config.log)
    except OSError as error:
        return _refused(f"log.file: {config.log.file} cannot be opened: {(error.strerror or str(error)).lower()}")
    log.info("iot-mqtt %s runs %s", __version__, form())
    for line in told:
        log.warning("%s", line)
    for note in notes(loaded):
        log.info("%s", note)
    try:
        prepare(Path(config.node.data_dir))
    except FormatRefused as error:
        return _refused(str(error))
    sys.setswitchinterval(SWITCH_INTERVAL)
    raise_limit()
    reactor: Any = install()
    exit_codes = [0]

    def failed(failure: Failure) -> None:
        exit_codes[0] = _refused(reason(failure))
        log.debug("start failed", exc_info=failure.value)
        if reactor.running:
            reactor.stop()

    lives = Lives(config, reactor, failed, reread, loaded, Notifier.of(os.environ))
    reactor.addSystemEventTrigger("before", "shutdown", lives.stop)
    reactor.callWhenRunning(lives.begin)
    _stop_on_signals(reactor, lives)
    _look_again_on_hangup(reactor, lives)
    _reap_children(reactor)
    reactor.run(installSignalHandlers=False)
    return exit_codes[0]


def reason(failure: Failure) -> str:
    """Why a node did not start, for people."""
    error = failure.value
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}{_left(error)}"
    return failure.getErrorMessage()


def _left(error: OSError) -> str:
    """Of bytes and of inodes, where there is no space: one of them ran out."""
    if error.errno == errno.ENOSPC:
        with suppress(OSError):
            return f"; {left_on(Path(error.filename).parent)}"
    return ""


def _refused(why: str) -> int:
    """One line and the exit code of a node that did not start."""
    print(f"iot-mqtt: {why}", file=sys.stderr, flush=True)
    return 1


def terminal(config: LogConfig) -> TextIO:
    """Where people read and no log is: standard error, unless that is what collects JSON."""
    return sys.stdout if config.format == "json" and config.file is None else sys.stderr


def say_first_password(stream: TextIO, password: str | None) -> None:
    """This once: nothing keeps it."""
    if password is not None:
        text = (
            "the admin port's first user is `admin`, the password (shown this once, to be changed at the first login)"
        )
        print(f"iot-mqtt: {text}: {password}", file=stream, flush=True)


def _stop_on_signals(reactor: Any, lives: Lives) -> None:
    """SIGTERM and SIGINT stop the node once; impatient repetitions change nothing (SIGKILL is safe, too)."""
    stopping = [False]

    def stop(number: int, _frame: object) -> None:
        if not stopping[0]:
            stopping[0] = True
            reactor.callFromThread(lives.signalled, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _look_again_on_hangup(reactor: Any, lives: Lives) -> None:
    """SIGHUP ends nothing: daemons read their files again when they get one, and so does a node."""
    signal.signal(signal.SIGHUP, lambda _number, _frame: reactor.callFromThread(lives.look_again))


def _reap_children(reactor: Any) -> None:
    """Hear of every child that ends (codecs' workers, pip). Without this Twisted looks once, when the child's pipes
    are closed, and waits for ever if it ends a moment later.
    """
    signal.signal(signal.SIGCHLD, lambda _number, _frame: reactor.callFromThread(reapAllProcesses))
