"""Free loopback ports that no client can take by accident.

The ports come from below the kernel's ephemeral range: a client that keeps trying to reach a dead broker on
an ephemeral port may be given that very port as its own and connect to itself, and then the broker cannot
come back.
"""

from __future__ import annotations

import random
import socket

_LOW, _HIGH = 20_000, 32_000
_random = random.SystemRandom()


def free_port() -> int:
    """A TCP port on 127.0.0.1 that could be bound just now."""
    for _ in range(500):
        port = _random.randrange(_LOW, _HIGH)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {_LOW} and {_HIGH}")
