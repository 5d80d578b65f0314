"""The admin port: ``/health``, ``/ready`` and (unless ``admin.metrics`` says no) ``/metrics`` for all, ``/api/v1`` for
who shows a token, or the cookie of a login, with the rights; ``/`` is the dashboard, which asks ``/api/v1``.

This file, ``answers``, ``connections`` and ``requests`` are the only ones of the package that know the web server of
Twisted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Literal

from twisted.internet.interfaces import IAddress
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from iot_mqtt.admin import errors
from iot_mqtt.admin.answers import answer_later, failed, status_of, without_body, write
from iot_mqtt.admin.auditing import Auditor, Change, shown_path
from iot_mqtt.admin.call import Body, Call, path_segments, read_body, read_query
from iot_mqtt.admin.callers import Caller, Callers, Role, RootToken, canonical
from iot_mqtt.admin.connections import AdminChannel, Doorkeeper
from iot_mqtt.admin.cross_site import Hosts, check_csrf, check_host, check_origin, misdirected
from iot_mqtt.admin.dashboard import Dashboard
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.admin.login_resources import Cookie, must_change
from iot_mqtt.admin.logins import Logins
from iot_mqtt.admin.paths import readable_path
from iot_mqtt.admin.pipeline_resources import ReadJobs
from iot_mqtt.admin.recent import RecentAnswers, age_of
from iot_mqtt.admin.requests import UNKNOWN_BODY, AdminRequest
from iot_mqtt.admin.resources import Resources
from iot_mqtt.admin.routes import Answered, Route, find
from iot_mqtt.admin.routes import Resource as ResourcePart
from iot_mqtt.admin.scrapes import MetricsText, Scrapes
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.streams import Audience, Stream, begin_stream
from iot_mqtt.broker.facade import BrokerView
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.link import Captures
from iot_mqtt.errors import MqttError
from iot_mqtt.plugins.info import PluginPart
from iot_mqtt.uplink.desk import UplinkDesk

log = logging.getLogger(__name__)

#: ``twisted.web.server.Request``, whose methods have no annotations.
WebRequest = Any

#: Enough for a payload of a megabyte in base64.
MAX_BODY = 2 * 1024 * 1024

_API = ("api", "v1")
#: In requests that a page makes by itself, while nobody does anything in it.
_UNATTENDED = "x-unattended"


@dataclass(frozen=True, slots=True)
class Gate:
    """Who is let in. ``logins`` and ``cookie`` go together; without them there are tokens only."""

    callers: Callers
    auditor: Auditor | None = None
    logins: Logins | None = None
    cookie: Cookie | None = None
    hosts: Hosts | None = None
    #: As ``admin.metrics``.
    metrics: Literal["open", "token", "off"] = "open"


def make_site(
    view: BrokerView,
    metrics: MetricsText,
    token: str,
    *,
    reactor: Any = None,
    now: Callable[[], float] = time.time,
    max_body: int = MAX_BODY,
    plugins: PluginPart | None = None,
    devices: Accompanied | None = None,
    captures: Captures | None = None,
    jobs: ReadJobs | None = None,
    uplink: UplinkDesk | None = None,
    further: Sequence[ResourcePart] = (),
    doorkeeper: Doorkeeper | None = None,
    gate: Gate | None = None,
    everywhere: Everywhere | None = None,
    dashboard: Dashboard | None = None,
) -> Site:
    """The site of the admin port, to be given to a port of the reactor. ``further``: more resources. Without a ``gate``
    the token is all that opens it. ``everywhere``: the other nodes; without it there are none. ``dashboard``: what
    ``/`` answers; without it, what was built.
    """
    resources = Resources(view, now, plugins, devices, captures, jobs, uplink, further, everywhere)
    doorkeeper = doorkeeper or Doorkeeper(AdminSettings())
    gate = gate or Gate(RootToken(token))
    limits = doorkeeper.limits
    audience = Audience(limits.max_connections, limits.max_connections_per_address)
    root = _Root(view, metrics, gate, resources, max_body, dashboard or Dashboard(), audience)
    return _Site(root, max_body, doorkeeper, reactor=reactor)


class _Site(Site):
    #: No line of Twisted's for each port that opens.
    noisy = False
    protocol: Any = AdminChannel
    requestFactory = AdminRequest  # noqa: N815 - Twisted's name

    def __init__(self, root: _Root, max_body: int, doorkeeper: Doorkeeper, **rest: Any) -> None:
        times = {"timeout": doorkeeper.limits.request_timeout, "parsePOSTFormSubmission": False}
        super().__init__(root, **times, **rest)  # type: ignore[no-untyped-call]
        self.root = root
        self.max_body = max_body
        self.doorkeeper = doorkeeper

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection, or None where there is no room for it."""
        channel: Any = super().buildProtocol(addr)  # type: ignore[no-untyped-call]
        channel.doorkeeper = self.doorkeeper
        return channel if self.doorkeeper.lets_in(channel, addr) else None

    def startFactory(self) -> None:
        """Twisted would make the date for its own log of requests each second, in which an idle node wakes up."""

    def log(self, request: WebRequest) -> None:
        """One quiet line a request. The query stays out: it may name clients and topics."""
        log.debug("%s %s %s", request.method.decode("latin-1"), request.path.decode("latin-1"), request.code)


