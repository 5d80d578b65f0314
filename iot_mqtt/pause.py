"""Waiting for nothing but time, in a coroutine: ``deferLater`` for a ``Clock``."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred

from iot_mqtt.ports.clock import Clock


def pause(clock: Clock, seconds: float) -> Deferred[None]:
    """Fires so much later; after 0 seconds when everybody else had a turn. Nothing ends it sooner."""
    over: Deferred[None] = Deferred()
    clock.call_later(seconds, partial(over.callback, None))
    return over
