"""The commands whose target is at home on this node: their states, and what time does to them.

::

    queued ─▶ sent ─▶ acked | failed | uncertain          uncertain ─▶ acked | failed, if an answer comes after all
       └─▶ expired | failed

The node that has the session of a command's target decides what becomes of it: it is the one that sends it. Every
change is staged with the turn's batch and told when that is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import chain
from typing import Any

from iot_mqtt.devices.changes import Changes
from iot_mqtt.devices.replies import Replies, within, without_reply
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.devices.shares import Shares
from iot_mqtt.devices.telling import Telling
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.devices import State, StoredCommand, owner_of, replace
from iot_mqtt.ports.directory import Conflict

#: After a start, or a death, what changed in so many seconds before the last change is told again.
TOLD_AGAIN = 30.0
#: A command without a deadline that is not answered in so many seconds keeps no others from its gateway any more.
UNANSWERED = 60.0


class Tracked:
    """A command in memory."""

    __slots__ = ("record", "ticket", "left", "due", "_over")

    def __init__(self, record: StoredCommand) -> None:
        self.record = record
        #: The commit of ``sent``; 0: it was not sent in this life of the node.
        self.ticket = 0
        #: It has left, as far as anybody can know.
        self.left = record.attempts > 0
        #: When time does something to it.
        self.due = 0.0
        self._over: Callable[[], None] | None = None

    def call_when_over(self, over: Callable[[], None] | None) -> None:
        """Once, and instead of what was to be called before."""
        self._over = over

    def is_over(self) -> None:
        """It is, or it counts as if it were."""
        over, self._over = self._over, None
        if over is not None:
            over()

    @property
    def unsent(self) -> bool:
        """Whether it is certain that the device does not have it."""
        attempts = self.record.attempts
        return attempts == 0 or (attempts == 1 and not self.left)


class Book:
    """By owner and id, by id alone, and by idempotency key. Ids are unique among one client's commands."""

    def __init__(self, changes: Changes, telling: Telling, clock: Clock, settings: DevicesSettings) -> None:
        self._changes = changes
        self._telling = telling
        self._clock = clock
        self._settings = settings
        self._owners: dict[str, dict[str, Tracked]] = {}
        #: By id; by owner, too, where several clients have a command of the same.
        self._named: dict[str, Tracked | dict[str, Tracked]] = {}
        #: By target, sender's user and key.
        self._keys: dict[tuple[str, str | None, str], str] = {}
        #: (due, owner, id), the next first; entries whose command has another due time now are passed over.
        self._due: list[tuple[float, str, str]] = []
        #: (until, command) of those without a deadline that links wait for, oldest first.
        self._unanswered: deque[tuple[float, Tracked]] = deque()
        #: (kept from, owner, id) of those that are over, in the order of their ends.
        self._finished: deque[tuple[float, str, str]] = deque()
        self._replies = Replies()
        #: Those that are not over.
        self.shares = Shares(settings)
        #: By state, since the start.
        self.counts: dict[str, int] = {}

    # Finding.

    def get(self, owner: str, command_id: str) -> Tracked | None:
        """A command of one client."""
        owned = self._owners.get(owner)
        return None if owned is None else owned.get(command_id)

    def named(self, command_id: str) -> tuple[Tracked, ...]:
        """Those of all clients that have this id."""
        found = self._named.get(command_id)
        if found is None:
            return ()
        return tuple(found.values()) if isinstance(found, dict) else (found,)

    def same(self, target: str, key: str, user: str | None) -> Tracked | None:
        """The command that this user gave this idempotency key for the target; or somebody who is not known."""
        found = None
        if key:
            found = self._keys.get((target, user, key)) or self._keys.get((target, None, key))
        return None if found is None else self.get(owner_of(target), found)

    def live(self, owner: str) -> list[Tracked]:
        """What is not over for one client."""
        return [tracked for tracked in self._owners.get(owner, {}).values() if not tracked.record.state.final]

    def __iter__(self) -> Iterator[Tracked]:
        return chain.from_iterable(owned.values() for owned in self._owners.values())

    # Coming.

    def add(self, record: StoredCommand) -> Tracked:
        """A command is at home here from now on."""
        tracked = Tracked(record)
        self._owners.setdefault(record.owner, {})[record.id] = tracked
        named = self._named.setdefault(record.id, tracked)
        if named is not tracked:
            if not isinstance(named, dict):
                named = self._named[record.id] = {named.record.owner: named}
            named[record.owner] = tracked
        if record.idempotency_key:
            self._keys.setdefault(_key_of(record), record.id)
        if record.state.final:
            self._over(tracked)
        else:
            self.shares.add(record)
            self._schedule(tracked)
        return tracked

    def restore(self, records: Iterable[StoredCommand]) -> list[StoredCommand]:
        """What the store has; returns those whose last change may not have been told."""
        fresh = [record for record in records if self.get(record.owner, record.id) is None]
        fresh.sort(key=lambda record: record.changed_at)
        for record in fresh:
            self.add(record)
        return told_last(fresh)

    def ends_at(self, record: StoredCommand) -> float:
        """When it is given up at the latest."""
        longest = record.accepted_at + self._settings.longest_command
        return longest if record.deadline is None else min(longest, record.deadline)

    def kept_until(self, record: StoredCommand) -> float:
        """How long one that is over can be asked for."""
        return record.kept_from + self._settings.keep_commands

    def is_forgotten(self, since: float, now: float) -> bool:
        """Whether one may be unknown that came then and is over."""
        return since + self._settings.keep_commands <= now

    def _schedule(self, tracked: Tracked) -> None:
        record, due = tracked.record, self.ends_at(tracked.record)
        if record.deadline is None and tracked.left and not tracked.ticket and not record.retry:
            # It was sent in another life, over a connection that is gone.
            due = min(due, self._clock.wall() + self._settings.grace)
        self._set_due(tracked, due)

    def _set_due(self, tracked: Tracked, due: float) -> None:
        tracked.due = due
        heappush(self._due, (due, tracked.record.owner, tracked.record.id))

    # States.

    def write(self, record: StoredCommand, body: bytes | None = None) -> int:
        """Stage a record as it is, and tell it after the commit; the ticket of that."""
        ticket = self._changes.command(record, body)
        self.counts[record.state] = self.counts.get(record.state, 0) + 1
        self._changes.after(ticket, partial(self.tell, record))
        return ticket

    def tell(self, record: StoredCommand) -> None:
        """What was committed."""
        self._telling.tell(record)
        if record.untold:
            told = replace(record, untold=False)
            tracked = self.get(record.owner, record.id)
            if tracked is not None and tracked.record is record:
                tracked.record = told
            self._changes.swap_after(record, told)

    def sent(self, tracked: Tracked) -> int:
        """It is about to leave, for the first time or again; it may when the ticket is committed."""
        record = tracked.record
        again = record.attempts > 0
        tracked.ticket = self.change(
            tracked, State.SENT, "sent again" if again else "", attempts=record.attempts + 1, due=again
        )
        return tracked.ticket

    def call_when_over(self, tracked: Tracked, over: Callable[[], None]) -> None:
        """When it has its end, or, if it has no deadline, has not been answered for long. ``over`` changes nothing
        here.
        """
        tracked.call_when_over(over)
        if tracked.record.deadline is None:
            self._unanswered.append((self._clock.wall() + UNANSWERED, tracked))

    def change(
        self,
        tracked: Tracked,
        state: State,
        detail: str = "",
        values: Mapping[str, Any] | None = None,
        *,
        attempts: int | None = None,
        due: bool = False,
        untold: bool = False,
    ) -> int:
        """Another state; the ticket of its commit. ``due``: what time does to it begins anew. ``untold``: it is marked
        as such until it is told.
        """
        before = tracked.record
        record = replace(
            before,
            state=state,
            detail=detail,
            values=values,
            times={**before.times, state.value: self._clock.wall()},
            attempts=before.attempts if attempts is None else attempts,
            untold=untold,
        )
        ticket = self.write(record)
        tracked.record = record
        if state.final and not before.state.final:
            self._released(tracked)
            self._over(tracked)
            tracked.is_over()
        elif state.final:
            self._keep_reply(record)
        elif due and not state.final:
            self._schedule(tracked)
        return ticket

    def answer(self, tracked: Tracked, state: State, detail: str, values: Mapping[str, Any] | None) -> None:
        """The device says what became of it; what it says beyond that is bounded."""
        detail, values = within(detail, values, self._settings.max_reply_bytes)
        self.change(tracked, state, detail, values)

    def fail(self, tracked: Tracked, why: str) -> None:
        """It will not be done."""
        if not tracked.record.state.final:
            self.change(tracked, State.FAILED, why)

    def cancel(self, owner: str, command_id: str) -> StoredCommand:
        """Take back what was not sent. Raises ``Conflict``."""
        tracked = self.get(owner, command_id)
        if tracked is None or tracked.record.state.final or tracked.record.attempts:
            state = "unknown here" if tracked is None else tracked.record.state.value
            raise Conflict(f"the command is {state}: only one that was never sent can be taken back")
        self.fail(tracked, "cancelled")
        return tracked.record

    def give_up(self, tracked: Tracked, why: str) -> None:
        """It is not sent any more: nobody knows, if it was sent before."""
        if not tracked.record.state.final:
            self.change(tracked, State.EXPIRED if tracked.unsent else State.UNCERTAIN, why)

    def withdraw(self, tracked: Tracked, why: str) -> None:
        """It must not be sent any more, though there is time: nobody knows, if it was sent before."""
        if not tracked.record.state.final:
            self.change(tracked, State.FAILED if tracked.unsent else State.UNCERTAIN, why)

    def lost(self, tracked: Tracked) -> None:
        """The connection that it was sent on is gone."""
        record = tracked.record
        if record.state is not State.SENT:
            return
        if record.retry:
            self.change(tracked, State.QUEUED, "the connection was lost; it will be sent again")
            tracked.ticket = 0
        elif record.deadline is None:
            self._set_due(tracked, min(self._clock.wall() + self._settings.grace, self.ends_at(record)))

    def end_session(self, owner: str) -> None:
        """The session that was to bring them has ended: it has no successor who would tell this."""
        for tracked in self.live(owner):
            if not tracked.unsent:
                self.change(tracked, State.UNCERTAIN, "the session ended before it was answered", untold=True)
            else:
                why = "the session of the device ended before it was sent"
                self.change(tracked, State.FAILED, why, untold=True)

    def leave(self, owner: str) -> None:
        """Another node is their home now; what is staged of them is committed before it begins."""
        for tracked in list(self._owners.get(owner, {}).values()):
            if not tracked.record.state.final:
                self._released(tracked)
            self._forget(tracked.record)

    def _released(self, tracked: Tracked) -> None:
        self.shares.remove(tracked.record)

    # Time.

    def sweep(self) -> None:
        """Deal with everything that is due."""
        now = self._clock.wall()
        due = self._due
        while due and due[0][0] <= now:
            at, owner, command_id = heappop(due)
            tracked = self.get(owner, command_id)
            if tracked is None or tracked.due != at or tracked.record.state.final:
                continue
            sent = not tracked.unsent
            if tracked.record.deadline is not None and tracked.record.deadline <= now:
                why = "no answer came before its deadline" if sent else "its deadline was over before it was sent"
            else:
                why = "no answer came, and it is not sent again" if sent else "it has waited for too long"
            self.give_up(tracked, why)
        while self._unanswered and self._unanswered[0][0] <= now:
            self._unanswered.popleft()[1].is_over()
        finished = self._finished
        while finished and (
            finished[0][0] + self._settings.keep_commands <= now or len(finished) > self._settings.max_finished_commands
        ):
            _, owner, command_id = finished.popleft()
            tracked = self.get(owner, command_id)
            if tracked is not None and tracked.record.state.final:
                self._forget(tracked.record)
                self._changes.forget_command(tracked.record)

    def _over(self, tracked: Tracked) -> None:
        self._finished.append((tracked.record.kept_from, tracked.record.owner, tracked.record.id))
        self._keep_reply(tracked.record)

    def _keep_reply(self, record: StoredCommand) -> None:
        """The oldest replies of all make room for it."""
        self._replies.put(record)
        for owner, command_id in self._replies.too_many():
            tracked = self._owners[owner][command_id]
            rest = without_reply(tracked.record)
            self._changes.command(rest)
            tracked.record = rest

    def _forget(self, record: StoredCommand) -> None:
        """Out of the memory."""
        self._replies.forget(record)
        named = self._named.get(record.id)
        if isinstance(named, dict):
            named.pop(record.owner, None)
        if not isinstance(named, dict) or not named:
            self._named.pop(record.id, None)
        owned = self._owners.get(record.owner)
        if owned is not None:
            owned.pop(record.id, None)
            if not owned:
                del self._owners[record.owner]
        key = _key_of(record)
        if self._keys.get(key) == record.id:
            del self._keys[key]


def _key_of(record: StoredCommand) -> tuple[str, str | None, str]:
    return record.target, record.user, record.idempotency_key


def told_last(records: Iterable[StoredCommand]) -> list[StoredCommand]:
    """Those whose last change may not have been told when their node stopped, oldest first."""
    found = sorted(records, key=lambda record: record.changed_at)
    return [record for record in found if record.changed_at >= found[-1].changed_at - TOLD_AGAIN]
