"""Waiting for nothing but time, in a coroutine: ``deferLater`` for a ``Clock``."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred

from iot_mqtt.ports.clock import Clock


def pause(clock: Clock, seconds: float) -> Deferred[None]:
    """Fires so much later, unless it is cancelled; after 0 seconds when everybody else had a turn."""
    over: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = clock.call_later(seconds, partial(over.callback, None))
    return over
