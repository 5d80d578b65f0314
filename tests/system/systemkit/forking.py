"""Brokers that are forked off a process that has imported already what ``iot-mqtt serve`` imports.

That is most of what a start costs, and there are hundreds. All else is as where the command is run: a process of its
own, with its own arguments, files, folder and signals, which can be killed. What forks them waits for nothing else than
to fork; it has no threads, and no reactor. With ``TEST_FORKING=off`` commands are run as users run them; so they are
anyway where a test has a command or an environment of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: What one request may take.
_LONGEST: Final = 1 << 17
_WORD: Final = struct.Struct("=i")


class Forked:
    """As much of ``subprocess.Popen`` as brokers need."""

    def __init__(self, told: int) -> None:
        #: A pipe with the process's id, and then with how it ended.
        self._told = told
        self.returncode: int | None = None
        self.pid = self._read()

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("iot-mqtt serve", timeout or 0.0)
            self._ended()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(self._read())
        os.close(self._told)

    def _read(self) -> int:
        word = os.read(self._told, _WORD.size)
        if len(word) < _WORD.size:
            raise RuntimeError("what forks brokers has died")
        return int(_WORD.unpack(word)[0])


class Forker:
    """The process that they are forked off."""

    def __init__(self, program: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self.environment = clean_environment()
        with theirs:
            # When this process ends, so does the socket, and with it that process.
            self._process = subprocess.Popen(
                # Without this folder on its path.
                [sys.executable, "-P", __file__, str(theirs.fileno()), program],
                env=self.environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def fork(self, arguments: Sequence[str], output: int, folder: Path) -> Forked:
        """One that says what it says to ``output``, all of it."""
        read, write = os.pipe()
        try:
            request = json.dumps([list(arguments), str(folder)]).encode()
            socket.send_fds(self._socket, [request], [output, write])
        finally:
            os.close(write)
        return Forked(read)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)


def clean_environment() -> dict[str, str]:
    """The environment without settings that would leak into the broker, and with its output unbuffered."""
    left = ("IOT_MQTT__", "PYTEST_CURRENT_TEST")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left)}
    return kept | {"PYTHONUNBUFFERED": "1"}


@functools.cache
def forker(program: str) -> Forker:
    """One for all brokers of this process."""
    return Forker(program)


# What follows runs in the process that forks.


def _serve(requests: socket.socket, program: str) -> None:
    """Until nobody can ask any more."""
    sys.argv = [program, "serve"]
    from iot_mqtt.app.lazy import importing

    with importing():
        import iot_mqtt.app.cli
        import iot_mqtt.app.node.lives
        import iot_mqtt.app.node.service
        import iot_mqtt.app.serve
        import iot_mqtt.custom_protocols.gateway.codec
        import iot_mqtt.custom_protocols.modbus.codec  # noqa: F401 - to be there already
    assert "twisted.internet.reactor" not in sys.modules, "forked processes would share its epoll"
    # Nobody waits for those that wait for brokers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, files, _, _ = socket.recv_fds(requests, _LONGEST, 2)
        if not request:
            return
        arguments, folder = json.loads(request)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _watch(files, [program, *arguments], folder)
        for file in files:
            os.close(file)


def _watch(files: Sequence[int], arguments: list[str], folder: str) -> None:
    """Fork the broker; tell its id, and how it ended. Never returns."""
    output, told = files
    pid = os.fork()
    if pid == 0:
        _be(output, arguments, folder)
    os.close(output)
    os.write(told, _WORD.pack(pid))
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, _WORD.pack(status))
    os._exit(0)


def _be(output: int, arguments: list[str], folder: str) -> None:
    """What the command does. Never returns."""
    code = 1
    try:
        for standard in (1, 2):
            os.dup2(output, standard)
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        os.chdir(folder)
        sys.argv = arguments
        from iot_mqtt.app.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
