"""Where the configuration, read once more, crosses into the reactor: its files may be slow, so a thread reads them.

::

    ctl uplink reload ──▶ read() ──▶ thread: the layers of the start ──▶ reactor: what is told now

One read at a time: what was read first is not put in force last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TookTooLong
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from iot_mqtt.app.config.reading import LoadedConfig
from iot_mqtt.errors import Unavailable

#: The whole configuration once more, in the layers of the start. Raises ``ConfigError``.
Reread = Callable[[], LoadedConfig]

#: Seconds for an answer; a file system that hangs keeps one thread, and no caller.
PATIENCE = 10.0


class Rereading:
    """Of one life of a node."""

    def __init__(self, reread: Reread, reactor: Any) -> None:
        self._reread = reread
        self._reactor = reactor
        self._reading = False

    async def read(self) -> LoadedConfig:
        """``ConfigError`` as ``read_config``; ``Unavailable`` when the files do not come, or somebody reads them."""
        if self._reading:
            raise Unavailable("the configuration is being read already; try again")
        self._reading = True
        answer: Deferred[LoadedConfig] = Deferred()
        answer.addTimeout(PATIENCE, self._reactor)

        def come(outcome: LoadedConfig | Failure) -> None:
            self._reading = False
            if not answer.called:
                answer.callback(outcome)  # a failure goes to the errbacks

        reading: Deferred[LoadedConfig] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._reread)
        reading.addBoth(come)
        try:
            return await answer
        except TookTooLong as error:
            raise Unavailable("the configuration cannot be read: its file system does not answer") from error
