"""The admin port of one life: who may call it, what it answers, and where it listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from iot_mqtt.admin.connections import Doorkeeper
from iot_mqtt.admin.dashboard import Dashboard, Sockets
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.admin.limit_resources import LimitResources
from iot_mqtt.admin.pipeline_tables import PipelineTableResources
from iot_mqtt.admin.routes import Resource
from iot_mqtt.admin.rule_resources import RuleResources
from iot_mqtt.admin.site import make_site
from iot_mqtt.admin.tls import TlsSite
from iot_mqtt.admin.token import announce
from iot_mqtt.admin.turns import Waiting
from iot_mqtt.admin.user_resources import AuthResources, UserResources
from iot_mqtt.app.config.folders import pipeline_dir
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.config.tls_checks import make_tls_settings
from iot_mqtt.app.node.admin_access import AdminAccess
from iot_mqtt.app.node.certificates import Certificates
from iot_mqtt.app.node.gateways import Gateways
from iot_mqtt.app.node.parts import bound
from iot_mqtt.app.node.port_key import named_by
from iot_mqtt.app.pipeline.status import read_status
from iot_mqtt.app.pipeline.table_rows import TableRows
from iot_mqtt.app.slow_files import SlowFiles
from iot_mqtt.auth.limit_book import LimitsDesk
from iot_mqtt.auth.service import Access
from iot_mqtt.broker.allowance import usual_limits
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.broker.views.view import View
from iot_mqtt.devices import Accompanied
from iot_mqtt.metrics.certificates import CertificatesCollector
from iot_mqtt.metrics.collectors import (
    AdminCollector,
    DevicesCollector,
    InboxCollector,
    LinksCollector,
    LoginFacts,
    UplinkCollector,
)
from iot_mqtt.metrics.exposition import Collector, Metrics
from iot_mqtt.metrics.facts import ListenerCounts
from iot_mqtt.pipeline import CalmPort, Share, TlsContext
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.directory import Directory
from iot_mqtt.ports.questions import AskingLater
from iot_mqtt.uplink.desk import UplinkDesk

#: Connections that the kernel holds until they are accepted.
BACKLOG = 128
#: Connections that are accepted in one turn, a few: whoever has sent a request by then is answered before it may have
#: to give way to others.
ACCEPTS = 4
#: Seconds for what jobs say of themselves.
STATUS_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class PortFacts:
    """``LoginFacts`` of a port that is open."""

    outcomes: Mapping[str, int]
    logins: int


class AdminPort:
    """Raises what ``AdminAccess`` raises, and ``CannotListenError``, when it is opened."""

    def __init__(
        self,
        config: Config,
        reactor: Any,
        clock: Clock,
        directory: Directory,
        access: Access,
        counters: Counters,
    ) -> None:
        self._config = config
        self._reactor = reactor
        self._clock = clock
        self._directory = directory
        self._access = access
        #: When calls are answered, and when what they have begun goes on.
        self.turns = Waiting(reactor, clock, partial(_messages, counters))
        self._callers: AdminAccess | None = None
        self._port: Any = None

    @property
    def number(self) -> int | None:
        """Of the port that was bound; None while it is closed."""
        return None if self._port is None else int(self._port.getHost().port)

    @property
    def address(self) -> tuple[str, int] | None:
        """Scheme and port; None while it is closed."""
        return None if self.number is None else (self._config.admin.scheme, self.number)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about."""
        return () if self._callers is None else self._callers.audit.alarms

    async def look(self) -> None:
        """See whether changes could be made. Called regularly."""
        if self._callers is not None:
            await self._callers.audit.look()

    async def first_password(self) -> str | None:
        """Of the user that the first start of all has just made."""
        return None if self._callers is None else await self._callers.first_password()

    def open(
        self,
        room: Share,
        view: View,
        metrics: Callable[[ListenerCounts, Sequence[Collector]], Metrics],
        *,
        gateways: Gateways,
        devices: Accompanied,
        uplink: UplinkDesk | None,
        certificates: Certificates,
        asking: AskingLater | None,
        sockets: Sockets,
        further: Sequence[Resource],
    ) -> str:
        """Listen; returns where. ``metrics`` makes the text of ``/metrics``, given what this port counts and collects.
        ``sockets``: where pages of the dashboard may be clients of the broker.
        ``further``: resources that are no matter of this port.
        """
        config = self._config
        status = pipeline_dir(config) / "status"
        doorkeeper = Doorkeeper(config.admin, room, self.turns)
        limits = LimitsDesk(self._directory, self._access.limits, partial(usual_limits, config.mqtt))
        self._callers = callers = AdminAccess(config, self._directory, self._reactor, self._clock, self._access.pool)
        site = make_site(
            view,
            metrics(ListenerCounts("admin", doorkeeper), self._collectors(view, gateways, devices, certificates)),
            callers.token,
            reactor=self._reactor,
            plugins=gateways.plugins,
            devices=devices,
            captures=gateways.captures,
            uplink=uplink,
            further=(
                UserResources(self._access.user_desk(self._directory)),
                AuthResources(self._access, limits, view.prospects),
                LimitResources(limits),
                RuleResources(self._access.acl_desk(self._directory), self._access),
                PipelineTableResources(TableRows(pipeline_dir(config) / "tables", self._reactor)),
                *callers.resources,
                *further,
            ),
            jobs=SlowFiles(partial(read_status, status), self._reactor, STATUS_PATIENCE, str(status)).read,
            doorkeeper=doorkeeper,
            gate=callers.gate,
            everywhere=Everywhere(config.node.id, partial(_members, view), asking, self.turns),
            dashboard=Dashboard(sockets=sockets),
        )
        return self._listen(site, certificates)

    def _collectors(
        self, view: View, gateways: Gateways, devices: Accompanied, certificates: Certificates
    ) -> list[Collector]:
        return [
            UplinkCollector(view.uplink),
            DevicesCollector(devices.figures),
            LinksCollector(gateways.facts),
            InboxCollector(lambda: None if devices.letters is None else devices.letters.info()),
            CertificatesCollector(certificates.facts),
            AdminCollector(self._facts),
        ]

    def _facts(self) -> LoginFacts | None:
        callers = self._callers
        return None if callers is None else PortFacts(callers.sign_in.outcomes, callers.logins.count)

    def _listen(self, site: Any, certificates: Certificates) -> str:
        admin = self._config.admin
        tls = make_tls_settings(admin.tls)
        factory = site
        if tls is not None:
            with named_by("admin"):
                context = TlsContext(tls)
            certificates.add("admin", context)
            factory = TlsSite(site, context)
        port: Any = CalmPort(admin.port, factory, BACKLOG, admin.host, self._reactor)
        port.accepts = ACCEPTS
        with named_by("admin"):
            port.startListening()
        self._port = port
        address = bound(port.getHost())
        announce(self._config.node.data_dir, f"{admin.scheme}://{address}", admin.tls.cert)
        return address

    async def close(self) -> None:
        """Nobody is answered any more."""
        port, self._port = self._port, None
        if port is not None:
            await port.stopListening()
        callers, self._callers = self._callers, None
        if callers is not None:
            callers.close()


def _messages(counters: Counters) -> int:
    return counters.messages_received + counters.messages_from_peers + counters.messages_delivered


def _members(view: View) -> list[MemberInfo]:
    return view.cluster.info().members
