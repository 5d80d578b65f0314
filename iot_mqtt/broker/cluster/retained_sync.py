"""Retained messages that others set or removed: told over the links, and read in the store where that was missed."""

from __future__ import annotations

import logging

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.ports.clock import Clock
from iot_mqtt.values import Message

log = logging.getLogger(__name__)


class RetainedSync:
    """Of one node with the others."""

    def __init__(self, retention: Retention, clock: Clock) -> None:
        self._retention = retention
        self._clock = clock
        #: Nothing that others retained was missed, or it is about to be read.
        self._current = True

    def retained(self, peer: int, topic: bytes, message: Message | None, version: int) -> None:
        """See ``ports.cluster.Node``."""
        self._retention.heard(topic, message, version)

    def missed(self) -> None:
        """Some of it may not have come."""
        if self._current:
            self._current = False
            self._clock.call_later(0.0, self._catch_up)

    def _catch_up(self) -> None:
        """Read them again; what breaks from now on makes it be done once more."""
        self._current = True
        drive(self._retention.catch_up(), done, self._not_caught_up)

    def _not_caught_up(self, error: BaseException) -> None:
        log.error("retained messages cannot be read, trying again: %s", error)
        self._current = False
        self._clock.call_later(RETRY_SECONDS, self._catch_up)
