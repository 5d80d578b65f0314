"""A program: the admin site over a fake broker on a real port, which it prints; ends with its standard input. With
arguments it speaks TLS: certificate, key and, if clients have to show one, the authority of clients.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, cast

from twisted.internet import reactor as installed
from twisted.internet.protocol import Protocol
from twisted.internet.stdio import StandardIO

from iot_mqtt.admin.site import make_site
from iot_mqtt.admin.tls import TlsSite
from iot_mqtt.pipeline import TlsContext, TlsSettings


class EndWithInput(Protocol):
    """Stops the reactor when nobody holds the other end any more."""

    def connectionLost(self, reason: Any = None) -> None:
        installed_reactor.stop()


installed_reactor = cast(Any, installed)

#: Beside this file: a program has no package to import it from.
kit: Any = importlib.import_module("adminkit")

if __name__ == "__main__":
    view = kit.FakeView()
    view.connect("gr\u00fc\u00df/1")
    view.keep_session("gr\u00fc\u00df/1", connected=True, state="caught_up")
    site = make_site(view, kit.FakeMetrics(), kit.TOKEN, reactor=installed_reactor, further=(kit.why_of(view),))
    factory: Any = site
    if sys.argv[1:]:
        certificate, key, client_ca = (*sys.argv[1:], "")[:3]
        factory = TlsSite(site, TlsContext(TlsSettings(certificate, key, client_ca)))
    port = installed_reactor.listenTCP(0, factory, interface="127.0.0.1")
    cast(Any, StandardIO)(EndWithInput())
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    installed_reactor.run()
