"""One grid in memory for all nodes of a world, each with its own door to it, which can be slow, shut or fenced.

A write of a node takes effect some time after it was handed over, whatever has become of the node meanwhile, unless
that life was fenced before; the answer comes some time later, unless the node is gone. Writes of one node keep their
order. A batch may come in pieces, as it does where it is for many servers: stretch after stretch, and what is in a
stretch in any order. What follows of its node, and whoever fences that, finds it whole.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import CacheName, Operation, Pair, WriteBatch
from tests.simulation.messaging import NodeClock
from tests.simulation.speed import Speed

Done = Callable[[BaseException | None], None]

#: One batch in so many comes in pieces, and one of so many of these takes its time.
IN_PIECES = 3
SLOWLY = 4
#: Seconds, at most.
SLOW = 0.3


class SharedGrid:
    """What the servers have."""

    def __init__(self, clock: ManualClock, rng: random.Random, cuts: random.Random | None = None) -> None:
        """``cuts`` cuts batches into pieces; None: each has its effect at once."""
        self.clock = clock
        self.rng = rng
        self._cuts = cuts
        #: What is to come of the batch of a node that is there in part.
        self._left: dict[int, deque[list[Operation]]] = {}
        self.memory = MemoryGrid()
        finish(self.memory.open())
        self.fenced: dict[int, int] = {}
        #: Writes that came from fenced lives.
        self.kept_out = 0

    def spread(self, speed: Speed) -> float:
        """For so many seconds the next batch is there in part."""
        cuts = self._cuts
        if cuts is None or cuts.randrange(IN_PIECES):
            return 0.0
        return cuts.uniform(speed.least, speed.most if cuts.randrange(SLOWLY) else max(speed.most, SLOW))

    def take(self, node: int, batch: WriteBatch, spread: float) -> None:
        """This batch of a node has its effect."""
        if not spread or self._cuts is None:
            finish(self.memory.commit(batch))
            return
        left = self._left[node] = deque(_pieces(batch.operations, self._cuts))
        for delay in sorted(self._cuts.uniform(0, spread) for _ in left):
            self.clock.call_later(delay, partial(self._piece, left))

    def _piece(self, left: deque[list[Operation]]) -> None:
        if left:
            piece = WriteBatch()
            piece.operations = left.popleft()
            finish(self.memory.commit(piece))

    def complete(self, node: int) -> None:
        """What a node has begun to write is there."""
        left = self._left.pop(node, None)
        while left:
            self._piece(left)

    def entries(self, cache: CacheName) -> dict[bytes, bytes]:
        return dict(self.memory._values[cache])


class GridDoor:
    """One life's connection: ``cluster.fencing.SharedGrid``."""

    def __init__(self, grid: SharedGrid, clock: NodeClock) -> None:
        self.speed = Speed()
        self.copies_missing: int | None = 0
        self.servers: int | None = 3
        self.read_trouble: str | None = None
        self.read_failures = 0
        #: Nothing gets through; what is under way may or may not have had its effect.
        self.shut = False
        self.on_fenced: Callable[[str], None] = lambda _: None
        self._grid = grid
        self._clock = clock
        self._life = (0, 0)
        self._latest = 0.0
        self._answered = 0.0
        self._told = False

    @property
    def available(self) -> bool:
        return not self.shut

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """It stays."""

    async def identify(self, node: int, boot: int) -> None:
        await self._write(lambda: None)
        self._life = (node, boot)
        await self._write(lambda: None)

    async def fence(self, node: int, boot: int) -> None:
        fenced = self._grid.fenced

        def apply() -> None:
            self._grid.complete(node)
            fenced[node] = max(boot, fenced.get(node, 0))

        await self._write(apply)

    async def finish(self, node: int, boot: int) -> None:
        """Every batch is whole here."""

    async def commit(self, batch: WriteBatch) -> None:
        await self._write(lambda: finish(self._grid.memory.commit(batch)))

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        copy = WriteBatch()
        copy.operations = list(batch.operations)
        grid, node = self._grid, self._life[0]
        spread = grid.spread(self.speed) if node else 0.0
        self._send(lambda: grid.take(node, copy, spread), lambda result: done(_error_of(result)), spread)

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        await self._write(lambda: finish(self._grid.memory.remove_prefix(cache, prefix)))

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        memory = self._grid.memory

        def apply() -> object:
            # What becomes of a lost answer is the adapter's business; here it either happens and is told, or not.
            if self.shut:
                return Unavailable("the grid does not answer")
            return finish(memory.compare_and_set(cache, key, expected, value))

        return bool(await self._write(apply))

    # Reading.

    async def get(self, cache: CacheName, key: bytes) -> bytes | None:
        (value,) = await self.get_many(cache, (key,))
        return value

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        memory = self._grid.memory
        found: list[bytes | None] = await self._read(lambda: finish(memory.get_many(cache, keys)))  # type: ignore[assignment]
        return found

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        memory = self._grid.memory
        found: list[Pair] = await self._read(lambda: finish(memory.page(cache, prefix, after, limit)))  # type: ignore[assignment]
        return found

    # The way there and back.

    async def _write(self, apply: Callable[[], object]) -> object:
        waiting: Deferred[object] = Deferred()
        self._send(apply, partial(_settle, waiting))
        return await waiting

    async def _read(self, read: Callable[[], object]) -> object:
        waiting: Deferred[object] = Deferred()
        grid = self._grid

        def there() -> None:
            result = Unavailable("the grid does not answer") if self.shut else read()
            grid.clock.call_later(self._delay(), lambda: self._clock.arrive(lambda: _settle(waiting, result)))

        grid.clock.call_later(self._delay(), there)
        return await waiting

    def _send(self, apply: Callable[[], object], done: Callable[[object], None], takes: float = 0.0) -> None:
        grid, life = self._grid, self._life
        now = grid.clock.monotonic()
        self._latest = max(self._latest, now + self._delay())

        def there() -> None:
            answer(self._effect(apply, life))

        def answer(result: object) -> None:
            now = grid.clock.monotonic()
            self._answered = max(self._answered, now + takes + self._delay())
            grid.clock.call_later(self._answered - now, lambda: self._clock.arrive(lambda: self._told_of(result, done)))

        grid.clock.call_later(self._latest - now, there)

    def _effect(self, apply: Callable[[], object], life: tuple[int, int]) -> object:
        number, boot = life
        if number and boot <= self._grid.fenced.get(number, 0):
            self._grid.kept_out += 1
            return Fenced(f"life {boot} of node {number} is fenced")
        if self.shut and self._grid.rng.random() < 0.5:
            return Unavailable("the grid does not answer")
        self._grid.complete(number)
        result = apply()
        # Had its effect, and nobody learns of it.
        return Unavailable("the grid does not answer") if self.shut and result is None else result

    def _told_of(self, result: object, done: Callable[[object], None]) -> None:
        if isinstance(result, Fenced) and not self._told:
            self._told = True
            self.on_fenced(result.detail)
        done(result)

    def _delay(self) -> float:
        return self._grid.rng.uniform(self.speed.least, self.speed.most)


class Fenced(Unavailable):
    """This life is over."""


def _pieces(operations: Sequence[Operation], cuts: random.Random) -> Iterator[list[Operation]]:
    """Two of each stretch; the last operation on a key of it wins."""
    for _, stretch in groupby(operations, key=itemgetter(0)):
        shuffled = list({operation[1]: operation for operation in stretch}.values())
        cuts.shuffle(shuffled)
        cut = cuts.randint(0, len(shuffled))
        yield from filter(None, (shuffled[:cut], shuffled[cut:]))


def _settle(waiting: Deferred[object], result: object) -> None:
    if isinstance(result, BaseException):
        waiting.errback(result)
    else:
        waiting.callback(result)


def _error_of(result: object) -> BaseException | None:
    return result if isinstance(result, BaseException) else None


def finish(coroutine: object) -> object:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")
