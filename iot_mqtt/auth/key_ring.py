"""The keys of the link ``jwt``: from files that are watched, and from an address that is asked again and again.

What was fetched stays until something better is. A token that names a key nobody knows makes the address be asked at
once, but no more often than every ``SOONEST`` seconds, and all who wait for it wait for the same answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.auth.files import WatchedFile
from iot_mqtt.auth.token_keys import TokenKey, keys_of
from iot_mqtt.auth.web import Web, WebError
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock, Timer

log = logging.getLogger(__name__)

_STAY: Final = "keys for tokens cannot be fetched, those of before stay: "

#: Seconds between two fetches that tokens ask for, and until one that failed is tried again.
SOONEST: Final = 10.0
#: Bytes of a JWKS, and seconds that it may take.
LARGEST: Final = 256 * 1024
PATIENCE: Final = 5.0


class KeyRing:
    """All keys. ``begin`` fetches for the first time; ``close`` ends it."""

    def __init__(
        self,
        files: Sequence[WatchedFile[tuple[TokenKey, ...]]],
        clock: Clock,
        web: Web | None = None,
        url: str | None = None,
        refresh: float = 300.0,
    ) -> None:
        self.files = tuple(files)
        self._clock = clock
        self._web = web
        self._url = url
        self._refresh = refresh
        self._fetched: tuple[TokenKey, ...] = ()
        self._waiting: list[Deferred[None]] | None = None
        self._tried: float | None = None
        self._timer: Timer | None = None
        self._closed = False
        self.trouble: str | None = None

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        if self.trouble is None:
            return ()
        return (Alarm(AlarmKind.ACCESS_SERVICE, self.trouble, self.trouble.removeprefix(_STAY)),)

    def now(self) -> tuple[TokenKey, ...]:
        return (*(key for file in self.files for key in file.content), *self._fetched)

    def begin(self) -> None:
        if self._url is not None:
            self._fetch()

    def close(self) -> None:
        self._closed = True
        self._cancel()

    async def renew(self) -> None:
        if self._url is None or self._closed:
            return
        if self._waiting is None and (self._tried is None or self._clock.monotonic() - self._tried >= SOONEST):
            self._fetch()
        if self._waiting is not None:
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting

    def _fetch(self) -> None:
        self._cancel()
        self._waiting = []
        self._tried = self._clock.monotonic()
        ensureDeferred(self._get()).addCallbacks(self._take, self._failed)

    async def _get(self) -> tuple[TokenKey, ...]:
        assert self._web is not None and self._url is not None
        status, body = await self._web.get(self._url, PATIENCE, LARGEST)
        if status != 200:
            raise WebError(f"the answer was {status}")
        found = tuple(keys_of(body, secrets=False))
        if not found:
            raise ValueError("holds no key that can be used")
        return found

    def _take(self, keys: tuple[TokenKey, ...]) -> None:
        if self.trouble is not None:
            log.warning("keys for tokens were fetched again")
        self._fetched, self.trouble = keys, None
        self._over(self._refresh)

    def _failed(self, failure: Failure) -> None:
        failure.trap(WebError, ValueError)
        trouble = _STAY + failure.getErrorMessage()
        if trouble != self.trouble:
            log.warning("%s", trouble)
        self.trouble = trouble
        self._over(min(SOONEST, self._refresh))

    def _over(self, again: float) -> None:
        waiting, self._waiting = self._waiting or [], None
        if not self._closed:
            self._timer = self._clock.call_later(again, self._fetch)
        for one in waiting:
            one.callback(None)

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
