"""Commands, as the API and the platform see them: asked for, found, taken back.

A command is a message of the ordinary durable session of its target. What is added is here and in the modules beside:
it leaves only after ``sent`` is committed (``departures``), and whatever ends it is told (``states``, ``book``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from iot_mqtt.devices.asked import IN_USE, Lets, NewCommand, NotHis, check_answer, repeats
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.devices import DeviceStore, StoredCommand, owner_of, replace

if TYPE_CHECKING:
    from iot_mqtt.broker.publishing.budget import Budget
    from iot_mqtt.devices.accepting import Accepting
    from iot_mqtt.devices.book import Book
    from iot_mqtt.devices.changes import Changes
    from iot_mqtt.devices.elsewhere import Elsewhere

#: Bytes of a target: with it, everything that is published about a command is a topic.
MAX_TARGET = 60_000


class Commands:
    """Of all nodes."""

    def __init__(
        self,
        book: Book,
        accepting: Accepting,
        elsewhere: Elsewhere,
        store: DeviceStore,
        changes: Changes,
        budget: Budget,
        *,
        lets: Lets,
        enabled: bool,
        max_levels: int,
    ) -> None:
        """``lets`` knows the rights of users in whose name commands are sent. ``enabled``: whether there are commands
        at all; if not, what is published to ``down/…`` is a message like others. ``max_levels``: of topics.
        """
        self._book = book
        self._accepting = accepting
        self._elsewhere = elsewhere
        self._store = store
        self._changes = changes
        self._budget = budget
        self._lets = lets
        self._enabled = enabled
        self._max_levels = max_levels

    async def submit(self, new: NewCommand, sender: str = "") -> StoredCommand:
        """Accept a command and return when it is committed; or the one that it repeats. Raises ``Refused``."""
        _check_target(new.target, self._max_levels)
        if not self._enabled:
            why = "commands are turned off here: devices.commands is false"
            raise Refused(why, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        self._check_rights(new)
        before = await self._accepted_elsewhere(new)
        if before is not None:
            return before
        if self._budget.full:
            raise Refused("the disk is full", ReasonCode.QUOTA_EXCEEDED)
        record, _ = self._accepting.accept(new, sender, new.user, None)
        await self._changes.settled()
        tracked = self._book.get(record.owner, record.id)
        return record if tracked is None else tracked.record

    def _check_rights(self, new: NewCommand) -> None:
        for user in new.users:
            if not self._lets(user, "command", new.target):
                raise NotHis(f"{user} may not send commands to {new.target!r}")
            check_answer(self._lets, user, new.response_topic)

    async def _accepted_elsewhere(self, new: NewCommand) -> StoredCommand | None:
        """The same command, whose target is at home on another node, or was. Nothing is awaited on a sole node."""
        place = self._elsewhere.place_of(new.target, new.id)
        record = None if place is None else await self._store.command(*place)
        if record is not None and not repeats(new, new.user, record):
            raise Refused(IN_USE, ReasonCode.PAYLOAD_FORMAT_INVALID)
        return record

    async def named(self, command_id: str, target: str | None = None) -> list[StoredCommand]:
        """The commands of this id, wherever they are at home; each client has one at most. ``target``: only the one to
        it, which is found sooner.
        """
        found = {tracked.record.owner: tracked.record for tracked in self._book.named(command_id)}
        if self._elsewhere.clustered:
            async for record in self._stored(command_id, target):
                found.setdefault(record.owner, record)
        return [record for record in found.values() if target is None or record.target == target]

    async def _stored(self, command_id: str, target: str | None) -> AsyncIterator[StoredCommand]:
        if target is None:
            async for record in self._store.commands():
                if record.id == command_id:
                    yield record
        elif (one := await self._store.command(owner_of(target), command_id)) is not None:
            yield one

    async def with_body(self, record: StoredCommand) -> StoredCommand:
        return replace(record, body=await self._store.body(record.owner, record.id))

    async def page(
        self, target: str | None, state: str | None, after: tuple[str, str] | None, limit: int
    ) -> list[StoredCommand]:
        """The next ones by target's client and id."""
        found: list[StoredCommand] = []
        owner = None if target is None else owner_of(target)
        async for record in self._store.commands(owner):
            place = (record.owner, record.id)
            if after is not None and _order(place) <= _order(after):
                continue
            if target is not None and record.target != target and not record.target.startswith(target + "/"):
                continue
            if state is not None and record.state.value != state:
                continue
            found.append(record)
            if len(found) == limit:
                break
        return found

    async def cancel(self, record: StoredCommand) -> None:
        """Take back what was not sent. Raises ``Refused`` for what was."""
        if self._book.get(record.owner, record.id) is None:
            await self._elsewhere.cancel(record)
            return
        self._book.cancel(record.owner, record.id)
        await self._changes.settled()


def _check_target(target: str, most_levels: int) -> None:
    """It is part of topics: of the command's, and of those that its states are told on."""
    if not owner_of(target) or "+" in target or "#" in target or "\0" in target:
        why = f"{target[:100]!r} is no target: name a client, or GATEWAY/DEVICE"
        raise Refused(why, ReasonCode.TOPIC_NAME_INVALID)
    size, levels = len(target.encode("utf-8", "replace")), target.count("/") + 1
    for number, most, unit in ((size, MAX_TARGET, "bytes"), (levels, most_levels - 2, "levels")):
        if number > most:
            why = f"the target is too long: {number} {unit}, more than {most}"
            raise Refused(why, ReasonCode.TOPIC_NAME_INVALID)


def _order(place: tuple[str, str]) -> tuple[int, bytes, str]:
    """As the keys of the store are ordered: by the length of the client id first."""
    name = place[0].encode()
    return len(name), name, place[1]
