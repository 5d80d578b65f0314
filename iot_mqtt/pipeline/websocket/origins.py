"""Which pages of the web may connect: a browser says in ``Origin`` whose page asks, and no page can change that.

Programs that are no browser send no Origin, or one of their own making: this keeps out pages, not attackers with a
socket. A page whose Origin is the address that was connected to is at home here (*same origin*), and so is one that the
same host serves at the node's admin port (its dashboard). At a port that only this machine reaches, that address must
be a name of this machine as well, or any site could call itself so by its DNS.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["ANY", "Origin", "is_allowed", "parse_origin"]

#: In ``allowed_origins``: every page.
ANY = "*"
#: What pages of files and of sandboxes say; to be allowed, it must be listed.
OPAQUE = "null"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9._~-]+|[0-9a-f:.]+")


class Origin(NamedTuple):
    """One site, in the one form that can be compared."""

    scheme: str
    host: str
    port: int


def parse_origin(text: str) -> Origin | None:
    """``scheme://host`` or ``scheme://host:port``; None for anything else."""
    try:
        parts = urlsplit(text.strip().lower())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if not parts.scheme or not _HOST.fullmatch(host) or "@" in parts.netloc or parts.path or parts.query:
        return None
    return Origin(parts.scheme, host, _PORTS.get(parts.scheme, 0) if port is None else port)


def is_allowed(
    origin: str | None,
    host: str,
    allowed: tuple[str, ...],
    *,
    local: bool = False,
    dashboard: tuple[str, int] | None = None,
) -> bool:
    """Whether a page may connect; ``host`` is the request's Host, ``local`` that only this machine reaches the port,
    ``dashboard`` the scheme and port that the node serves pages at.
    """
    if origin is None or ANY in allowed:
        return True
    if origin == OPAQUE:
        return OPAQUE in allowed
    page = parse_origin(origin)
    if page is None:
        return False
    if allowed:
        return any(page == parse_origin(each) for each in allowed)
    here = parse_origin(f"{page.scheme}://{host}")
    own = here is not None and here.host == page.host and (page.scheme, page.port) == dashboard
    return (own or here == page) and (not local or _is_local(page.host))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
