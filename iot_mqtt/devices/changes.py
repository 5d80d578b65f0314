"""What has changed of devices and commands in this turn, and what is to happen once that is committed.

A ``ports.store.CommitParticipant``: records go into the batch that also has the messages which they belong to. A record
that changes several times before its batch leaves is written once. It is encoded when it is staged: one that cannot be
is the trouble of whoever has it, and not of all whose changes are in the same batch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import done, drive
from iot_mqtt.ports.devices import DeviceStore, StoredCommand, StoredDevice, StoredSequence, StoredShadow
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.store import CommitOrder, Store

if TYPE_CHECKING:
    from iot_mqtt.broker.turn import Turn

log = logging.getLogger(__name__)


class Changes:
    """One node's."""

    __slots__ = (
        "_turn",
        "_commits",
        "_store",
        "_commands",
        "_bodies",
        "_devices",
        "_sequences",
        "_reported",
        "_waiting",
    )

    def __init__(self, turn: Turn, commits: Store, store: DeviceStore) -> None:
        """``commits``: what the batches of the node go through."""
        self._turn = turn
        self._commits = commits
        self._store = store
        #: What each record wants of the grid; by target and id.
        self._commands: dict[tuple[str, str], WriteBatch] = {}
        self._bodies = WriteBatch()
        self._devices: dict[tuple[str, str], WriteBatch] = {}
        self._sequences: dict[str, StoredSequence | None] = {}
        self._reported: dict[str, WriteBatch] = {}
        #: What waits for a commit, in the order of the tickets.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def begin(self) -> None:
        """Take part in commits from now on."""
        self._commits.enlist(CommitOrder.DEVICES, self)

    def command(self, command: StoredCommand, body: bytes | None = None) -> int:
        """A command is new or has changed; the ticket of its commit."""
        record = WriteBatch()
        self._store.put_command(record, command)
        if body is not None:
            self._store.put_body(self._bodies, command.target, command.id, body)
        self._commands[command.target, command.id] = record
        return self._turn.reserve()

    def swap_after(self, before: StoredCommand, after: StoredCommand) -> None:
        """Once what this turn has is committed, and if the command has not changed by then, on whichever node."""
        ticket = self._turn.reserve()

        def swap() -> None:
            drive(self._store.swap_command(before, after), done, _not_swapped)

        self.after(ticket, swap)

    def forget_command(self, command: StoredCommand) -> None:
        """It has been kept long enough."""
        record = self._commands[command.target, command.id] = WriteBatch()
        self._store.remove_command(record, command.target, command.id)
        self._turn.reserve()

    def device(self, device: StoredDevice) -> None:
        """A gateway or a device is new or has changed."""
        record = WriteBatch()
        self._store.put_device(record, device)
        self._devices[device.gateway, device.device] = record
        self._turn.reserve()

    def forget_device(self, gateway: str, device: str) -> None:
        """There are too many."""
        record = self._devices[gateway, device] = WriteBatch()
        self._store.remove_device(record, gateway, device)
        self._turn.reserve()

    def sequence(self, gateway: str, sequence: StoredSequence) -> None:
        """Everything of a gateway up to this number is in the batch of this turn, or was safe before."""
        self._sequences[gateway] = sequence
        self._turn.reserve()

    def forget_sequence(self, gateway: str) -> None:
        """Nothing of it is taken for a repetition any more."""
        self._sequences[gateway] = None
        self._turn.reserve()

    def reported(self, target: str, shadow: StoredShadow) -> None:
        """A device reported something."""
        record = WriteBatch()
        self._store.put_reported(record, target, shadow)
        self._reported[target] = record
        self._turn.reserve()

    def forget_reported(self, target: str) -> None:
        """Nothing was reported of it any more."""
        record = self._reported[target] = WriteBatch()
        self._store.remove_reported(record, target)
        self._turn.reserve()

    def after(self, ticket: int, call: Callable[[], None]) -> None:
        """Call it at the end of the turn in which this is committed, or of this one if it is."""
        if self.is_safe(ticket):
            self._turn.call_soon(call)
        else:
            self._waiting.append((ticket, call))

    @property
    def latest(self) -> int:
        """The commit of everything up to now."""
        return self._commits.latest

    def is_safe(self, ticket: int) -> bool:
        """Whether this commit is over."""
        return ticket <= self._commits.committed

    async def settled(self) -> None:
        """Everything up to now is committed when this returns."""
        await self._turn.settled()

    # As a participant in commits.

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Behind the log's pages: where a batch is not atomic, no sequence is safe whose readings are not. And whole,
        for readings without their sequence would come twice.
        """
        bodies, self._bodies = self._bodies, WriteBatch()
        commands, self._commands = self._commands, {}
        devices, self._devices = self._devices, {}
        reported, self._reported = self._reported, {}
        for record in (bodies, *commands.values(), *devices.values(), *reported.values()):
            batch.operations += record.operations
        sequences, self._sequences = self._sequences, {}
        for gateway, sequence in sequences.items():
            if sequence is None:
                self._store.remove_sequence(batch, gateway)
            else:
                self._store.put_sequence(batch, gateway, sequence)
                batch.whole = True

    def committed(self, ticket: int) -> None:
        """What waited goes on, but not in the middle of the commit's own end."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= ticket:
            self._turn.call_soon(waiting.popleft()[1])


def _not_swapped(error: BaseException) -> None:
    log.warning("that a command's end was told is not written; it will be told again: %s", error)
