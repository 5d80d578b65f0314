"""The parts of groups that this node gives out, by the log that they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from iot_mqtt.broker.shared_groups.groups import Groups
from iot_mqtt.broker.shared_groups.loader import GroupLoader
from iot_mqtt.broker.shared_groups.names import split_name
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.broker.shared_groups.waiting import WaitingGroups
from iot_mqtt.ports.log import LogReader, Reference
from iot_mqtt.ports.store import Store, StoredGroup

#: (name, record) and (name, number, references)
Records: TypeAlias = tuple[list[tuple[str, StoredGroup]], list[tuple[str, int, list[Reference]]]]


class Parts:
    """Opens and closes those of one log after another."""

    def __init__(
        self,
        registry: Registry,
        groups: Groups,
        loader: GroupLoader,
        waiting: WaitingGroups,
        store: Store,
        plan_turn: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._groups = groups
        self._loader = loader
        self._waiting = waiting
        self._store = store
        self._plan_turn = plan_turn

    def has(self, writer: int) -> bool:
        """Whether the groups of a log are given out here."""
        return writer in self._registry.writers

    async def read(self, writer: int) -> Records:
        """What the store has of the groups of one log."""
        groups = [entry async for entry in self._store.groups() if split_name(entry[0]).writer == writer]
        shares = [entry async for entry in self._store.group_segments() if split_name(entry[0]).writer == writer]
        return groups, shares

    def restore(self, records: Records, log: LogReader | None = None, *, keep: bool = False) -> None:
        """Groups from their records; those of groups that are no more go, unless they are to be kept."""
        groups, shares = records
        for name, stored in groups:
            if not self._loader.restore(name, stored, log) and not keep:
                self._store.remove_group(name)
        for name, number, references in shares:
            if not self._loader.restore_share(name, number, references) and not keep:
                self._store.remove_group_segment(name, number)

    def open(self, writer: int, log: LogReader, records: Records) -> None:
        """Give out what groups are owed of a log, from where they were."""
        self._registry.writers.add(writer)
        self.restore(records, log)
        self._groups.open_waiting(log)
        opened = [cursor for cursor in self._registry.parts() if cursor.log is log]
        self._loader.settle(opened)
        self._waiting.tell()
        for cursor in opened:
            cursor.read_on()
        self._groups.count_unread()
        self._plan_turn()

    def close(self, writer: int) -> None:
        """The node that writes this log gives it out by itself again. Our members go on with what they have."""
        self._registry.writers.discard(writer)
        for cursor in self._registry.of_log(writer):
            self._groups.give_up(cursor)
        self._plan_turn()

    def grew(self, writer: int) -> None:
        """There may be more in another node's log."""
        if writer in self._registry.writers:
            for cursor in self._registry.of_log(writer):
                cursor.grew()
            self._groups.count_unread()
