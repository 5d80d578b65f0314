"""Free loopback ports that no client can take by accident.

The ports come from below the kernel's ephemeral range: a client that keeps trying to reach a dead broker on
an ephemeral port may be given that very port as its own and connect to itself, and then the broker cannot
come back. Test runs side by side each have a range of their own, which begins at ``TEST_PORTS_FROM``: what one of them
has killed is not taken by the other before it is back.
"""

from __future__ import annotations

import os
import random
import socket

_LOW = int(os.environ.get("TEST_PORTS_FROM", "20000"))
_HIGH = _LOW + 6_000
_random = random.SystemRandom()


#: Given out by this process: nobody listens there yet, perhaps, so that they look free.
_given: set[int] = set()


def free_port() -> int:
    """A TCP port on 127.0.0.1 that could be bound just now, another one each time."""
    if len(_given) > (_HIGH - _LOW) // 2:
        _given.clear()
    for _ in range(500):
        port = _random.randrange(_LOW, _HIGH)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise RuntimeError(f"no free port between {_LOW} and {_HIGH}")
