# Twisted's HTTP server has few annotations.
# mypy: disable-error-code="no-untyped-call,misc"
"""A request to the admin port: what of its body is kept, what it is for, and when it is answered."""

from __future__ import annotations

import time
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final

from twisted.web.server import Request

from iot_mqtt.admin.answers import failed, without_body
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.turns import Turns

__all__ = ["UNKNOWN_BODY", "AdminRequest"]

#: Of somebody who is not known (yet): enough to log in, and for a page whose login this node has not heard of.
UNKNOWN_BODY: Final = 16 * 1024
#: What says whether a node lives waits for nothing: it takes no more time than to look whether there is any.
PROBES: Final = (b"/health", b"/ready")


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


class AdminRequest(Request):
    """A request whose body is kept only as far as it is known who sends it, and that is answered in its turn."""

    #: When all of it was here.
    asked_at = 0.0

    def gotLength(self, length: int | None) -> None:
        """The headers are there: make what the body is written to, never a temporary file."""
        channel: Any = self.channel
        site = channel.site
        self.content = _Body(0 if length == 0 else site.root.room_for(self))

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """All of it is here."""
        super().requestReceived(command, self._in_origin_form(path), version)

    def _in_origin_form(self, target: bytes) -> bytes:
        """The path and query of a target that names its host, which counts as Host then (RFC 9112, 3.2.2)."""
        scheme, separator, rest = target.partition(b"://")
        if not separator or scheme.lower() not in (b"http", b"https"):
            return target
        end = min((at for at in map(rest.find, (b"/", b"?")) if at >= 0), default=len(rest))
        self.requestHeaders.setRawHeaders(b"host", [rest[:end]])
        return rest[end:] if rest[end:].startswith(b"/") else b"/" + rest[end:]

    def process(self) -> None:
        """Answer it, or wait until it is its turn."""
        self.asked_at = time.monotonic()
        channel: Any = self.channel
        turns: Turns = channel.doorkeeper.turns
        if self.path in PROBES or turns.open:
            self._answer()
            return
        try:
            turn = turns.next()
        except ApiError as busy:
            body = failed(self, busy)
            self.write(without_body(self, body) if self.method == b"HEAD" else body)
            self.finish()
            return
        self.notifyFinish().addErrback(lambda _: turn.cancel())
        # Cancelled: nobody is there any more.
        turn.addCallbacks(lambda _: self._answer(), lambda _: None)

    def _answer(self) -> None:
        channel: Any = self.channel
        channel.answering = True
        super().process()

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        """Twisted does not know the names of all."""
        super().setResponseCode(code, message or HTTPStatus(code).phrase.encode())
