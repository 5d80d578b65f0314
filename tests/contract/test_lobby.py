"""The messaging gateway of an Ignite server: whoever opens connections and says nothing keeps no broker out."""

from __future__ import annotations

from typing import Any

from tests.abuse import plans
from tests.enginekit.servers import Server

#: Connections that may wait to say HELLO, as PROTOCOL.md has it.
MOST = 128


def test_silent_and_slow_connections_keep_no_broker_out(ignite: Server) -> None:
    """More than there is room for, of several addresses: each broker is welcomed, and others are closed for it."""
    port = plans.messaging(ignite.ports["gateway"], ignite.token)
    plan: dict[str, Any] = {
        "ports": {"messaging": port | {"good": 20, "silent": 200, "slow": 20}},
        "sources": 8,
        "seconds": 1.0,
        "patience": 3.0,
    }
    found = plans.figures(plans.begin(plan), 60)["messaging"]
    assert found["good"]["count"] == 20, found["good"]
    left = sum(found[kind]["faults"].get("left open", 0) for kind in ("silent", "slow"))
    assert 0 < left <= MOST, found
    assert found["silent"]["count"] + found["slow"]["count"] == 220 - left, found
