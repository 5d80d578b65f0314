"""What CONNECT goes through until a session is open: who the client is, whether it may come, what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iot_mqtt.broker.composition.clients import Clients
from iot_mqtt.broker.composition.lifecycle import Lifecycle
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.connections.access import Access
from iot_mqtt.broker.connections.admission import Admission, WillRequests
from iot_mqtt.broker.connections.handlers import AuthHandler, ConnectHandler
from iot_mqtt.broker.connections.opening import Opening
from iot_mqtt.broker.connections.prospects import Prospects
from iot_mqtt.broker.connections.welcome import Welcome
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.ports.access import AuthenticationMethod, Authenticator, Authorizer


class Login:
    """The handlers of CONNECT and AUTH, and the admission behind them."""

    def __init__(
        self,
        runtime: Runtime,
        sessions: Sessions,
        outflow: Outflow,
        clients: Clients,
        lifecycle: Lifecycle,
        authenticator: Authenticator,
        authorizer: Authorizer,
        methods: Mapping[str, AuthenticationMethod],
        new_id: Callable[[], str],
    ) -> None:
        settings, counters, connections = runtime.settings, runtime.counters, clients.connections
        rights, wills, owners, limiting = lifecycle.rights, lifecycle.wills, lifecycle.owners, clients.limiting
        welcome = Welcome(settings, sessions, outflow, counters)
        opening = Opening(sessions, lifecycle.attaching, owners, limiting, rights, wills, connections, welcome)
        wanted = WillRequests(settings, counters)

        def new_client_id() -> str:
            """An id for a client that brought none [MQTT-3.1.3-6]."""
            while True:
                candidate = f"auto-{new_id()}"
                if sessions.get(candidate) is None:
                    return candidate

        self.admission = Admission(clients.bouncer, owners, limiting, wanted, welcome, opening, new_client_id)
        access = Access(authenticator, authorizer, methods, self.admission.admit, rights.recheck)
        door, alone = clients.door, lambda: self.admission.claim is None
        #: What would become of clients.
        self.prospects = Prospects(door, clients.bouncer, authorizer, owners, limiting, sessions, alone)
        self.connect = ConnectHandler(settings, clients.door, clients.bouncer, access, connections, counters)
        self.auth = AuthHandler(access, counters)
