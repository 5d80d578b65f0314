"""Where a peer (``host:port``, as a channel has it) is: its address, and what connections of one party share."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(peer: str) -> Address | None:
    """The address; of IPv4 in IPv6 that of IPv4. None for what is none, such as a socket's file."""
    return parsed(host_of(peer))


@lru_cache(maxsize=1024)
def written(host: str) -> str:
    """The address that a text without a port is, in its one form; empty for what is none."""
    found = parsed(host)
    return "" if found is None else str(found)


def parsed(host: str) -> Address | None:
    """The address that a text without a port is; of IPv4 in IPv6 that of IPv4. None for what is none."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def source_of(peer: str) -> str:
    """The address that a peer counts as: IPv6 by /64, which is what one subscriber has."""
    return _source(host_of(peer)) or peer


def source_of_host(host: str) -> str:
    """The same of an address without a port."""
    return _source(host.partition("%")[0])


@lru_cache(maxsize=1024)
def _source(host: str) -> str:
    found = parsed(host)
    if found is None:
        return host
    return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))


def host_of(peer: str) -> str:
    """The address as it is written, without port, brackets and zone."""
    return peer.rpartition(":")[0].strip("[]").partition("%")[0]
