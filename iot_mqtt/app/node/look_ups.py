"""Look-ups that may hang, each with a time limit: the rest of an answer does not wait for them, and names them.

All of them are under way at once, so that the limit is that of the whole answer. A look-up that is late is not
cancelled, for others may wait for the same entries: it ends by the time limits of whatever it waits for.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.errors import MqttError
from iot_mqtt.ports.clock import Clock, Timer

Found = TypeVar("Found")

#: Seconds: nodes that ask each other wait for 5.
WITHIN: Final = 2.0


class LookUps:
    """Of one answer."""

    def __init__(self, clock: Clock, within: float = WITHIN) -> None:
        self._clock = clock
        self._within = within
        #: What could not be found out, in words, in the order of the look-ups' ends.
        self.unanswered: list[str] = []

    def begin(self, what: str, look: Coroutine[Any, Any, Found], otherwise: Found) -> Deferred[Found]:
        """Begin now; fires with what is found, or with ``otherwise`` if it is late or raises ``MqttError``."""
        found: Deferred[Found] = Deferred()
        timer: list[Timer] = []

        def late() -> None:
            timer.clear()
            self.unanswered.append(what)
            found.callback(otherwise)

        def done(outcome: Found | Failure) -> None:
            if found.called:
                return
            for one in timer:
                one.cancel()
            if isinstance(outcome, Failure) and outcome.check(MqttError):
                self.unanswered.append(what)
                outcome = otherwise
            found.callback(outcome)

        timer.append(self._clock.call_later(self._within, late))
        ensureDeferred(look).addBoth(done)
        return found
