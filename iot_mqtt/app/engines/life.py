"""The identity of a process: its pid together with when it was started, so that a pid used again is not mistaken.

A pid file holds both. Signals go through a pidfd that is opened before the start time is compared, so that nothing
can come between the look and the signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import NamedTuple, Self

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Life(NamedTuple):
    """One life of one process. ``started`` is in clock ticks since the machine's ``boot``."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The life that a pid has now; None if there is no such process, or only its remains."""
        fields = _stat(pid)
        if fields is None or (fields[0] in "ZX" and not _has_threads(pid)):
            return None
        return cls(pid, int(fields[19]), _BOOT_ID.read_text(encoding="ascii").strip())

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """What a pid file says; None if it is not there or says nothing that makes sense."""
        try:
            pid, started, boot = json.loads(file.read_text(encoding="utf-8"))
            return cls(int(pid), int(started), str(boot))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(self), encoding="utf-8")

    @property
    def alive(self) -> bool:
        return Life.of(self.pid) == self

    @property
    def paused(self) -> bool:
        """Stopped by SIGSTOP."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] in "Tt" and self.alive

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to this life and no other; False if it is over."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive:
                return False
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
                return True
            return False
        finally:
            os.close(descriptor)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat behind the name: [0] is the state, [19] the start time."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _has_threads(pid: int) -> bool:
    """Whether threads of a dying process are still there besides the first: its ports are open for as long."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir()) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False
