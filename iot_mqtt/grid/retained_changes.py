"""What is new of retained messages since the last batch: of each topic what it has in the end, and nothing before."""

from __future__ import annotations

from collections.abc import Mapping

from iot_mqtt.grid.records.keys import retained_key
from iot_mqtt.grid.records.retained import encode_retained
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.values import Message


class RetainedChanges:
    """Kept by topic until a batch takes them; ``len`` is how many there are."""

    def __init__(self) -> None:
        # None: it was removed.
        self._messages: dict[bytes, Message | None] = {}
        # Of those messages that have one.
        self._versions: dict[bytes, int] = {}
        # The highest number in the grid: messages without a version are numbered from there on.
        self._counter = 0

    def __len__(self) -> int:
        return len(self._messages)

    def save(self, message: Message, version: int) -> None:
        """It is the message of its topic now; ``version`` 0: it has none."""
        self._messages[message.topic] = message
        self._versions[message.topic] = version

    def save_all(self, messages: Mapping[bytes, Message]) -> None:
        """The same for several topics, without versions."""
        self._messages.update(messages)
        for topic in self._versions.keys() & messages.keys():
            del self._versions[topic]

    def remove(self, topic: bytes) -> None:
        """The topic has no message any more."""
        self._messages[topic] = None

    def number_after(self, counter: int) -> None:
        """The grid has a message of this number."""
        self._counter = max(self._counter, counter)

    def stage(self, batch: WriteBatch) -> None:
        """Put all of it into the batch; what comes from now on is for the next one."""
        messages, versions = self._messages, self._versions
        self._messages, self._versions = {}, {}
        counter, cache = self._counter, CacheName.RETAINED
        version_of = versions.get
        batch.operations += [
            (
                cache,
                retained_key(topic),
                None if message is None else encode_retained(message, 0, version_of(topic) or number),
            )
            for number, (topic, message) in enumerate(messages.items(), counter + 1)
        ]
        self._counter = counter + len(messages)
