"""The admin port: ``/health``, ``/ready`` and ``/metrics`` for all, ``/api/v1`` for who shows a token with the rights.

This file and ``connections`` are the only ones of the package that know Twisted. Whatever happens inside a resource
ends in an answer: an ``ApiError`` in its own words, the broker's errors translated, anything else as 500 and a line of
the log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from io import BytesIO
from typing import Any, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IAddress
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from iot_mqtt.admin import errors
from iot_mqtt.admin.auditing import Auditor, Change
from iot_mqtt.admin.call import Call, path_segments, read_query
from iot_mqtt.admin.callers import Caller, Callers, RootToken
from iot_mqtt.admin.connections import AdminChannel, Doorkeeper
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.pipeline_resources import ReadJobs
from iot_mqtt.admin.resources import Resources
from iot_mqtt.admin.routes import Resource as ResourcePart
from iot_mqtt.admin.routes import Route, find
from iot_mqtt.admin.settings import AdminSettings
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
_JSON = "application/json"


class MetricsText(Protocol):
    """What ``/metrics`` answers; ``iot_mqtt.metrics.exposition.Metrics`` is one."""

    content_type: str

    def render(self) -> bytes: ...


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
    callers: Callers | None = None,
    auditor: Auditor | None = None,
) -> Site:
    """The site of the admin port, to be given to a port of the reactor. ``further``: more resources."""
    resources = Resources(view, now, plugins, devices, captures, jobs, uplink, further)
    root = _Root(view, metrics, callers or RootToken(token), auditor, resources, max_body)
    return _Site(root, max_body, doorkeeper or Doorkeeper(AdminSettings()), reactor=reactor)


class _Body(BytesIO):
    """A request's body that stops growing at the limit; what comes after is thrown away unread."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._room = limit
        self.overflowed = False

    def write(self, data: Any, /) -> int:
        self._room -= len(data)
        if self._room < 0:
            self.overflowed = True
            self.truncate(0)
            return len(data)
        return super().write(data)


class _Request(Request):
    """A request whose body is kept only if it comes from a holder of the token."""

    def gotLength(self, length: int | None) -> None:
        """The headers are there: make what the body is written to, never a temporary file."""
        channel: Any = self.channel
        site = channel.site
        self.content = _Body(site.max_body if site.root.caller_of(self) is not None else 0)


class _Site(Site):
    #: No line of Twisted's for each port that opens.
    noisy = False
    protocol: Any = AdminChannel
    requestFactory = _Request  # noqa: N815 - Twisted's name

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

    def log(self, request: WebRequest) -> None:
        """One quiet line a request. The query stays out: it may name clients and topics."""
        log.debug("%s %s %s", request.method.decode("latin-1"), request.path.decode("latin-1"), request.code)


