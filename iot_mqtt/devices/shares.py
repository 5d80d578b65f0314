"""How many commands wait, and whose they are: the last of the room is for those who have had little of it.

::

    0 ───────────▶ 3/4 ───────────────────────────────────────────────────────────────────────────▶ max_commands
      anybody          a sender (a user, over all its clients) with less than a quarter,
                       for a target (a client, with what is behind it) with less than a half

Those without a verified user are one sender, and so is the operator.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.ports.devices import OPERATOR, StoredCommand

K = TypeVar("K")

#: Into so many shares the room is divided; one such of a sender is kept.
OF_SENDER = 4
OF_TARGET = 2


class Shares:
    """Of one node's commands that are not over."""

    def __init__(self, settings: DevicesSettings) -> None:
        self._settings = settings
        self.waiting = 0
        self._by_sender: Counter[str | None] = Counter()
        self._by_target: Counter[str] = Counter()

    def refusal(self, user: str | None, owner: str) -> str | None:
        """Why there is no room for one more of this sender to this client; None: there is."""
        most = self._settings.max_commands
        if self.waiting >= most:
            return "too many commands are waiting"
        if self.waiting < most - most // OF_SENDER:
            return None
        sent, behind = self._by_sender[user], self._by_target[owner]
        if sent >= _share(most, OF_SENDER):
            return f"{_named(user)} has {sent} commands waiting; the last of {most} are for others"
        if behind >= _share(most, OF_TARGET):
            return f"for {owner} {behind} commands wait; the last of {most} are for others"
        return None

    def add(self, record: StoredCommand) -> None:
        self._change(record, 1)

    def remove(self, record: StoredCommand) -> None:
        self._change(record, -1)

    def _change(self, record: StoredCommand, by: int) -> None:
        self.waiting += by
        _count(self._by_sender, record.user, by)
        _count(self._by_target, record.owner, by)


def _count(counter: Counter[K], key: K, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]


def _share(most: int, parts: int) -> int:
    return -(-most // parts)


def _named(user: str | None) -> str:
    if user == OPERATOR:
        return "the operator"
    return user or "whoever has no user"
