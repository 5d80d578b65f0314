"""What the configuration says about the admin port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """``admin.*``: the HTTP port of the API, metrics and health; what may be open there, and for how long."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 18083
    max_connections: int = 256
    max_connections_per_address: int = 64
    #: Seconds for a whole request, from its first byte (or from the connection) to the end of its body.
    request_timeout: float = 10.0
    #: Seconds that a connection may wait for its next request.
    idle_timeout: float = 30.0
    #: Who may read ``/metrics``: everybody, who shows a token (or has logged in), nobody.
    metrics: Literal["open", "token", "off"] = "open"
    #: Names that requests may have in Host; none: those of this machine.
    hosts: tuple[str, ...] = ()
    #: Seconds after which a login is over: unused, and in any case.
    login_idle: float = 1800.0
    login_longest: float = 43_200.0
    #: Of the records of changes; refused calls and logins have a quarter of it, and messages another one.
    audit_bytes: int = 64 * 1024 * 1024
