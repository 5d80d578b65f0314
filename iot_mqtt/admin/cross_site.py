"""What a browser lets pages of other sites do with this port, and what is done about it.

* A page may rename its own address to this one by DNS (rebinding), and then read answers: the Host that it believes in
  is a name that nobody here goes by. An address in figures cannot be renamed.
* A page may send forms here, with the cookie of whoever is logged in. SameSite keeps that cookie at home; and the page
  cannot say what the login was told besides, nor that it comes from here (Origin, Sec-Fetch-Site).
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from iot_mqtt.admin.callers import Caller
from iot_mqtt.admin.errors import ApiError, bad_request

_SAFE = ("GET", "HEAD")


#: ``uri-host [":" port]`` (RFC 3986, 3.2.2): no user's name before it, and nothing behind it.
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?")


def check_host(lines: Sequence[str], version: bytes) -> None:
    """Raise 400 for what says not once, or not as a Host, which host it is for (RFC 9112, 3.2)."""
    if len(lines) > 1 or (version == b"HTTP/1.1" and not lines) or not all(map(_HOST.fullmatch, lines)):
        raise bad_request("a request has one Host header, with a name or an address, and perhaps a port")


class Hosts:
    """The names that this port goes by: those of this machine and of the address that it is bound to, unless others
    are named. ``*.example.org`` is every name below, ``*`` any name.
    """

    def __init__(self, names: Sequence[str], bound: str) -> None:
        own = ("localhost", "*.localhost", socket.gethostname(), bound)
        self._names = frozenset(one.lower().rstrip(".") for one in (names or own))

    def accepts(self, host: str | None) -> bool:
        """Whether a request may name this Host. None: it names none, so it is no browser's."""
        if host is None or "*" in self._names:
            return True
        name = (_split(f"//{host}").hostname or "").rstrip(".")
        if name in self._names or _is_address(name):
            return True
        parts = name.split(".")
        return any(f"*.{'.'.join(parts[at:])}" in self._names for at in range(1, len(parts)))


def _split(url: str) -> SplitResult:
    """What cannot be one names no host. Python raises ``ValueError`` for brackets that are not an IPv6 address's."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def check_origin(
    method: str, host: str | None, origin: str | None, fetch_site: str | None, *, secure: bool = False
) -> None:
    """Raise 403 for what a page of another site has sent; what is no browser says nothing of it. ``secure``: this port
    speaks HTTPS. One that does not may be behind a proxy that does, and takes pages of both for its own.
    """
    if method in _SAFE:
        return
    if fetch_site is not None and fetch_site != "same-origin":
        raise foreign(f"Sec-Fetch-Site is {fetch_site}")
    if origin is None:
        return
    page = _split(origin)
    if not host or page.netloc.lower() != host.lower():
        raise foreign("Origin is another one than Host")
    if secure and page.scheme != "https":
        raise foreign("Origin is not https, which this port speaks")


def check_csrf(method: str, caller: Caller, shown: str | None) -> None:
    """Raise 403 for a change by a cookie without what its page was told at the login."""
    if caller.login and method not in _SAFE and not hmac.compare_digest((shown or "").encode(), caller.csrf.encode()):
        raise foreign("X-CSRF-Token is not what the login was answered with")


def foreign(detail: str) -> ApiError:
    return ApiError(HTTPStatus.FORBIDDEN, "cross_site", f"another site's page may have sent this: {detail}")


def misdirected() -> ApiError:
    detail = "this port does not go by the name in Host; admin.hosts lists names that it does"
    return ApiError(HTTPStatus.MISDIRECTED_REQUEST, "unknown_host", detail)
