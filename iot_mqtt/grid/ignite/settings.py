"""Where the Ignite servers are, and how patient we are with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from iot_mqtt.pipeline.tls_client import ClientTls

#: Why there is no connection before an attempt has failed.
NOT_YET: Final = "not connected yet"


class Address(NamedTuple):
    """Of one server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class IgniteSettings:
    """Seconds and bytes. Any server will do for everything: more addresses are for when one is gone."""

    #: Of the messaging gateways: writes and messages.
    gateways: tuple[Address, ...]
    #: Of the thin-client ports: reads.
    addresses: tuple[Address, ...]
    token: str = field(default="", repr=False)
    #: What this node is called, for whoever has to find another of that name.
    node_id: str = ""
    #: Of the thin client; None: plain text. What reaches gateways brings its own.
    tls: ClientTls | None = None
    #: For a gateway and a thin-client connection to be there when the grid is opened.
    open_timeout: float = 30.0
    connect_timeout: float = 3.0
    #: From HELLO to WELCOME, which waits until what an older connection began is finished.
    welcome_timeout: float = 10.0
    #: Between two frames when nothing else goes back and forth.
    ping_interval: float = 2.0
    #: Without an answer: the connection is given up.
    answer_timeout: float = 5.0
    #: The same for what takes the servers long: removing everything under a prefix, fencing.
    long_timeout: float = 30.0
    #: For a lost answer of a compare-and-set to be found out about.
    resolve_timeout: float = 10.0
    #: For one answer to a read; and until a read is given up, attempts at other servers included.
    read_timeout: float = 2.0
    read_patience: float = 10.0
    #: Pauses between attempts to connect, once every address was tried: first, and at most.
    retry_first: float = 0.1
    retry_last: float = 2.0
    #: The longest frame, unless the gateway's limit is smaller.
    frame_limit: int = 16 << 20
    #: Of what waits to be sent: beyond it messages are dropped and commits refused.
    waiting_limit: int = 64 << 20
