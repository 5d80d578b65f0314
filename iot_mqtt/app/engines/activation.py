"""The first start of a grid that keeps its data on disk: it works when it is told to, which must not be too early.

The servers that are there when it is told become the ones that data is spread over, for good.
"""

from __future__ import annotations

import time

from iot_mqtt.app.engines import probe

Address = tuple[str, int]
#: Seconds between two looks.
_INTERVAL = 1.0


def activate(
    client: Address, gateway: Address, token: str, servers: int, timeout: float, tls: probe.Tls = None
) -> str | None:
    """Wait for the servers and activate their grid; returns what still stood in the way when the time was over."""
    deadline = time.monotonic() + timeout
    while (problem := _step(client, gateway, token, servers, tls)) is not None:
        if time.monotonic() > deadline:
            return problem
        time.sleep(_INTERVAL)
    return None


def _step(client: Address, gateway: Address, token: str, servers: int, tls: probe.Tls) -> str | None:
    try:
        if probe.ignite_active(client[1], host=client[0], tls=tls):
            return None
        there = probe.gateway(gateway[1], token, host=gateway[0], tls=tls).there
        if there < servers:
            return f"{there} of {servers} servers are there"
        probe.ignite_active(client[1], host=client[0], activate=True, tls=tls)
    except probe.NotThere as problem:
        return str(problem)
    return "it was told to"
