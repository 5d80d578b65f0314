"""Retained messages that others set or removed: told over the links, and read in the store where that was missed.

What is told may be missed, and what is in no store yet is not read there. So a node tells again what is not committed
when a link begins anew, before it says all that it wants; and whoever hears all of that reads the store then. It also
tells again what was committed late, which others may have taken for removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iot_mqtt.broker.cluster.retained_versions import RetainedVersions
from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.ports.clock import Clock
from iot_mqtt.values import Message

log = logging.getLogger(__name__)

#: Seconds until the store is read: several links may have begun anew.
SOON = 0.1


class RetainedSync:
    """Of one node with the others."""

    def __init__(self, retention: Retention, versions: RetainedVersions, clock: Clock) -> None:
        self._retention = retention
        self._versions = versions
        self._clock = clock
        #: Nothing that others retained was missed, or it is about to be read.
        self._current = True

    def retained(self, peer: int, topic: bytes, message: Message | None, version: int) -> None:
        """See ``ports.cluster.Node``."""
        self._retention.heard(topic, message, version)

    def begins_anew(self) -> None:
        """The link with a peer: either side may have missed something."""
        self._tell_again(self._versions.uncommitted())
        self.missed()

    def committed(self) -> None:
        """A commit is over."""
        if late := self._versions.committed():
            self._tell_again(late)

    def _tell_again(self, topics: Iterable[bytes]) -> None:
        self._versions.tell_again(topics, self._retention.index.get)

    def missed(self) -> None:
        """Some of what others retained may not have come."""
        if self._current:
            self._current = False
            self._clock.call_later(SOON, self._catch_up)

    def _catch_up(self) -> None:
        """Read them again; what breaks from now on makes it be done once more."""
        self._current = True
        drive(self._retention.catch_up(), done, self._not_caught_up)

    def _not_caught_up(self, error: BaseException) -> None:
        log.error("retained messages cannot be read, trying again: %s", error)
        self._current = False
        self._clock.call_later(RETRY_SECONDS, self._catch_up)
