"""One server as a process: started apart from the terminal, found again by its pid file, signalled, waited for.

A server normally outlives whoever started it. With ``die_with_parent`` the kernel kills it when the thread that
started it ends, however that ends: this is for tests, which start their servers from their main thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.kinds import argument_file
from iot_mqtt.app.engines.life import Life
from iot_mqtt.app.engines.places import java

#: Seconds between two looks at something that is about to happen.
TICK = 0.05
_TAIL_LINES = 20
_TAIL_WIDTH = 500
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_TAIL_BYTES = 64 * 1024
#: Runs between fork and the server: asks for SIGKILL at the parent's end, and does not go on if that is past already.
_BOUND = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("whoever started this is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


#: Stays beside a server and starts it again when it has left with one of some exit codes, unless somebody has written
#: another life into the pid file meanwhile, or taken it away: then it is no longer wanted.
_KEPT = """
import os, sys, time
pid_file, codes, command = sys.argv[1], {int(code) for code in sys.argv[2].split(",")}, sys.argv[3:]
mine = None
while mine is None or (os.path.exists(pid_file) and open(pid_file).read() == mine):
    again = mine is not None
    pid = os.fork()
    if not pid:
        if again:
            print("started again, because it had left", file=sys.stderr, flush=True)
        os.execv(command[0], command)
    started = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19]
    boot = open("/proc/sys/kernel/random/boot_id").read().strip()
    mine = f'[{pid}, {started}, "{boot}"]'
    open(pid_file + ".new", "w").write(mine)
    os.replace(pid_file + ".new", pid_file)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) not in codes:
        break
    time.sleep(1)
"""
#: Seconds for that to begin.
_KEPT_SECONDS = 10.0


class ServerProcess:
    """The process of one server; its files are in ``folder``. ``again``: exit codes with which it is started again, by
    itself; not with ``die_with_parent``.
    """

    def __init__(self, name: str, folder: Path, *, die_with_parent: bool = False, again: Sequence[int] = ()) -> None:
        self._again = () if die_with_parent else again
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._pid_file = folder / "pid"
        self._bound = die_with_parent
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def life(self) -> Life | None:
        """The running process; None if there is none."""
        if self._child is not None and self._child.poll() is not None:
            self._child = None
        life = Life.read(self._pid_file)
        return life if life is not None and life.alive else None

    @property
    def was_stopped(self) -> bool:
        """Nobody expects it to run: it was never started, or was stopped in peace."""
        return not self._pid_file.exists()

    def spawn(self, arguments: Sequence[str]) -> None:
        """Start Java with arguments; returns at once."""
        file = self.folder / "java.args"
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(argument_file(list(arguments)), encoding="utf-8")
        command = [java(), f"@{file}"]
        if self._bound:
            command = [sys.executable, "-ISc", _BOUND, str(os.getpid()), *command]
        if self._again:
            # Whoever kept the server of before sees that it is no longer wanted.
            self._pid_file.unlink(missing_ok=True)
            codes = ",".join(map(str, self._again))
            command = [sys.executable, "-ISc", _KEPT, str(self._pid_file), codes, *command]
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        if self._again:
            child = self._child
            wait_until(lambda: self._pid_file.exists() or child.poll() is not None, _KEPT_SECONDS)
        elif life := Life.of(self._child.pid):
            life.write(self._pid_file)

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if there is no process."""
        life = self.life()
        return life is not None and life.signal(number)

    def wait_gone(self, timeout: float) -> bool:
        return wait_until(lambda: self.life() is None, timeout)

    def forget(self) -> None:
        """Nobody expects it to run any more."""
        self._pid_file.unlink(missing_ok=True)

    def tail(self) -> str:
        """The end of what it said since it was started here (or at all)."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
            # What was wrong stands between the frames of a stack, and is at times as long as a page.
            told = [line[:_TAIL_WIDTH] for line in lines if not _FRAME.match(line)]
            return "\n".join(f"    {line}" for line in told[-_TAIL_LINES:])
        return "    (nothing)"

    def failed(self, what: str) -> EngineError:
        return EngineError(f"{self.name} {what}; the end of {self.log}:\n{self.tail()}")


def wait_until(true: Callable[[], bool], timeout: float) -> bool:
    """Look until something is so; False if it is not so in time."""
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(TICK)
    return True
