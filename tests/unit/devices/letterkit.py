"""An inbox in memory: a topic with partitions, positions, and what was buried."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from iot_mqtt.devices.letters import Letters
from iot_mqtt.ports.inbox import Buried, InboxFacts, Letter, Reader
from tests.unit.devices.devicekit import DeviceNode

TOPIC = "iot.commands"
MAX_AGE = 3600.0


class MemoryInbox:
    """What was written, and how far it is settled; all of it outlives a node."""

    def __init__(self) -> None:
        self.topic: dict[int, list[Letter]] = {}
        self.kept: dict[int, int] = {}
        self.buried: list[tuple[Letter, str]] = []
        self.refusing: Exception | None = None
        self.held = self.closed = False
        self.trouble: str | None = None
        self._reader: Reader | None = None
        self._brought: dict[int, int] = {}

    def write(self, now: float, value: object, partition: int = 0) -> Letter:
        """One more letter; anything but bytes is made JSON."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        letters = self.topic.setdefault(partition, [])
        letters.append(Letter(TOPIC, partition, len(letters), b"key", data, now))
        return letters[-1]

    def bring(self) -> None:
        """What was not brought in this life."""
        assert self._reader is not None
        fresh = [partition for partition in self.topic if partition not in self._brought]
        if fresh:
            self._reader.assigned(fresh)
        for partition, letters in self.topic.items():
            begin = self._brought.setdefault(partition, self.kept.get(partition, 0))
            self._brought[partition] = len(letters)
            self._reader.came(letters[begin:])

    def take_away(self, *partitions: int, done: Callable[[], None] = lambda: None) -> None:
        """Another node gets these."""
        assert self._reader is not None
        for partition in partitions:
            self._brought.pop(partition, None)
        self._reader.revoked(partitions, done)

    # As an inbox.

    def begin(self, reader: Reader) -> None:
        self._reader, self._brought, self.held = reader, {}, False

    def settled(self, partition: int, position: int) -> None:
        assert position > self.kept.get(partition, 0), "a position went back"
        self.kept[partition] = position

    def bury(self, letter: Letter, reason: str, buried: Buried) -> None:
        if self.refusing is None:
            self.buried.append((letter, reason))
        buried(self.refusing)

    def hold(self) -> None:
        self.held = True

    def go_on(self) -> None:
        self.held = False

    def facts(self) -> InboxFacts:
        return InboxFacts(TOPIC, "group", True, tuple(self._brought), 0, 0, 0)

    async def close(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        self._reader = None


class LetterNode(DeviceNode):
    """A node that takes commands from such an inbox."""

    def __init__(self, *, letters_of: str | None = None, **rest: Any) -> None:
        self.inbox = MemoryInbox()
        self.letters_of = letters_of
        super().__init__(**rest)

    def _begin(self) -> None:
        super()._begin()
        commands, turn = self.accompanied.commands, self.broker.turn
        self.letters = Letters(commands, self.inbox, turn, self.clock, MAX_AGE, self.letters_of)
        self.letters.begin()

    def order(self, target: str = "d1", body: object = None, *, partition: int = 0, **fields: object) -> Letter:
        """A letter that is a command, written now."""
        return self.inbox.write(self.clock.wall(), {"target": target, "body": body, **fields}, partition)

    def bring(self) -> None:
        """A moment later."""
        self.advance(0.1)
        self.inbox.bring()
        self.turn()