class _Root(Resource):
    isLeaf = True  # noqa: N815 - Twisted asks for this name

    def __init__(
        self,
        view: BrokerView,
        metrics: MetricsText,
        gate: Gate,
        resources: Resources,
        max_body: int,
        dashboard: Dashboard,
        audience: Audience,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dashboard = dashboard
        self._audience = audience
        self._view = view
        self._scrapes = Scrapes(metrics)
        self._gate = gate
        self._resources = resources
        self._max_body = max_body
        self._recent = RecentAnswers()
        self._open: dict[str, Callable[[WebRequest], Answered | bytes]] = {
            "health": self._health,
            "ready": self._ready,
            "metrics": self._render_metrics,
        }

    def room_for(self, request: WebRequest) -> int:
        """Bytes of a body that are kept. Who it is from is asked again when all of it is here: that may take seconds,
        in which a right may be withdrawn.
        """
        if self._caller_of(request) is not None:
            return self._max_body
        return 0 if self._gate.logins is None else UNKNOWN_BODY

    def _caller_of(self, request: WebRequest) -> Caller | None:
        """Who has sent a request. What is shown in a header decides, and no cookie beside it."""
        authorization = request.getHeader(b"authorization")
        if authorization is not None or self._gate.logins is None:
            return self._gate.callers.known(canonical(authorization or b""))
        return self._gate.logins.known(self._cookie_of(request))

    def _cookie_of(self, request: WebRequest) -> bytes:
        cookie = self._gate.cookie
        return b"" if cookie is None else request.getCookie(cookie.name.encode()) or b""

    def render(self, request: WebRequest) -> bytes | int:
        """Answer at once, or later where the broker has to commit first."""
        body = self._render(request)
        return without_body(request, body) if request.method == b"HEAD" and isinstance(body, bytes) else body

    def _render(self, request: WebRequest) -> bytes | int:
        try:
            outcome = self._answer(request)
            if isinstance(outcome, Stream):
                begin_stream(request, outcome)
                return NOT_DONE_YET
            if not isinstance(outcome, Awaitable):
                return write(request, outcome)
            answer_later(request, outcome)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, the caller gets an answer
            return failed(request, error)
        return NOT_DONE_YET

    def _answer(self, request: WebRequest) -> object | Awaitable[object]:
        hosts = request.requestHeaders.getRawHeaders(b"host", ())
        check_host([one.decode("latin-1") for one in hosts], request.clientproto)
        segments = path_segments(request.path)
        method = request.method.decode("latin-1")
        caller = self._caller_of(request)
        by_token = caller is not None and not caller.login
        if self._gate.hosts is not None and not by_token and not self._gate.hosts.accepts(_header(request, "host")):
            raise misdirected()
        if tuple(segments[:2]) == _API:
            return self._call(request, method, segments[2:], caller)
        page = None
        if len(segments) != 1 or segments[0] not in self._open:
            accepted, known = _header(request, "accept-encoding") or "", _header(request, "if-none-match") or ""
            page = self._dashboard.page(segments, accepted, known, _header(request, "host") or "")
            if page is None:
                raise errors.not_found("there is /, /health, /ready, /metrics and /api/v1/")
        if method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(method, "GET")
        return self._open[segments[0]](request) if page is None else page

    def _call(
        self, request: WebRequest, method: str, segments: list[str], caller: Caller | None
    ) -> object | Awaitable[object]:
        if caller is None and not self._resources.is_for_anybody(method, segments):
            logins = self._gate.logins
            if logins is None or request.getHeader(b"authorization") or not logins.may_be(self._cookie_of(request)):
                raise errors.unauthorized(_header(request, "authorization"))
            return self._call_of_late(logins, request, method, segments)
        return self._call_of(caller, request, method, segments)

    async def _call_of_late(self, logins: Logins, request: WebRequest, method: str, segments: list[str]) -> object:
        """Another node may have let somebody in a moment ago."""
        await logins.look()
        caller = self._caller_of(request)
        if caller is None:
            raise errors.unauthorized(_header(request, "authorization"))
        outcome = self._call_of(caller, request, method, segments)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _call_of(
        self, caller: Caller | None, request: WebRequest, method: str, segments: list[str]
    ) -> object | Awaitable[object]:
        if caller is None or caller.login:
            origin, fetch_site = _header(request, "origin"), _header(request, "sec-fetch-site")
            check_origin(method, _header(request, "host"), origin, fetch_site, secure=request.isSecure())
        route, values = find(self._resources.table, method, segments)
        logins, unattended = self._gate.logins, route.streamed or _header(request, _UNATTENDED)
        if logins is not None and caller is not None and caller.login and not unattended:
            logins.use(caller.login)
        path = readable_path(segments)
        data = request.content.read() if request.content is not None else b""
        body = Body() if route.method == "GET" else read_body(data)
        address = str(getattr(request.getClientAddress(), "host", ""))
        call = Call(values, {}, data, caller, address, _header(request, "last-event-id") or "")
        let_in = partial(self._let_in, request, method, route, path, call, body)
        if caller is not None and route.method != "GET" and route.asks != "anybody" and self._gate.auditor is not None:
            own = route.asks == "caller"
            asked = shown_path(path, _query_of(request), route.query)
            change = Change(caller, address, route.method, asked, body, self._resources.body_of(route), own)
            return self._changed(self._gate.auditor, change, route, let_in)
        outcome = self._asked(request, route, let_in())
        if isinstance(outcome, Stream):
            outcome.allowed = partial(self._still_may, request, route, path)
        return outcome

    def _let_in(self, request: WebRequest, method: str, route: Route, path: str, call: Call, body: Body) -> Call:
        """The call with its query, if whoever makes it may, and nothing is wrong with it."""
        caller = call.caller
        if caller is not None and route.asks != "anybody":
            check_csrf(method, caller, _header(request, "x-csrf-token"))
        if caller is not None and caller.must_change and route.asks == "role":
            raise must_change(caller)
        if getattr(request.content, "overflowed", False):
            raise errors.too_large(self._max_body if caller is not None else UNKNOWN_BODY)
        query = read_query(_query_of(request), route.query)
        if route.asks == "role" and (caller is None or not caller.may(route.role, path)):
            raise errors.forbidden(route.role.word, "" if caller is None else caller.name)
        if body.wrong:
            raise errors.bad_request(body.wrong)
        return replace(call, query=query)

    def _asked(self, request: WebRequest, route: Route, call: Call) -> object:
        """The answer, or that of a moment ago to somebody with the same rights if this one will do."""
        if route.streamed:
            return self._audience.let_in(call.address, call.who, partial(route.handler, call))
        age, caller = age_of(_header(request, "cache-control")), call.caller
        if not age or caller is None or route.method != "GET" or route.asks != "role":
            return route.handler(call)
        return self._recent.answer((request.uri, caller.role, caller.scope), age, partial(route.handler, call))

    def _still_may(self, request: WebRequest, route: Route, path: str) -> bool:
        """Whether who listens to a stream has the right to it now."""
        caller = self._caller_of(request)
        return caller is not None and not caller.must_change and caller.may(route.role, path)

    @staticmethod
    async def _changed(auditor: Auditor, change: Change, route: Route, let_in: Callable[[], Call]) -> object:
        """A change is answered when it is written down, and not made where it could not be."""
        await auditor.check()
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            outcome = route.handler(let_in())
            value = await outcome if isinstance(outcome, Awaitable) else outcome
            status = status_of(value)
        except MqttError as error:
            translated = errors.of_broker(error)
            status = translated.status
            raise translated from error
        except ApiError as error:
            status = error.status
            raise
        finally:
            await auditor.write(change, status)
        return value

    def _health(self, request: WebRequest) -> Answered:
        # An alarm is no reason to be killed: the status stays 200, the words are for people.
        alarms = [one.text for one in self._view.alarms]
        return Answered({"status": "alarm", "alarms": alarms} if alarms else {"status": "ok"})

    def _ready(self, request: WebRequest) -> Answered:
        # Whoever asks is about to send clients here.
        ready = self._view.serving
        draining = self._view.cluster.progress().refusing
        status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Answered({"ready": ready, "draining": True} if draining else {"ready": ready}, status)

    def _render_metrics(self, request: WebRequest) -> bytes:
        if self._gate.metrics == "off":
            raise errors.not_found("admin.metrics is off")
        if self._gate.metrics == "token":
            caller = self._caller_of(request)
            if caller is None:
                raise errors.unauthorized(_header(request, "authorization"))
            if caller.must_change or not caller.may(Role.VIEWER, "metrics"):
                raise errors.forbidden(Role.VIEWER.word, caller.name)
        request.setHeader("content-type", self._scrapes.content_type)
        return self._scrapes.text(request.asked_at)


def _header(request: WebRequest, name: str) -> str | None:
    value = request.getHeader(name.encode())
    return None if value is None else str(value.decode("latin-1"))


def _query_of(request: WebRequest) -> bytes:
    query: bytes = request.uri.partition(b"?")[2]
    return query
