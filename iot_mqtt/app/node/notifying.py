"""What the process tells systemd, or whoever else started it with ``NOTIFY_SOCKET`` (sd_notify(3)).

READY when clients get in, RELOADING while files are read again, STOPPING when it drains, STATUS for people, and with
``WATCHDOG_USEC`` a sign of life from the reactor twice in that time: systemd ends a process whose loop hangs. Without
the variable nothing is told. Nobody waits for anything here, and a message that can't be sent is not worth an error.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import MutableMapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

_ADDRESS, _PERIOD, _WHOSE = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


@dataclass(frozen=True, slots=True)
class Notifier:
    """One way to the one who started us."""

    #: Empty: there is nobody.
    address: str = ""
    #: Seconds within which a sign of life is awaited; 0: it is not.
    period: float = 0.0

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Notifier:
        """What the environment says; it is taken out of it, for it is not for processes that this one starts."""
        address, period, whose = (environ.pop(name, "") for name in (_ADDRESS, _PERIOD, _WHOSE))
        mine = whose in ("", str(os.getpid()))
        seconds = int(period) / 1e6 if mine and period.isdecimal() else 0.0
        return cls(address, seconds if address else 0.0)

    def ready(self, status: str) -> None:
        """Clients get in."""
        self._tell("READY=1", f"STATUS={status}")

    def status(self, text: str) -> None:
        """A line for people."""
        self._tell(f"STATUS={text}")

    def reloading(self) -> None:
        """Files are read again; ``reloaded`` ends it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self) -> None:
        self._tell("READY=1")

    def stopping(self) -> None:
        """It drains."""
        self._tell("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """The reactor turns."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self.address:
            return
        # An address that begins with @ is none of the file system.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        text = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaking:
                speaking.settimeout(0)
                speaking.sendto(text.encode(), address)
        except OSError as error:
            log.debug("%s was not told: %s", _ADDRESS, error)
