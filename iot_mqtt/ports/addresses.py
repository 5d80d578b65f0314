"""Where a peer (``host:port``, as a channel has it) is: its address, and what connections of one party share."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(peer: str) -> Address | None:
    """The address; of IPv4 in IPv6 that of IPv4. None for what is none, such as a socket's file."""
    try:
        found = ipaddress.ip_address(_host(peer))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def source_of(peer: str) -> str:
    """The address that a peer counts as: IPv6 by /64, which is what one subscriber has."""
    found = address_of(peer)
    if found is None:
        return _host(peer) or peer
    return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))


def _host(peer: str) -> str:
    return peer.rpartition(":")[0].strip("[]").partition("%")[0]
