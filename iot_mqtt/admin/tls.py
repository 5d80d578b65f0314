# Twisted's factories have few annotations.
# mypy: disable-error-code="misc"
"""TLS around the connections of the admin port.

The context is the one that listeners have, so certificates, CRLs and suites mean the same here.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IAddress

from iot_mqtt.pipeline import TlsContext
from iot_mqtt.pipeline.tls_protocol import TlsProtocol

__all__ = ["TlsSite"]


class TlsSite:
    """A factory for a port: connections of another factory, inside TLS."""

    noisy = False

    def __init__(self, site: Any, context: TlsContext) -> None:
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
