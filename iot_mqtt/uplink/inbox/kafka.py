"""The inbox over Kafka, as the reactor's thread sees it: nothing here waits for anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred

from iot_mqtt.ports.inbox import Buried, InboxFacts, Letter, Reader
from iot_mqtt.thread_bridge import Cross, Job, ThreadBridge
from iot_mqtt.uplink.inbox.consuming import Consuming
from iot_mqtt.uplink.inbox.settings import InboxSettings

#: Seconds without a word from the thread; it says something every second, unless it waits for Kafka itself.
SILENT_SECONDS = 4.5


class KafkaInbox:
    """A ``ports.inbox.Inbox``. ``cross`` runs a call in the reactor's thread."""

    def __init__(
        self, settings: InboxSettings, cross: Cross, monotonic: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._monotonic = monotonic
        self._bridge: ThreadBridge[Job] = ThreadBridge("commands", cross)
        self._consuming = Consuming(settings, self._bridge, self, monotonic, wall)
        self._reader: Reader | None = None
        self._trouble: str | None = None
        self._facts = InboxFacts(
            settings.topic, settings.group, joined=False, partitions=(), lag=0, commits=0, restarts=0
        )
        self._heard_at = 0.0
        self._begun = self._ended = False
        self._closed: Deferred[None] = Deferred()

    # As the inbox.

    @property
    def trouble(self) -> str | None:
        silent = self._monotonic() - self._heard_at
        if self._begun and not self._ended and silent >= SILENT_SECONDS:
            return f"Kafka has not answered for {silent:.0f} s"
        return self._trouble

    def begin(self, reader: Reader) -> None:
        self._reader = reader
        self._begun = True
        self._heard_at = self._monotonic()
        self._bridge.start(self._consuming.run)

    def settled(self, partition: int, position: int) -> None:
        self._bridge.put(partial(self._consuming.settled, partition, position))

    def bury(self, letter: Letter, reason: str, buried: Buried) -> None:
        self._bridge.put(partial(self._consuming.bury, letter, reason, buried))

    def hold(self) -> None:
        self._bridge.put(partial(self._consuming.hold, True))  # noqa: FBT003 - the one argument

    def go_on(self) -> None:
        self._bridge.put(partial(self._consuming.hold, False))  # noqa: FBT003 - the one argument

    def facts(self) -> InboxFacts:
        return self._facts

    async def close(self) -> None:
        if not self._begun or self._ended:
            return
        self._bridge.put(partial(self._consuming.end, False))  # noqa: FBT003 - the one argument
        await self._closed

    def abandon(self) -> None:
        self._reader = None
        self._bridge.put(partial(self._consuming.end, True))  # noqa: FBT003 - the one argument

    # As the owner of the thread.

    def heard(self, trouble: str | None, facts: InboxFacts) -> None:
        self._trouble, self._facts, self._heard_at = trouble, facts, self._monotonic()

    def assigned(self, partitions: Sequence[int]) -> None:
        if self._reader is not None:
            self._reader.assigned(partitions)

    def came(self, letters: Sequence[Letter]) -> None:
        if self._reader is not None:
            self._reader.came(letters)

    def revoked(self, partitions: Sequence[int], done: Callable[[], None]) -> None:
        if self._reader is None:
            done()
        else:
            self._reader.revoked(partitions, done)

    def lost(self, partitions: Sequence[int]) -> None:
        if self._reader is not None:
            self._reader.lost(partitions)

    def ended(self) -> None:
        self._ended = True
        if not self._closed.called:
            self._closed.callback(None)
