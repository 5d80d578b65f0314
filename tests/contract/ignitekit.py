"""A grid over real Ignite servers, with a clean state for each test."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import Address, IgniteGrid, IgniteSettings
from iot_mqtt.grid.ignite.dialer import Endpoint
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.pipeline.tls_client import ClientTls, TlsEndpoint
from iot_mqtt.ports.grid import CacheName
from tests.contract.driving import ReactorPump
from tests.enginekit.servers import Server


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


def settings(servers: Iterable[Server], **others: Any) -> IgniteSettings:
    """For these servers, in this order."""
    servers = list(servers)
    values: dict[str, Any] = {
        "gateways": tuple(address(server.gateway) for server in servers),
        "addresses": tuple(address(server.address) for server in servers),
        "token": servers[0].token,
        **others,
    }
    return IgniteSettings(**values)


def make(pump: ReactorPump, servers: Iterable[Server], **others: Any) -> IgniteGrid:
    """A grid, not yet open."""
    tls: ClientTls | None = others.get("tls")

    def reach(address: Address, timeout: float) -> Endpoint:
        plain = TCP4ClientEndpoint(pump.reactor, address.host, address.port, timeout)
        return plain if tls is None else TlsEndpoint(plain, tls, address.host, timeout, pump.reactor)

    return IgniteGrid(settings(servers, **others), pump.cross, reach, ReactorClock(pump.reactor))


def clear(pump: ReactorPump, servers: Iterable[Server]) -> None:
    """Nothing is left of earlier tests."""
    grid = make(pump, servers)
    pump.run(grid.open())
    deadline = time.monotonic() + 60
    for cache in CacheName:
        while True:
            try:
                pump.run(grid.remove_prefix(cache, b""))
                break
            except Unavailable:
                # A server that came back a moment ago takes its partitions first.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
    pump.run(grid.close())
