"""Writes in their order: one thing at a time on its way to the gateway, what waits is gathered into the next.

::

    commit, swap, removal, fence ─▶ queue ─▶ turn: several commits, or one of the others ─▶ frames, one by one
                                      ▲                                                          │
                                      └─────────── the next turn ◀── told, in order ◀── DONE ◀───┘

Each commit begins a stretch of its own, so that a later one never overtakes an earlier one; within a stretch
the servers know no order. When a turn fails, so does everything that waits behind it: nothing made before the
failure was told may come to pass without what was in front of it. What failed may be found later all the same,
in whole or in part, and whoever repeats it before anything else (the store does) has its order.

A compare-and-set whose answer is lost. The next connection is welcomed only when what the old one began is
finished (HELLO supersedes), so what is read then is conclusive:

* the present value is the wanted one: it was swapped. This holds for values that nobody else would write, so
  a value that is swapped in names its writer (its number, boot or epoch);
* it is the expected one: nothing was swapped, and it is tried again;
* it is a third one: somebody else was last. False: whatever was swapped is gone.

Nobody (node 0) is not superseded, so for it nothing is conclusive: it is told ``Unavailable`` and asks again.

A turn with a batch that must be there whole begins with a note of all that it writes: see ``whole``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import frames, whole
from iot_mqtt.grid.ignite.frames import Done, Status, Stretch
from iot_mqtt.grid.ignite.gateway import NOBODY, Gateway
from iot_mqtt.grid.ignite.packing import Packing, room_of
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.grid.watching import Operation
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.grid import CacheName, WriteBatch

log = logging.getLogger(__name__)

Finished = Callable[[BaseException | None], None]
Get = Callable[[CacheName, bytes], Awaitable["bytes | None"]]

#: Operations after which a turn takes no further commit: making its frames takes the reactor's time.
TURN_OPERATIONS: Final = 2000


class _Entry:
    """Something that is to be done in its place."""

    __slots__ = ("finished", "operations")

    def __init__(self, finished: Finished) -> None:
        self.finished = finished
        #: What watchers are told when it is done.
        self.operations: list[Operation] | tuple[Operation, ...] = ()


class _Commit(_Entry):
    """A batch, as the stretches of a frame or of several."""

    __slots__ = ("size", "trouble", "whole")

    def __init__(self, batch: WriteBatch, finished: Finished) -> None:
        super().__init__(finished)
        self.operations = batch.operations
        self.whole = batch.whole
        self.size = 0
        self.trouble: Unavailable | None = None
        for _, key, value in batch.operations:
            self.size += room_of(key, value)


class _Noted(Enum):
    """What there is of a note under our number."""

    NOTHING = 0
    #: Of a turn that is over: it goes before anything else is written.
    DONE = 1
    #: Of a turn that failed. It stands until what is repeated has a note of its own.
    OPEN = 2


class _Request(_Entry):
    """One frame that is no commit."""

    __slots__ = ("encode", "patience")

    def __init__(self, encode: Callable[[int], bytes], patience: float, finished: Finished) -> None:
        super().__init__(finished)
        self.encode = encode
        self.patience = patience


class _Swap(_Request):
    """A compare-and-set."""

    __slots__ = ("cache", "key", "expected", "value", "swapped", "until")

    def __init__(
        self, operation: Operation, expected: bytes | None, patience: float, until: float, finished: Finished
    ) -> None:
        self.cache, self.key, self.value = operation
        self.expected = expected
        self.swapped = False
        self.until = until
        encode = partial(frames.encode_swap, cache=name_of(self.cache), key=self.key, expected=expected, new=self.value)
        super().__init__(encode, patience, finished)

    def succeed(self) -> None:
        self.swapped = True
        self.operations = ((self.cache, self.key, self.value),)


class Writer:
    """Everything runs in the reactor's thread. ``tell`` hears the operations of what is done, before its caller."""

    def __init__(
        self,
        settings: IgniteSettings,
        gateway: Gateway,
        clock: Clock,
        get: Get,
        tell: Callable[[list[Operation] | tuple[Operation, ...]], None],
    ) -> None:
        self._settings = settings
        self._gateway = gateway
        self._clock = clock
        self._get = get
        self._tell = tell
        self._queue: deque[_Entry] = deque()
        self._queued = 0
        # What is on its way: its entries, and the frames that are still to be sent.
        self._turn: list[_Entry] = []
        self._frames: deque[list[Stretch]] = deque()
        self._noted = _Noted.NOTHING
        #: Of the turn that is on its way: what there will be, if it goes well and if not.
        self._noting = _Noted.NOTHING, _Noted.NOTHING
        self._turns = 0
        self._doubtful: _Swap | None = None
        self._doubt: Timer | None = None
        self._reading = False
        self._telling = False
        self._refusing: Timer | None = None
        self._idle: list[Deferred[None]] = []
        self.commits = self.frames = self.failures = self.resolved = 0

    @property
    def waiting(self) -> int:
        """Bytes of commits that wait for the one on its way."""
        return self._queued

    # Asked for.

    def commit(self, batch: WriteBatch, finished: Finished) -> None:
        commit = _Commit(batch, finished)
        if self._queued + commit.size > self._settings.waiting_limit and self._queue:
            commit.trouble = Unavailable(f"{self._queued} bytes wait for the grid already")
        self._queued += commit.size
        self._put(commit)

    async def swap(self, operation: Operation, expected: bytes | None) -> bool:
        done: Deferred[None] = Deferred()
        settings = self._settings
        until = self._clock.monotonic() + settings.resolve_timeout
        swap = _Swap(operation, expected, settings.answer_timeout, until, partial(_settle, done))
        self._put(swap)
        await done
        return swap.swapped

    async def request(self, encode: Callable[[int], bytes]) -> None:
        """Something that may take the servers long, and that may be repeated when it failed."""
        done: Deferred[None] = Deferred()
        self._put(_Request(encode, self._settings.long_timeout, partial(_settle, done)))
        await done

    async def idle(self) -> None:
        """Return when nothing waits and nothing is on its way."""
        if self._turn or self._queue or self._telling or self._doubtful is not None:
            waiting: Deferred[None] = Deferred()
            self._idle.append(waiting)
            await waiting

    def _put(self, entry: _Entry) -> None:
        self._queue.append(entry)
        self._go_on()

    # Turns.

    def connected(self) -> None:
        """There is a connection: find out about a lost answer first, then go on."""
        if self._doubtful is not None:
            self._resolve()
        else:
            self._go_on()

    def fenced(self) -> None:
        """Nothing will be written any more in this life."""
        if self._doubtful is not None and not self._reading:
            self._decided(self._doubtful, self._gateway.failure())

    def _go_on(self) -> None:
        """Begin the next turn, if there is nothing else to be done first."""
        if self._turn or self._telling:
            return
        if self._doubtful is not None:
            if self._queue and not self._gateway.connected:
                self._refuse_soon()
            return
        if not self._queue:
            idle, self._idle = self._idle, []
            for waiting in idle:
                waiting.callback(None)
        elif not self._gateway.connected:
            self._refuse_soon()
        else:
            self._begin()

    def _begin(self) -> None:
        first = self._queue[0]
        if isinstance(first, _Swap) and self._noted is _Noted.DONE:
            # A client's home may be given up by it: from then on what is noted is another's.
            self._queue.appendleft(_Commit(WriteBatch(), _nothing))
            first = self._queue[0]
        if isinstance(first, _Request):
            self._queue.popleft()
            self._turn = [first]
            answered = self._swapped if isinstance(first, _Swap) else self._answered
            self._gateway.request(first.encode, answered, first.patience)
            return
        trouble = self._gather()
        if trouble is None:
            self._send()
        else:
            # Later: whoever commits again as soon as one failed does not do so from in here.
            self._clock.call_later(0.0, partial(self._fail, trouble))

    def _gather(self) -> Unavailable | None:
        """Take commits for a turn, and make of them what fits into frames; or take one that fails, in its place."""
        packing = Packing(self._gateway.frame_limit)
        operations = 0
        while self._queue and (not self._turn or operations + len(self._queue[0].operations) <= TURN_OPERATIONS):
            commit = self._queue[0]
            if not isinstance(commit, _Commit):
                break
            if commit.trouble is None:
                commit.trouble = packing.refuses(commit.operations, commit.size)
            if commit.trouble is not None:
                if self._turn:
                    break
                self._queue.popleft()
                self._turn = [commit]
                self._queued -= commit.size
                return commit.trouble
            self._queue.popleft()
            self._queued -= commit.size
            self._turn.append(commit)
            operations += len(commit.operations)
        self._note(packing)
        for commit in self._turn:
            packing.add(commit.operations)
        # An empty batch is a commit all the same: it is done when what was before it is.
        self._frames = deque(packing.frames or [[]])
        return None

    def _note(self, packing: Packing) -> None:
        """Begin a turn with the note of it, or with taking away that of the one before."""
        noted, identity = self._noted, self._gateway.identity
        self._noting = noted, noted
        if any(isinstance(entry, _Commit) and entry.whole for entry in self._turn) and identity != NOBODY:
            self._turns += 1
            operations = [operation for entry in self._turn for operation in entry.operations]
            room = self._gateway.frame_limit - whole.AROUND
            parts, head = whole.note_of(identity, self._turns, operations, min(whole.PART, room))
            packing.add(parts)
            packing.add([head])
            self._noting = _Noted.DONE, _Noted.OPEN
        elif noted is _Noted.DONE:
            packing.add([whole.gone(identity[0])])
            self._noting = _Noted.NOTHING, noted

    def _send(self) -> None:
        self.frames += 1
        stretches = self._frames.popleft()
        self._gateway.request(partial(frames.encode_commit, stretches=stretches), self._answered)

    def _answered(self, done: Done | None) -> None:
        trouble = self._trouble(done)
        if trouble is not None:
            self._fail(trouble)
        elif self._frames:
            self._send()
        else:
            self._end(None)

    def _trouble(self, done: Done | None) -> Unavailable | None:
        if done is None:
            if self._gateway.fenced is not None:
                return self._gateway.failure()
            return Unavailable("the connection to the gateway broke; what was on its way may be written or not")
        if done.status == Status.DONE:
            return None
        if done.status == Status.FENCED:
            return self._gateway.failure()
        if done.status == Status.BAD_REQUEST:
            log.error("the gateway does not understand a request: %s", done.detail)
        return Unavailable(f"the grid does not take it (status {done.status}): {done.detail}")

    def _swapped(self, done: Done | None) -> None:
        (swap,) = self._turn
        assert isinstance(swap, _Swap)
        if done is None and self._gateway.identity != NOBODY and self._gateway.fenced is None:
            self._turn = []
            self._doubtful = swap
            self._doubt = self._clock.call_later(max(swap.until - self._clock.monotonic(), 0.0), self._doubt_over)
            self._refuse_soon()
            return
        if done is not None and done.status == Status.NOT_SWAPPED:
            self._end(None)
            return
        if done is not None and done.status == Status.DONE:
            swap.succeed()
        self._answered(done)

    def _end(self, error: BaseException | None) -> None:
        """The turn is over: tell everybody, in order, then go on."""
        turn, self._turn = self._turn, []
        self._frames.clear()
        self._noted = self._noting[error is not None]
        self._noting = self._noted, self._noted
        self._telling = True
        try:
            for entry in turn:
                if error is None:
                    self.commits += isinstance(entry, _Commit)
                    self._tell(entry.operations)
                else:
                    self.failures += 1
                _call(entry.finished, error)
        finally:
            self._telling = False
        self._go_on()

    # Failing.

    def _fail(self, error: Unavailable) -> None:
        """The turn failed, and with it what waits behind it."""
        behind, self._queue = self._queue, deque()
        self._queued = 0
        self._turn += behind
        self._end(error)

    def _refuse_soon(self) -> None:
        """Not now: the caller has not returned yet, and those before it are to be told first."""
        if self._refusing is None:
            self._refusing = self._clock.call_later(0.0, self._refuse)

    def _refuse(self) -> None:
        self._refusing = None
        if self._turn or self._telling:
            return
        if self._gateway.connected:
            self._go_on()
        elif self._queue:
            self._fail(self._gateway.failure())

    # A lost answer.

    def _resolve(self) -> None:
        if self._doubtful is None or self._reading:
            return
        self._reading = True
        self.resolved += 1
        swap = self._doubtful
        reading = Deferred.fromCoroutine(_await(self._get(swap.cache, swap.key)))
        reading.addCallbacks(partial(self._resolved, swap), partial(self._unresolved, swap))

    def _resolved(self, swap: _Swap, present: bytes | None) -> None:
        self._reading = False
        if self._doubtful is not swap:
            return
        if present == swap.value:
            swap.succeed()
        elif present == swap.expected:
            # Not swapped, and never going to be by the lost request: once more, before anything else.
            self._undoubt()
            self._queue.appendleft(swap)
            self._go_on()
            return
        self._decided(swap, None)

    def _unresolved(self, swap: _Swap, failure: Failure) -> None:
        self._reading = False
        if self._doubtful is swap:
            self._decided(swap, Unavailable(f"whether it was swapped cannot be read: {failure.getErrorMessage()}"))

    def _doubt_over(self) -> None:
        self._doubt = None
        if self._doubtful is not None:
            self._decided(self._doubtful, Unavailable("the answer was lost, and nobody can be asked what became of it"))

    def _decided(self, swap: _Swap, error: BaseException | None) -> None:
        self._undoubt()
        self._turn = [swap]
        self._end(error)

    def _undoubt(self) -> None:
        self._doubtful = None
        if self._doubt is not None:
            self._doubt.cancel()
            self._doubt = None


async def _await(get: Awaitable[bytes | None]) -> bytes | None:
    return await get


def _nothing(_: BaseException | None) -> None:
    """Nobody waits for it."""


def _call(finished: Finished, error: BaseException | None) -> None:
    try:
        finished(error)
    except Exception:
        log.exception("a commit's completion failed")


def _settle(waiting: Deferred[None], error: BaseException | None) -> None:
    if error is None:
        waiting.callback(None)
    else:
        waiting.errback(error)
