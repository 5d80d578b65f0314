"""What the configuration says about the admin port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """``admin.*``: the HTTP port of the API, metrics and health; what may be open there, and for how long."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 18083
    max_connections: int = 64
    max_connections_per_address: int = 16
    #: Seconds for a whole request, from its first byte (or from the connection) to the end of its body.
    request_timeout: float = 10.0
    #: Seconds that a connection may wait for its next request.
    idle_timeout: float = 30.0
