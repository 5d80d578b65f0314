# Twisted's factories have few annotations.
# mypy: disable-error-code="misc"
"""TLS around the connections of the admin port.

The context is the one that listeners have, so certificates, CRLs and suites mean the same here.
"""

from __future__ import annotations

import ssl
from typing import Any, Protocol

from twisted.internet.interfaces import IAddress

from iot_mqtt.pipeline.tls_protocol import TlsProtocol

__all__ = ["TlsSite"]


class Context(Protocol):
    """``iot_mqtt.pipeline.TlsContext`` is one."""

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject: ...

    def failed(self, error: ssl.SSLError) -> None: ...


class TlsSite:
    """A factory for a port: connections of another factory, inside TLS."""

    noisy = False

    def __init__(self, site: Any, context: Context) -> None:
        self._site = site
        self._context = context

    def buildProtocol(self, addr: IAddress | None) -> TlsProtocol | None:
        """A connection, or None where the site has no room for it."""
        inner = self._site.buildProtocol(addr)
        return None if inner is None else TlsProtocol(inner, self._context.wrap, self._context.failed)

    def doStart(self) -> None:
        self._site.doStart()

    def doStop(self) -> None:
        self._site.doStop()
