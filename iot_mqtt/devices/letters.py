"""Commands that come as letters: read, submitted in order, and settled when nothing of them can be lost any more.

::

    came ─▶ read ─▶ (behind the one before it to the same target) ─▶ Commands.submit ─▶ committed ─▶ settled
              │                                                         │   └─(no room now)─▶ held, and again
              └──────(nobody can do that)──▶ buried ─▶ settled ◀────────┘

A position moves only over what is settled without a gap, so it is never ahead of what is committed. What was under way
when the node died comes again: a letter's command has an id, its own or one made of its place, and is recognised.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from twisted.internet.defer import Deferred

from iot_mqtt.broker.driving import drive
from iot_mqtt.devices.asked import NewCommand
from iot_mqtt.devices.fields import Fields, read_object
from iot_mqtt.devices.order import read_order
from iot_mqtt.errors import MqttError, ReasonCode, Unavailable
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.ports.fields import made_of
from iot_mqtt.ports.inbox import Inbox, Letter

if TYPE_CHECKING:
    from iot_mqtt.broker.turn import Turn
    from iot_mqtt.devices.commands import Commands
    from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Letters, and their bytes, that may be under way; then the inbox is held until half of them are settled.
MAX_LETTERS = 1000
MAX_BYTES = 16 * 1024**2
#: A larger one is no command. As for the API: enough for a megabyte in base64.
MAX_LETTER = 2 * 1024**2
#: Seconds that the time of a letter may be ahead. Beyond that it says nothing of when the letter was written.
MAX_AHEAD = 300
#: Seconds until what there was no room for is tried again: the first time, and at most.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
#: Seconds of waiting that an operator is told of.
TELL_AFTER = 3.0


class _Lane:
    """One partition while it is read here."""

    __slots__ = ("partition", "entries", "running", "gone", "on_idle", "told")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        #: What is not settled, or behind something that is not, in order.
        self.entries: deque[_Entry] = deque()
        #: Submitted, without an answer.
        self.running = 0
        #: It is read by somebody else.
        self.gone = False
        self.on_idle: Callable[[], None] | None = None
        self.told = False


class _Entry:
    """One letter under way."""

    __slots__ = ("lane", "letter", "new", "began", "running", "released", "settled")

    def __init__(self, lane: _Lane, letter: Letter) -> None:
        self.lane = lane
        self.letter = letter
        self.new: NewCommand | None = None
        #: When it was submitted for the first time, by the wall clock.
        self.began: float | None = None
        #: Submitted, without an answer.
        self.running = False
        #: It takes no room any more.
        self.released = False
        self.settled = False


@dataclass(frozen=True, slots=True)
class LettersInfo:
    """What an operator sees."""

    state: str
    alarms: tuple[str, ...]
    trouble: str | None
    topic: str
    group: str
    joined: bool
    partitions: tuple[int, ...]
    #: Letters that wait in the topic, and those of them that are under way here.
    lag: int
    under_way: int
    #: Since the start: each letter that was received is one of the four below, ``under_way``, or gone to another node
    #: with its partition. What nobody can do is ``buried``, also if it came before.
    received: int
    accepted: int
    repeated: int
    expired: int
    buried: int
    postponed: int
    commits: int
    restarts: int


class Letters:
    """One node's. ``begin`` when the node is ready, so that every target's session is there."""

    def __init__(
        self, commands: Commands, inbox: Inbox, turn: Turn, clock: Clock, max_age: float, user: str | None = None
    ) -> None:
        """``max_age``: a letter that is older is not done any more; in seconds. ``user``: in whose name all of them are
        sent; None: the operator's.
        """
        self._commands = commands
        self._inbox = inbox
        self._turn = turn
        self._clock = clock
        self._max_age = max_age
        self._user = user
        self._lanes: dict[int, _Lane] = {}
        #: By target: the one that is under way, and those behind it.
        self._chains: dict[str, deque[_Entry]] = {}
        #: The heads of chains that wait because there is no room.
        self._waiting: deque[_Entry] = deque()
        self._pause = FIRST_PAUSE
        self._held: str | None = None
        self._held_since: float | None = None
        self._unburied: str | None = None
        self._under_way = self._bytes = 0
        self._full = self._stopped = False
        # Figures since the start.
        self._received = self._accepted = self._repeated = self._expired = self._buried = self._postponed = 0

    # Life.

    def begin(self) -> None:
        """Read what comes, in the background."""
        self._inbox.begin(self)

    async def stop(self) -> None:
        """Begin nothing more, finish what is under way, keep the positions."""
        self._stopped = True
        idle: Deferred[None] = Deferred()
        self.revoked(list(self._lanes), lambda: idle.callback(None))
        await idle
        await self._inbox.close()

    def abandon(self) -> None:
        """Others have taken this node's place."""
        self._stopped = True
        self.lost(list(self._lanes))
        self._inbox.abandon()

    # As the reader of the inbox.

    def assigned(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self._lanes[partition] = _Lane(partition)

    def came(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            lane = self._lanes.get(letter.partition)
            if lane is not None and not self._stopped:
                self._take(_Entry(lane, letter))
        if not self._full and (self._under_way >= MAX_LETTERS or self._bytes >= MAX_BYTES):
            self._full = True
            self._inbox.hold()

    def revoked(self, partitions: Sequence[int], done: Callable[[], None]) -> None:
        lanes = [self._lanes.pop(partition) for partition in partitions if partition in self._lanes]
        busy = [lane for lane in lanes if lane.running]
        for lane in lanes:
            self._drop(lane)
        for lane in lanes:
            lane.told = not lane.running
        if not busy:
            done()
            return
        left = len(busy)

        def idle() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for lane in busy:
            lane.on_idle = idle

    def lost(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            lane = self._lanes.pop(partition, None)
            if lane is not None:
                lane.told = True
                self._drop(lane)

    def _drop(self, lane: _Lane) -> None:
        """What is submitted goes on to its end, because it cannot be taken back; the rest comes again somewhere."""
        lane.gone = True
        for entry in lane.entries:
            if not entry.running:
                self._release(entry)

    # One letter.

    def _take(self, entry: _Entry) -> None:
        letter = entry.letter
        self._received += 1
        self._under_way += 1
        self._bytes += len(letter.value)
        entry.lane.entries.append(entry)
        try:
            new = entry.new = self._read(letter)
        except ValueError as error:
            self._bury(entry, str(error))
            return
        chain = self._chains.get(new.target)
        if chain is not None:
            chain.append(entry)
            return
        self._chains[new.target] = deque([entry])
        self._submit(entry)

    def _read(self, letter: Letter) -> NewCommand:
        """The command that a letter is. ``ValueError``: it is none."""
        if len(letter.value) > MAX_LETTER:
            raise ValueError(f"it has {len(letter.value)} bytes, more than {MAX_LETTER}")
        now = self._clock.wall()
        timestamp = now if letter.timestamp is None else letter.timestamp
        if timestamp > now + MAX_AHEAD:
            raise ValueError(f"its time is {timestamp - now:.0f} s ahead of this node's clock, more than {MAX_AHEAD}")
        # A clock that is ahead must not make a command live longer.
        written = min(timestamp, now)
        new = read_order(Fields(read_object(letter.value)), written)
        if not new.id:
            new = replace(new, id=place_id(letter), made=True)
        if self._user is not None:
            new = replace(new, users=(self._user, *new.users))
        if written + self._max_age <= now:
            oldest = written + self._max_age
            new = replace(new, deadline=oldest if new.deadline is None else min(new.deadline, oldest))
        return replace(new, written=timestamp)

    def _submit(self, entry: _Entry) -> None:
        if self._held is not None:
            self._waiting.append(entry)
            return
        assert entry.new is not None
        if entry.began is None:
            entry.began = self._clock.wall()
        entry.running = True
        entry.lane.running += 1
        drive(self._commands.submit(entry.new), partial(self._submitted, entry), partial(self._not_submitted, entry))

    def _submitted(self, entry: _Entry, record: StoredCommand) -> None:
        self._pause = FIRST_PAUSE
        if record.state is State.FAILED and not record.attempts:
            # Its record says so, and it was told; whoever looks at the platform finds it there, too. Also if it came
            # before: a node may have died when it was recorded, and the dead letter not yet safe.
            self._refused(entry, record.detail)
            return
        if entry.began is not None and record.accepted_at < entry.began:
            self._repeated += 1
        elif record.state is State.EXPIRED:
            self._expired += 1
        else:
            self._accepted += 1
        self._next(entry)
        self._settle(entry)
        self._ran(entry)

    def _not_submitted(self, entry: _Entry, error: BaseException) -> None:
        if isinstance(error, MqttError) and _is_final(error):
            self._refused(entry, error.detail)
            return
        if entry.lane.gone:
            # It comes again, here or elsewhere.
            self._next(entry)
            self._release(entry)
        else:
            self._postponed += 1
            self._waiting.append(entry)
            self._hold(str(error))
        self._ran(entry)

    def _refused(self, entry: _Entry, why: str) -> None:
        self._next(entry)
        self._bury(entry, why)
        self._ran(entry)

    def _next(self, entry: _Entry) -> None:
        """The next one to the same target."""
        assert entry.new is not None
        target = entry.new.target
        chain = self._chains[target]
        chain.popleft()
        while chain and chain[0].lane.gone:
            chain.popleft()
        if not chain:
            del self._chains[target]
        else:
            self._turn.call_soon(partial(self._submit_next, chain[0]))

    def _submit_next(self, entry: _Entry) -> None:
        """In a turn of its own: many in a row would be as many calls deep."""
        if entry.lane.gone:
            self._next(entry)
        else:
            self._submit(entry)

    # No room.

    def _hold(self, why: str) -> None:
        if self._held is not None:
            return
        self._held = why
        if self._held_since is None:
            self._held_since = self._clock.monotonic()
        log.warning("commands wait in Kafka; trying again: %s", why)
        self._clock.call_later(self._pause, self._again)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _again(self) -> None:
        self._held = None
        waiting, self._waiting = self._waiting, deque()
        # The first of them that there is no room for makes the others wait once more.
        for entry in waiting:
            self._submit_next(entry)
        if not self._waiting:
            self._held_since = None

    # What nobody can do.

    def _bury(self, entry: _Entry, reason: str) -> None:
        letter = entry.letter
        log.warning(
            "a command from Kafka cannot be done: %s",
            reason,
            extra={"partition": letter.partition, "offset": letter.offset, "key": _short(letter.key)},
        )
        self._inbox.bury(letter, reason, partial(self._was_buried, entry, reason))

    def _was_buried(self, entry: _Entry, reason: str, error: Exception | None) -> None:
        if error is None:
            self._unburied = None
            # One that is read by somebody else is his to count.
            self._buried += not entry.released
            self._settle(entry)
        elif entry.lane.gone or self._stopped:
            self._release(entry)
        else:
            self._unburied = str(error)
            again = partial(self._inbox.bury, entry.letter, reason, partial(self._was_buried, entry, reason))
            self._clock.call_later(LONGEST_PAUSE / 5, again)

    # What is settled.

    def _settle(self, entry: _Entry) -> None:
        self._release(entry)
        entry.settled = True
        lane = entry.lane
        position: int | None = None
        while lane.entries and lane.entries[0].settled:
            position = lane.entries.popleft().letter.offset + 1
        if position is not None and not lane.told:
            self._inbox.settled(lane.partition, position)

    def _release(self, entry: _Entry) -> None:
        """It takes no room any more."""
        if entry.released:
            return
        entry.released = True
        self._under_way -= 1
        self._bytes -= len(entry.letter.value)
        if self._full and self._under_way <= MAX_LETTERS // 2 and self._bytes <= MAX_BYTES // 2:
            self._full = False
            self._inbox.go_on()

    def _ran(self, entry: _Entry) -> None:
        lane = entry.lane
        entry.running = False
        lane.running -= 1
        if not lane.running and lane.on_idle is not None:
            lane.told = True
            lane.on_idle()

    # What is told.

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know."""
        found = []
        if (trouble := self._inbox.trouble) is not None:
            found.append(("commands do not come from Kafka", trouble))
        since = self._held_since
        if since is not None and self._clock.monotonic() - since >= TELL_AFTER:
            found.append(("commands from Kafka wait", self._held or "they are tried again"))
        if self._unburied is not None:
            found.append(("commands that nobody can do cannot be put aside", self._unburied))
        return tuple(Alarm(AlarmKind.COMMANDS, f"{what}: {why}", why) for what, why in found)

    def info(self) -> LettersInfo:
        """Figures."""
        alarms = tuple(one.text for one in self.alarms)
        return made_of(
            LettersInfo,
            self._inbox.facts(),
            state="alarm" if alarms else "ok",
            alarms=alarms,
            trouble=self._inbox.trouble,
            under_way=self._under_way,
            received=self._received,
            accepted=self._accepted,
            repeated=self._repeated,
            expired=self._expired,
            buried=self._buried,
            postponed=self._postponed,
        )


def _is_final(error: MqttError) -> bool:
    """Whether it would be refused for ever; what there is no room for now is not."""
    return not isinstance(error, Unavailable) and error.reason is not ReasonCode.QUOTA_EXCEEDED


def place_id(letter: Letter) -> str:
    """The id of a command whose letter has none. With the time: a topic that is made anew has the same offsets. No
    sender may use such an id (``asked.is_made``).
    """
    written = 0 if letter.timestamp is None else round(letter.timestamp * 1000)
    return f"kafka-{crc32(letter.topic.encode()):08x}-{letter.partition}-{letter.offset}-{written}"


def _short(key: bytes | None) -> str:
    return "" if key is None else key[:100].decode("utf-8", "replace")
