"""Writes in their order: one thing at a time on its way to the gateway, what waits is gathered into the next.

::

    commit, swap, removal, fence ─▶ queue ─▶ turn: several commits or swaps, or one of the others ─▶ frames, one by one
                                      ▲                                                               │
                                      └────────────── the next turn ◀── told, in order ◀── DONE ◀─────┘

Each commit begins a stretch of its own, so that a later one never overtakes an earlier one; within a stretch
the servers know no order. When a turn fails, so does everything that waits behind it: nothing made before the
failure was told may come to pass without what was in front of it. Swaps are independent of each other: those of a turn
are of different keys and done at once, and each is told what became of it. What failed may be found later all the same,
in whole or in part, and whoever repeats it before anything else (the store does) has its order.

A compare-and-set whose answer is lost. The next connection is welcomed only when what the old one began is
finished (HELLO supersedes), so what is read then is conclusive:

* the present value is the wanted one: it was swapped. This holds for values that nobody else would write, so
  a value that is swapped in names its writer (its number, boot or epoch);
* it is the expected one: nothing was swapped, and it is tried again;
* it is a third one: somebody else was last. False: whatever was swapped is gone.

Nobody (node 0) is not superseded, so for it nothing is conclusive: it is told ``Unavailable`` and asks again.

A turn with a batch that must be there whole begins with a note of all that it writes, and ends with taking it away: see
``whole``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.python.failure import Failure

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import frames, whole
from iot_mqtt.grid.ignite.frames import Done, Status, Stretch
from iot_mqtt.grid.ignite.gateway import NOBODY, Gateway
from iot_mqtt.grid.ignite.packing import Packing, room_of
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.grid import CacheName, Operation, WriteBatch

log = logging.getLogger(__name__)

Finished = Callable[[BaseException | None], None]
Get = Callable[[CacheName, bytes], Awaitable["bytes | None"]]

#: Compare-and-sets of a turn; the gateway takes no more.
TURN_SWAPS: Final = 256
#: Operations after which a turn takes no further commit: making its frames takes the reactor's time.
TURN_OPERATIONS: Final = 2000
#: What is kept for somebody. Everything else is needed to go on, or says how far it got, and takes little room.
KEPT: Final = frozenset((CacheName.LOG, CacheName.RETAINED, CacheName.QUEUE, CacheName.SHADOWS, CacheName.COMMANDS))


class _Entry:
    """Something that is to be done in its place."""

    __slots__ = ("finished", "operations")

    def __init__(self, finished: Finished) -> None:
        self.finished = finished
        #: Of a commit.
        self.operations: Sequence[Operation] = ()


class _Commit(_Entry):
    """A batch, as the stretches of a frame or of several."""

    __slots__ = ("needed", "size", "trouble", "whole")

    def __init__(self, batch: WriteBatch, finished: Finished) -> None:
        super().__init__(finished)
        self.operations = batch.operations
        self.whole = batch.whole
        self.needed = batch.needed or not any(
            cache in KEPT and value is not None for cache, _, value in batch.operations
        )
        self.size = 0
        self.trouble: Unavailable | None = None
        for _, key, value in batch.operations:
            self.size += room_of(key, value)


class _Request(_Entry):
    """One frame that is no commit."""

    __slots__ = ("encode", "patience")

    def __init__(self, encode: Callable[[int], bytes], patience: float, finished: Finished) -> None:
        super().__init__(finished)
        self.encode = encode
        self.patience = patience


class _Swap(_Entry):
    """A compare-and-set."""

    __slots__ = ("cache", "key", "expected", "value", "swapped", "decided", "until")

    def __init__(self, operation: Operation, expected: bytes | None, until: float, finished: Finished) -> None:
        super().__init__(finished)
        self.cache, self.key, self.value = operation
        self.expected = expected
        #: What became of it, once that is known.
        self.swapped = self.decided = False
        self.until = until

    def decide(self, *, swapped: bool) -> None:
        self.decided, self.swapped = True, swapped

    def wanted(self) -> frames.Swap:
        return name_of(self.cache), self.key, self.expected, self.value


class Writer:
    """Everything runs in the reactor's thread."""

    def __init__(self, settings: IgniteSettings, gateway: Gateway, clock: Clock, get: Get) -> None:
        self._settings = settings
        self._gateway = gateway
        self._clock = clock
        self._get = get
        self._queue: deque[_Entry] = deque()
        #: Bytes of commits that wait for the one on its way.
        self._queued = 0
        # What is on its way: its entries, and the frames that are still to be sent.
        self._turn: list[_Entry] = []
        self._frames: deque[list[Stretch]] = deque()
        self._turns = 0
        #: The turn may use the room that is kept for going on.
        self._needed = False
        #: Swaps whose answer was lost.
        self._doubtful: list[_Swap] = []
        self._doubt: Timer | None = None
        self._reading = False
        self._telling = False
        self._refusing: Timer | None = None
        self._idle: list[Deferred[None]] = []
        #: Bytes that were put for keeping.
        self.kept = 0

    # Asked for.

    def commit(self, batch: WriteBatch, finished: Finished) -> None:
        commit = _Commit(batch, finished)
        if self._queued + commit.size > self._settings.waiting_limit and self._queue:
            commit.trouble = Unavailable(f"{self._queued} bytes wait for the grid already")
        self._queued += commit.size
        self._put(commit)

    async def swap(self, operation: Operation, expected: bytes | None) -> bool:
        done: Deferred[None] = Deferred()
        until = self._clock.monotonic() + self._settings.resolve_timeout
        swap = _Swap(operation, expected, until, partial(settle, done))
        self._put(swap)
        await done
        return swap.swapped

    async def request(self, encode: Callable[[int], bytes]) -> None:
        """Something that may take the servers long, and that may be repeated when it failed."""
        done: Deferred[None] = Deferred()
        self._put(_Request(encode, self._settings.long_timeout, partial(settle, done)))
        await done

    async def idle(self) -> None:
        """Return when nothing waits and nothing is on its way."""
        if self._turn or self._queue or self._telling or self._doubtful:
            waiting: Deferred[None] = Deferred()
            self._idle.append(waiting)
            await waiting

    def _put(self, entry: _Entry) -> None:
        self._queue.append(entry)
        self._go_on()

    # Turns.

    def connected(self) -> None:
        """There is a connection: find out about a lost answer first, then go on."""
        if self._doubtful:
            self._resolve()
        else:
            self._go_on()

    def fenced(self) -> None:
        """Nothing will be written any more in this life."""
        if self._doubtful and not self._reading:
            self._decide(self._gateway.failure())

    def _go_on(self) -> None:
        """Begin the next turn, if there is nothing else to be done first."""
        if self._turn or self._telling:
            return
        if self._doubtful:
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
        if isinstance(first, _Request):
            self._queue.popleft()
            self._turn = [first]
            self._gateway.request(first.encode, self._answered, first.patience)
            return
        if isinstance(first, _Swap):
            self._swap()
            return
        trouble = self._gather()
        if trouble is None:
            self._send()
        else:
            # Later: whoever commits again as soon as one failed does not do so from in here.
            self._clock.call_later(0.0, partial(self._fail, trouble))

    def _swap(self) -> None:
        """Take the swaps that stand in front, up to one of a key that is being swapped."""
        swaps: list[_Swap] = []
        keys: set[tuple[CacheName, bytes]] = set()
        while self._queue and len(swaps) < TURN_SWAPS:
            swap = self._queue[0]
            if not isinstance(swap, _Swap) or (swap.cache, swap.key) in keys:
                break
            keys.add((swap.cache, swap.key))
            swaps.append(swap)
            self._queue.popleft()
        self._turn = [*swaps]
        encode = partial(frames.encode_swap, swaps=[swap.wanted() for swap in swaps])
        self._gateway.request(encode, partial(self._swapped, swaps), self._settings.answer_timeout)

    def _gather(self) -> Unavailable | None:
        """Take commits for a turn, and make of them what fits into frames; or take one that fails, in its place."""
        packing = Packing(self._gateway.frame_limit)
        operations = 0
        self._needed = isinstance(first := self._queue[0], _Commit) and first.needed
        while self._queue and (not self._turn or operations + len(self._queue[0].operations) <= TURN_OPERATIONS):
            commit = self._queue[0]
            # What may be refused for want of room must not take with it what may not.
            if not isinstance(commit, _Commit) or commit.needed is not self._needed:
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
            if not commit.needed:
                self.kept += commit.size
            operations += len(commit.operations)
        if not self._note(packing):
            for commit in self._turn:
                packing.add(commit.operations)
        # An empty batch is a commit all the same: it is done when what was before it is.
        self._frames = deque(packing.frames or [[]])
        return None

    def _note(self, packing: Packing) -> bool:
        """Pack a turn that has to be whole, with the note of it; False if it has not.

        What has a note needs no order among the caches, and so each is written once: sessions and routes of many
        clients alternate, and every change of the cache is a round trip of the servers. The note goes with the turn:
        another node may become the home of its clients as soon as that is answered.
        """
        identity = self._gateway.identity
        if identity == NOBODY or not any(isinstance(entry, _Commit) and entry.whole for entry in self._turn):
            return False
        self._turns += 1
        operations = [operation for entry in self._turn for operation in entry.operations]
        room = self._gateway.frame_limit - whole.AROUND
        parts, head = whole.note_of(identity, self._turns, operations, min(whole.PART, room))
        packing.add(parts)
        packing.add([head])
        by_cache: dict[CacheName, list[Operation]] = {}
        for operation in operations:
            by_cache.setdefault(operation[0], []).append(operation)
        for several in by_cache.values():
            packing.add(several)
        packing.add([whole.gone(identity[0])])
        return True

    def _send(self) -> None:
        stretches = self._frames.popleft()
        self._gateway.request(partial(frames.encode_commit, stretches=stretches, needed=self._needed), self._answered)

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

    def _swapped(self, swaps: list[_Swap], done: Done | None) -> None:
        if done is None and self._gateway.identity != NOBODY and self._gateway.fenced is None:
            self._turn = []
            self._doubtful = swaps
            until = min(swap.until for swap in swaps)
            self._doubt = self._clock.call_later(max(until - self._clock.monotonic(), 0.0), self._doubt_over)
            self._refuse_soon()
            return
        if done is None or done.status != Status.DONE:
            self._answered(done)
            return
        for swap, status in zip(swaps, done.results, strict=False):
            if status in (Status.DONE, Status.NOT_SWAPPED):
                swap.decide(swapped=status == Status.DONE)
        if all(swap.decided for swap in swaps):
            self._end(None)
        else:
            self._fail(Unavailable("the grid does not take it now: whether it was swapped is not known"))

    def _end(self, error: BaseException | None) -> None:
        """The turn is over: tell everybody, in order, then go on."""
        turn, self._turn = self._turn, []
        self._frames.clear()
        self._telling = True
        try:
            for entry in turn:
                _call(entry.finished, None if isinstance(entry, _Swap) and entry.decided else error)
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
        if not self._doubtful or self._reading:
            return
        self._reading = True
        swaps = self._doubtful
        reading = gatherResults(
            [Deferred.fromCoroutine(_await(self._get(swap.cache, swap.key))) for swap in swaps], consumeErrors=True
        )
        reading.addCallbacks(partial(self._resolved, swaps), partial(self._unresolved, swaps))

    def _resolved(self, swaps: list[_Swap], present: list[bytes | None]) -> None:
        self._reading = False
        if self._doubtful is not swaps:
            return
        again: list[_Swap] = []
        for swap, value in zip(swaps, present, strict=True):
            if value == swap.value:
                swap.decide(swapped=True)
            elif value == swap.expected:
                # Not swapped, and never going to be by the lost request: once more, before anything else.
                again.append(swap)
            else:
                swap.decide(swapped=False)
        self._queue.extendleft(reversed(again))
        self._doubtful = [swap for swap in swaps if swap.decided]
        self._decide(None)

    def _unresolved(self, swaps: list[_Swap], failure: Failure) -> None:
        self._reading = False
        if self._doubtful is swaps:
            error = failure.value.subFailure if isinstance(failure.value, FirstError) else failure
            self._decide(Unavailable(f"whether it was swapped cannot be read: {error.getErrorMessage()}"))

    def _doubt_over(self) -> None:
        self._doubt = None
        if self._doubtful:
            self._decide(Unavailable("the answer was lost, and nobody can be asked what became of it"))

    def _decide(self, error: BaseException | None) -> None:
        """No doubt any more; or it is told."""
        self._turn, self._doubtful = [*self._doubtful], []
        if self._doubt is not None:
            self._doubt.cancel()
            self._doubt = None
        self._end(error)


async def _await(get: Awaitable[bytes | None]) -> bytes | None:
    return await get


def _call(finished: Finished, error: BaseException | None) -> None:
    try:
        finished(error)
    except Exception:
        log.exception("a commit's completion failed")


def settle(waiting: Deferred[None], error: BaseException | None) -> None:
    """Fire a Deferred that waits for a completion."""
    if error is None:
        waiting.callback(None)
    else:
        waiting.errback(error)
