"""Errors of the API as RFC 9457 has them: a status, a word for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, TypeVar

from iot_mqtt.errors import MqttError, ReasonCode, Unavailable
from iot_mqtt.ports.directory import Conflict

Value = TypeVar("Value")

#: Of what the broker refuses for one of these reasons; for any other it is a bad request.
_STATUSES: Final = {
    ReasonCode.NOT_AUTHORIZED: HTTPStatus.FORBIDDEN,
    ReasonCode.QUOTA_EXCEEDED: HTTPStatus.CONFLICT,
    ReasonCode.SERVER_BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
}
#: Before the word of an error: its type. It is a name, and no place to look it up.
TYPE: Final = "urn:iot-mqtt:problem:"


class ApiError(Exception):
    """Answered as a problem with its status. ``more``: further members of it."""

    def __init__(
        self,
        status: HTTPStatus,
        error: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.more = dict(more or {})
        self.status = status
        self.error = error
        self.detail = detail
        self.headers = dict(headers or {})

    def problem(self) -> dict[str, object]:
        """The body of the answer; ``error`` is the word that the type ends with."""
        status = self.status
        plain = {"title": status.phrase, "status": int(status), "detail": self.detail, "error": self.error}
        return {"type": f"{TYPE}{self.error}", **plain, **self.more}


def bad_request(detail: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "bad_request", detail)


def bad_cursor() -> ApiError:
    return bad_request("after must be what the page before gave")


@contextmanager
def bad_request_if(*errors: type[Exception], about: str = "") -> Iterator[None]:
    """What raises one of these was asked for wrongly: it is a bad request, in the words of the error."""
    try:
        yield
    except errors as error:
        raise bad_request(f"{about}{error}") from error


def not_found(detail: str) -> ApiError:
    return ApiError(HTTPStatus.NOT_FOUND, "not_found", detail)


def conflict(detail: str) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, "conflict", detail)


def existing(found: Value | None, otherwise: str) -> Value:
    """What was found; 404 if it is nothing."""
    if found is None:
        raise not_found(otherwise)
    return found


def unauthorized(shown: str | None = None) -> ApiError:
    """``shown``: the header ``Authorization`` as it came. The words are the same for all tokens that nobody knows."""
    kind, _, token = (shown or "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        detail = (
            "the token is not known here: it is another node's, is over, or was deleted; "
            "this node's own is in <node.data_dir>/admin.token"
        )
    else:
        detail = (
            "needs the header 'Authorization: Bearer TOKEN', or the cookie of POST /api/v1/login; "
            "the token is in <node.data_dir>/admin.token"
        )
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})


def forbidden(role: str, name: str) -> ApiError:
    detail = f"{name} may not do this: it needs the role {role}, and a scope that has this path"
    return ApiError(HTTPStatus.FORBIDDEN, "forbidden", detail)


def beyond(detail: str) -> ApiError:
    """Who may call this may not do that with it."""
    return ApiError(HTTPStatus.FORBIDDEN, "forbidden", detail)


def too_large(limit: int) -> ApiError:
    detail = f"the body is longer than {limit} bytes"
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", detail)


def method_not_allowed(method: str, allowed: str) -> ApiError:
    detail = f"{method} is not possible here, only {allowed}"
    return ApiError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", detail, {"Allow": allowed})


def of_broker(error: MqttError) -> ApiError:
    """What the broker would not do, as the API says it."""
    reason = error.reason.name.lower()
    if isinstance(error, Unavailable):
        return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, reason, error.detail)
    if isinstance(error, Conflict):
        return conflict(error.detail)
    return ApiError(_STATUSES.get(error.reason, HTTPStatus.BAD_REQUEST), reason, error.detail)
