"""The one place where child processes cross into the reactor: their sockets, their last words and their ends.

    reactor                                            child process
    write ──▶ socket pair ─────────────────────────▶   reads
    Told.received, line, ended ◀── socket, stderr, exit

Nothing here waits: a process that starts is a process whose answer has not come yet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import Factory, ProcessProtocol
from twisted.internet.protocol import Protocol as StreamProtocol
from twisted.python.failure import Failure

from iot_mqtt.plugins.process import wire
from iot_mqtt.plugins.process.launch import command, environment, make_mark

#: Twisted's reactor; its interfaces are too many to name.
Reactor = Any

_LINE = 400
#: Of what a worker writes at once, more is not looked at.
_WORDS = 4096
#: Seconds in which a worker whose socket is closed should end, so that it can be said how it did.
_GRACE = 0.3
#: Seconds in which a worker that is not needed any more should end.
_PATIENCE = 2.0
_SOCKET, _MARK = 3, 4


class Told(Protocol):
    """Who uses a worker process."""

    def received(self, data: bytes) -> None: ...

    def line(self, text: str) -> None:
        """A line that it wrote to its standard output or error."""
        ...

    def ended(self, how: str) -> None:
        """Called once, when the process or its socket is gone."""
        ...


class WorkerProcess:
    """A worker from its start to its end."""

    def __init__(self, reactor: Reactor, limits: Mapping[str, int | float], told: Told) -> None:
        self._told: Told | None = told
        self._reactor = reactor
        self._last_call: Any = None
        self._lines = _Lines()
        self._process: Any = None
        self._link: Any = None
        self._ending = ""
        with contextlib.ExitStack() as passed:
            ours, theirs = map(passed.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
            null = os.open(os.devnull, os.O_RDWR)
            passed.callback(os.close, null)
            #: Read, never mapped: whoever has memory mapped that its other owner cuts is killed by looking at it.
            #: Closed as soon as ``ended`` will not be called any more: nobody asks then.
            self._mark: int | None = make_mark()
            try:
                self._start(ours, limits, {0: null, 1: "r", 2: "r", _SOCKET: theirs.fileno(), _MARK: self._mark})
            except OSError:
                self.kill()
                raise

    def _start(self, ours: socket.socket, limits: Mapping[str, int | float], descriptors: dict[int, int | str]) -> None:
        ours.setblocking(False)  # noqa: FBT003 - the name of the argument is no keyword
        arguments = command(_SOCKET, _MARK, limits)
        self._process = self._reactor.spawnProcess(
            _Process(self), arguments[0], arguments, env=environment(), childFDs=descriptors
        )
        self._reactor.adoptStreamConnection(ours.fileno(), socket.AF_UNIX, Factory.forProtocol(lambda: _Link(self)))

    @property
    def pid(self) -> int | None:
        """None: it has ended."""
        pid: int | None = self._process.pid
        return pid

    def busy_with(self) -> tuple[int, bool, int]:
        """The connection that it is dealing with, or that it dealt with last, whether it is, and the command that it
        encodes, 0: none. Not to be asked after ``finish`` or ``kill``.
        """
        assert self._mark is not None
        size = wire.MARK.size
        connection, busy, command = wire.MARK.unpack(os.pread(self._mark, size, 0).ljust(size, b"\0"))
        return connection, bool(busy), command

    def write(self, data: bytes) -> None:
        if self._link is not None:
            self._link.write(data)

    def finish(self) -> None:
        """Let it end by itself, soon: there is nothing more for it. ``ended`` is not called any more."""
        self._leave()
        if self._link is not None:
            self._link.loseConnection()
        self._last_call = self._reactor.callLater(_PATIENCE, self.kill)

    def kill(self) -> None:
        """``ended`` is not called any more."""
        self._leave()
        if self._process is not None:
            with contextlib.suppress(ProcessExitedAlready):
                self._process.signalProcess("KILL")
        if self._link is not None:
            self._link.abortConnection()

    def _leave(self) -> None:
        self._told = None
        mark, self._mark = self._mark, None
        if mark is not None:
            os.close(mark)

    # Called by the two protocols.

    def linked(self, transport: Any) -> None:
        self._link = transport

    def arrived(self, data: bytes) -> None:
        if self._told is not None:
            self._told.received(data)

    def wrote(self, data: bytes) -> None:
        for line in self._lines.feed(data[:_WORDS]):
            if self._told is not None:
                self._told.line(line)

    def unlinked(self) -> None:
        """All that it said has been read."""
        self._link = None
        if self._ending:
            self.over(self._ending)
        elif self._told is not None:
            self._reactor.callLater(_GRACE, self.over, "it closed its socket")

    def exited(self, how: str) -> None:
        """What it said last may still be in its socket."""
        if self._link is None or self._told is None:
            self.over(how)
        else:
            self._ending = how
            self._reactor.callLater(_GRACE, self.over, how)

    def over(self, how: str) -> None:
        last_call, self._last_call = self._last_call, None
        if last_call is not None and last_call.active():
            last_call.cancel()
        told, self._told = self._told, None
        if told is not None:
            told.ended(how)
            self.kill()


class _Link(StreamProtocol):
    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def connectionMade(self) -> None:
        self._worker.linked(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self._worker.arrived(data)

    def connectionLost(self, reason: Failure = Failure(Exception())) -> None:  # noqa: B008
        self._worker.unlinked()


class _Process(ProcessProtocol):
    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        self._worker.wrote(data)

    def processExited(self, reason: Failure) -> None:
        self._worker.exited(_how(reason.value))


class _Lines:
    """Bytes as lines, long ones cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Those that are whole by now, without the empty ones."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LINE]
        texts = (line[:_LINE].decode("utf-8", "replace").strip() for line in lines)
        return [text for text in texts if text]


def _how(value: Any) -> str:
    if getattr(value, "signal", None):
        return f"signal {signal.Signals(value.signal).name}"
    return f"exit code {getattr(value, 'exitCode', '?')}"


class CommandFailed(Exception):
    """A program did not succeed; the text is the end of what it wrote."""


_TAIL = 16 * 1024


class _Command(ProcessProtocol):
    def __init__(self, done: Deferred[str]) -> None:
        self.done = done
        self.told = b""
        self.late = False

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        self.told = (self.told + data)[-_TAIL:]

    def processEnded(self, reason: Failure) -> None:
        text = self.told.decode("utf-8", "replace").strip()
        if getattr(reason.value, "exitCode", 1) == 0:
            self.done.callback(text)
        else:
            self.done.errback(CommandFailed(f"{'it took too long' if self.late else _how(reason.value)}: {text}"))


def run_command(
    reactor: Reactor, arguments: Sequence[str], folder: Path, within: float, known: Mapping[str, str] | None = None
) -> Deferred[str]:
    """Run a program to its end; answers with the end of what it wrote, or fails with ``CommandFailed``. ``known``: its
    environment, if it is not to have ours.
    """
    running = _Command(Deferred())
    surroundings = {**os.environ, "PIP_NO_INPUT": "1"} if known is None else dict(known)
    process: Any = reactor.spawnProcess(running, arguments[0], list(arguments), env=surroundings, path=str(folder))

    def stop() -> None:
        running.late = True
        with contextlib.suppress(ProcessExitedAlready):
            process.signalProcess("KILL")

    timer = reactor.callLater(within, stop)
    running.done.addBoth(lambda result: (timer.cancel() if timer.active() else None, result)[1])
    return running.done
