"""Free loopback ports that no client can take by accident.

They come from below the kernel's ephemeral range: a client that keeps trying to reach a dead server on an ephemeral
port may be given that very port as its own, and then the server cannot come back.
"""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
_LOW, _HIGH = 20_000, 32_000
_random = random.SystemRandom()


class Ports:
    """Gives out ports, none of them twice."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def free(self) -> int:
        """A port that could be bound just now."""
        for _ in range(500):
            port = _random.randrange(_LOW, _HIGH)
            if port not in self._given and bindable(port):
                self._given.add(port)
                return port
        raise RuntimeError(f"no free port between {_LOW} and {_HIGH}")


def bindable(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
