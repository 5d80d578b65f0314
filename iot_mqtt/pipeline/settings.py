"""What can be configured about listeners and their connections, as frozen values with their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["ListenerSettings", "OutboxSettings", "TlsSettings", "WebSocketSettings"]

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """``listeners.<name>.outbox.*``: bounds in bytes of what waits for one peer."""

    #: Above this the channel is not writable: QoS 0 is dropped, QoS 1/2 waits in the session.
    high_water: int = MIB
    #: Below this it is writable again.
    low_water: int = 256 * KIB
    #: What is written to an unwritable channel beyond this closes it; see ``outbox``.
    hard_limit: int = 16 * MIB

    def __post_init__(self) -> None:
        if not 0 <= self.low_water <= self.high_water <= self.hard_limit:
            raise ValueError("outbox limits must be in order: low_water <= high_water <= hard_limit")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """``listeners.<name>.tls.*``: PEM files and what is asked of clients."""

    #: The server's certificate, followed by its intermediates.
    certificate: str
    key: str
    #: Certificates of the authorities whose clients are let in; empty: clients are not asked for one.
    client_ca: str = ""
    #: With ``client_ca``: a client without a certificate is refused in the handshake.
    require_client_certificate: bool = True
    #: "1.2" or "1.3"
    min_version: str = "1.2"
    #: OpenSSL's notation, for TLS 1.2; empty: those with ephemeral keys and authenticated encryption.
    ciphers: str = ""
    #: Curves for the exchange of keys, such as X25519 and P-256; empty: OpenSSL's choice.
    groups: tuple[str, ...] = ()
    #: Lists of revoked certificates, of each authority in the chain of a client.
    crl: tuple[str, ...] = ()
    #: Further (certificate, key), for clients that ask for a name of theirs.
    certificates: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """``listeners.<name>.path`` and the limits of MQTT over WebSocket."""

    path: str = "/mqtt"
    #: A longer frame or message is refused with 1009.
    max_frame: int = 16 * MIB
    #: A longer request head is refused with 431.
    max_head: int = 8 * KIB
    subprotocols: tuple[str, ...] = ("mqtt", "mqttv3.1")
    #: Sites whose pages may connect, ``*`` for all; empty: pages of the address that they connect to.
    allowed_origins: tuple[str, ...] = ()
    #: Only this machine reaches the port.
    local: bool = False
    #: Scheme and port of the pages that the node serves itself, once it does.
    dashboard: Callable[[], tuple[str, int] | None] = lambda: None


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """``listeners.<name>``: one port."""

    name: str
    host: str = "127.0.0.1"
    #: 0: any free port.
    port: int = 1883
    max_connections: int = 1_000_000
    #: New connections in a second, after so many at once; 0: as fast as they come. The others wait in the backlog.
    connect_rate: float = 0.0
    connect_burst: int = 1000
    #: Connections the kernel holds until they are accepted.
    backlog: int = 4096
    #: Share the port with other nodes of this machine (SO_REUSEPORT).
    reuse_port: bool = False
    #: A PROXY protocol header (v1 or v2) comes first on every connection.
    proxy_protocol: bool = False
    #: Networks that such headers are believed from; whoever else connects then is closed.
    trusted_proxies: tuple[str, ...] = ()
    tls: TlsSettings | None = None
    websocket: WebSocketSettings | None = None
    #: TLS and WebSocket, where configured, are recognised by the first byte; plain MQTT is welcome as well.
    detect: bool = False
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    #: Seconds from close to the last byte taken by the peer and its own close; then the connection is aborted.
    linger: float = 3.0
