"""How many commands wait, and whose they are: no sender, and no target, takes all the room that there is.

::

    one sender (a user, over all its clients)      at most a quarter of devices.max_commands
    one target (a client, with what is behind it)  at most a half: of no target has one sender all the room

Those without a verified user are one sender, and so is the operator. What one has beyond its share (accepted by another
node, or under another limit) takes no room of the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.ports.devices import OPERATOR, StoredCommand

K = TypeVar("K")

#: Into so many shares the room is divided.
OF_SENDER = 4
OF_TARGET = 2


class Shares:
    """Of one node's commands that are not over."""

    def __init__(self, settings: DevicesSettings) -> None:
        self._settings = settings
        self.waiting = 0
        #: Of these, those within their sender's share.
        self._within = 0
        self._by_sender: Counter[str | None] = Counter()
        self._by_target: Counter[str] = Counter()

    def refusal(self, user: str | None, owner: str) -> str | None:
        """Why there is no room for one more of this sender to this client; None: there is."""
        most, sent = self._settings.max_commands, self._by_sender[user]
        if sent >= _share(most, OF_SENDER):
            return f"{_named(user)} has {sent} commands waiting, and may have no more: a quarter of {most}"
        if self._by_target[owner] >= _share(most, OF_TARGET):
            return f"for {owner} as many commands wait as may for one client: a half of {most}"
        return "too many commands are waiting" if self._within >= most else None

    def add(self, record: StoredCommand) -> bool:
        """One more; whether it is within its sender's share, to be said when it is removed."""
        within = self._by_sender[record.user] < _share(self._settings.max_commands, OF_SENDER)
        self._change(record, within, 1)
        return within

    def remove(self, record: StoredCommand, *, within: bool) -> None:
        self._change(record, within, -1)

    def _change(self, record: StoredCommand, within: bool, by: int) -> None:
        self.waiting += by
        self._within += by if within else 0
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