class _Root(Resource):
    isLeaf = True  # noqa: N815 - Twisted asks for this name

    def __init__(
        self,
        view: BrokerView,
        metrics: MetricsText,
        callers: Callers,
        auditor: Auditor | None,
        resources: Resources,
        max_body: int,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._view = view
        self._metrics = metrics
        self._callers = callers
        self._auditor = auditor
        self._resources = resources
        self._max_body = max_body
        self._open: dict[str, Callable[[WebRequest], bytes]] = {
            "health": self._health,
            "ready": self._ready,
            "metrics": self._render_metrics,
        }

    def caller_of(self, request: WebRequest) -> Caller | None:
        """Who has sent a request."""
        return self._callers.known(request.getHeader(b"authorization") or b"")

    def render(self, request: WebRequest) -> bytes | int:
        """Answer at once, or later where the broker has to commit first."""
        try:
            outcome = self._answer(request)
            if isinstance(outcome, bytes):
                return outcome
            _answer_later(request, outcome)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, the caller gets an answer
            return _failed(request, error)
        return NOT_DONE_YET

    def _answer(self, request: WebRequest) -> bytes | Awaitable[object]:
        segments = path_segments(request.path)
        method = request.method.decode("latin-1")
        if tuple(segments[:2]) == _API:
            return self._call(request, method, segments[2:])
        if len(segments) != 1 or segments[0] not in self._open:
            raise errors.not_found("there is /health, /ready, /metrics and /api/v1/")
        if method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(method, "GET")
        return self._open[segments[0]](request)

    def _call(self, request: WebRequest, method: str, segments: list[str]) -> bytes | Awaitable[object]:
        caller = self.caller_of(request)
        if caller is None:
            raise errors.unauthorized()
        route, values = find(self._resources.table, method, segments)
        if getattr(request.content, "overflowed", False):
            raise errors.too_large(self._max_body)
        query = read_query(request.uri.partition(b"?")[2], route.query)
        body = request.content.read() if request.content is not None else b""
        call = Call(values, query, body, caller.name, caller.user)
        if route.method != "GET" and self._auditor is not None:
            address = str(getattr(request.getClientAddress(), "host", ""))
            change = Change(caller, address, route.method, "/".join(segments), body)
            return self._changed(self._auditor, change, route, call)
        if not caller.may(route.role, "/".join(segments)):
            raise errors.forbidden(route.role.word, caller.name)
        outcome = route.handler(call)
        if isinstance(outcome, Awaitable):
            return outcome
        return _write_json(request, HTTPStatus.OK, outcome)

    @staticmethod
    async def _changed(auditor: Auditor, change: Change, route: Route, call: Call) -> object:
        """A change is answered when it is written down, and not made where it could not be."""
        await auditor.check()
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            if not change.caller.may(route.role, change.path):
                raise errors.forbidden(route.role.word, change.caller.name)
            outcome = route.handler(call)
            value = await outcome if isinstance(outcome, Awaitable) else outcome
            status = HTTPStatus.NO_CONTENT if value is None else HTTPStatus.OK
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

    def _health(self, request: WebRequest) -> bytes:
        # An alarm is no reason to be killed: the status stays 200, the words are for people.
        alarms = self._view.alarms
        health = {"status": "alarm", "alarms": alarms} if alarms else {"status": "ok"}
        return _write_json(request, HTTPStatus.OK, health)

    def _ready(self, request: WebRequest) -> bytes:
        # Whoever asks is about to send clients here.
        ready = self._view.serving
        draining = self._view.cluster.progress().refusing
        status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _write_json(request, status, {"ready": ready, "draining": True} if draining else {"ready": ready})

    def _render_metrics(self, request: WebRequest) -> bytes:
        request.setHeader("content-type", self._metrics.content_type)
        return self._metrics.render()


def _answer_later(request: WebRequest, outcome: Awaitable[object]) -> None:
    gone: list[bool] = []
    request.notifyFinish().addErrback(lambda _: gone.append(True))

    async def answer() -> None:
        try:
            value = await outcome
            body = _write_json(request, HTTPStatus.NO_CONTENT if value is None else HTTPStatus.OK, value)
        except Exception as error:  # noqa: BLE001 - as in render
            body = _failed(request, error)
        if not gone:
            request.write(body)
            request.finish()

    finished: Deferred[None] = ensureDeferred(answer())
    finished.addErrback(lambda failure: log.error("an answer could not be written: %s", failure.value))


def _failed(request: WebRequest, error: Exception) -> bytes:
    if isinstance(error, MqttError):
        error = errors.of_broker(error)
    if not isinstance(error, ApiError):
        log.error("unexpected error in the API", exc_info=error)
        detail = "the node's log says more"
        error = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)
    return _write_json(request, error.status, {"error": error.error, "detail": error.detail}, error.headers)


def _write_json(
    request: WebRequest, status: HTTPStatus, value: object, headers: Mapping[str, str] | None = None
) -> bytes:
    """Set status and headers; returns the body that has still to be written."""
    request.setResponseCode(status)
    for name, text in (headers or {}).items():
        request.setHeader(name, text)
    request.setHeader("cache-control", "no-store")
    request.setHeader("x-content-type-options", "nosniff")
    if status is HTTPStatus.NO_CONTENT:
        request.responseHeaders.removeHeader("content-type")
        return b""
    body = json.dumps(value, ensure_ascii=False, default=_fields_of).encode("utf-8", "replace") + b"\n"
    request.setHeader("content-type", _JSON)
    request.setHeader("content-length", str(len(body)))
    return body


def _fields_of(value: Any) -> object:
    """What is no JSON by itself."""
    return dict(value) if isinstance(value, Mapping) else asdict(value)
