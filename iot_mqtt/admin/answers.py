"""What a resource answered, as a response: an ``ApiError`` in its own words, the broker's errors translated, anything
else as 500 and a line of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.admin import errors
from iot_mqtt.admin.dashboard import Page
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.json_text import JsonText, as_json
from iot_mqtt.admin.routes import Answered
from iot_mqtt.admin.streams import Stream, begin_stream
from iot_mqtt.errors import MqttError

log = logging.getLogger(__name__)

#: ``twisted.web.server.Request``, whose methods have no annotations.
WebRequest = Any

_JSON, _PROBLEM = "application/json", "application/problem+json"


def status_of(value: object) -> HTTPStatus:
    """204 where there is nothing to say."""
    if isinstance(value, Answered) and value.status is not HTTPStatus.OK:
        return value.status
    empty = value is None or (isinstance(value, Answered) and value.value is None)
    return HTTPStatus.NO_CONTENT if empty else HTTPStatus.OK


def write(request: WebRequest, outcome: object) -> bytes:
    """The body of what was answered; status and headers are set. Bytes are a page that has its headers."""
    if isinstance(outcome, bytes):
        return outcome
    if isinstance(outcome, Page):
        return _write_page(request, outcome)
    if isinstance(outcome, Answered):
        return _write_json(request, status_of(outcome), outcome.value, outcome.headers)
    return _write_json(request, status_of(outcome), outcome)


def answer_later(request: WebRequest, outcome: Awaitable[object]) -> None:
    """Write what it will be, unless whoever asked is gone by then."""
    gone: list[bool] = []
    request.notifyFinish().addErrback(lambda _: gone.append(True))

    async def answer() -> None:
        try:
            value = await outcome
            if isinstance(value, Stream):
                if gone:
                    value.end()
                else:
                    begin_stream(request, value)
                return
            body = write(request, value)
        except Exception as error:  # noqa: BLE001 - as in render
            body = failed(request, error)
        if not gone:
            request.write(body)
            request.finish()

    finished: Deferred[None] = ensureDeferred(answer())
    finished.addErrback(lambda failure: log.error("an answer could not be written: %s", failure.value))


def failed(request: WebRequest, error: Exception) -> bytes:
    """The body of the answer to what could not be done."""
    if isinstance(error, MqttError):
        error = errors.of_broker(error)
    if not isinstance(error, ApiError):
        log.error("unexpected error in the API", exc_info=error)
        detail = "the node's log says more"
        error = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)
    return _write_json(request, error.status, error.problem(), {"content-type": _PROBLEM, **error.headers})


def without_body(request: WebRequest, body: bytes) -> bytes:
    """The answer to HEAD: the headers of GET. Twisted would drop it as well, with a warning in the log."""
    if body:
        request.setHeader("content-length", str(len(body)))
    return b""


def _write_page(request: WebRequest, page: Page) -> bytes:
    request.setResponseCode(page.status)
    for name, text in page.headers.items():
        request.setHeader(name, text)
    if page.status is not HTTPStatus.NOT_MODIFIED:
        request.setHeader("content-length", str(len(page.body)))
    return page.body


def _write_json(
    request: WebRequest, status: HTTPStatus, value: object, headers: Mapping[str, str] | None = None
) -> bytes:
    """Set status and headers; returns the body that has still to be written."""
    request.setResponseCode(status)
    request.setHeader("content-type", _JSON)
    for name, text in (headers or {}).items():
        request.setHeader(name, text)
    request.setHeader("cache-control", "no-store")
    request.setHeader("x-content-type-options", "nosniff")
    if status is HTTPStatus.NO_CONTENT:
        request.responseHeaders.removeHeader("content-type")
        return b""
    body = (value.text if isinstance(value, JsonText) else as_json(value)) + b"\n"
    request.setHeader("content-length", str(len(body)))
    return body
