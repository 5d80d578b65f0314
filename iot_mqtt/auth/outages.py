"""Whether a service that is asked who clients are does answer: what the log and the alarms say of it.

A question that fails says little, as a client may cause that by its name alone. So an outage begins when questions from
several addresses failed in a row, or all of a minute did; and it is over when several addresses were answered in a row,
or no question failed for a minute after an answer.
"""

from __future__ import annotations

import logging
from typing import Final

from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock, Timer

log = logging.getLogger(__name__)

#: Addresses in a row, or seconds, that make an outage begin or end.
ADDRESSES: Final = 3
LONG: Final = 60.0
#: Seconds between two lines in the log about questions that failed.
SELDOM: Final = 10.0


class Outage:
    """Of one service. ``cause``: why it does not answer, during an outage."""

    def __init__(self, service: str, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self.cause: str | None = None
        #: Why the last question failed, if it did.
        self.last: str | None = None
        #: Whose questions in a row came out otherwise than before, and since when.
        self._row: set[object] = set()
        self._since = 0.0
        #: What the log said last of a question that failed, until one is answered; and when.
        self._said: str | None = None
        self._said_at = -SELDOM
        self._timer: Timer | None = None

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        if self.cause is None:
            return ()
        return (Alarm(AlarmKind.ACCESS_SERVICE, f"{self._service} does not answer: {self.cause}", self.cause),)

    def close(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def failed(self, source: str | None, why: str) -> None:
        """A question for a client of this address failed; None: it could not be asked, which is no client's doing."""
        self.last = why
        if self.cause is not None:
            self.close()
            self._row.clear()
            if self._may_say(why):
                self._begin(why)
            return
        self._add(object() if source is None else source)
        if len(self._row) >= ADDRESSES or self._clock.monotonic() - self._since >= LONG:
            self._begin(why)
        elif self._may_say(why):
            self._say("a question was not answered by %s: %s", why)

    def answered(self, source: str) -> None:
        """A question for a client of this address was answered."""
        self.last = None
        if self.cause is None:
            self._row.clear()
            self._said = None
            return
        self._add(source)
        if len(self._row) >= ADDRESSES:
            self._end()
        elif self._timer is None:
            self._timer = self._clock.call_later(LONG, self._end)

    def _begin(self, why: str) -> None:
        """An outage begins, or has another cause."""
        self._row.clear()
        self.cause = why
        self._say("%s does not answer, and lets nobody in: %s", why)

    def _end(self) -> None:
        self.close()
        self._row.clear()
        self.cause = self._said = None
        log.warning("%s answers again", self._service)

    def _add(self, source: object) -> None:
        if not self._row:
            self._since = self._clock.monotonic()
        self._row.add(source)

    def _may_say(self, why: str) -> bool:
        return why != self._said and self._clock.monotonic() - self._said_at >= SELDOM

    def _say(self, words: str, why: str) -> None:
        self._said, self._said_at = why, self._clock.monotonic()
        log.warning(words, self._service, why)
