"""Channel records: which life of which node a client's session lives in. Changed by compare-and-set only.

    channels    client id ─▶ version (1) │ number (1) │ boot (8) │ epoch (8)

A life owns exactly the records that name it. The epoch grows with every change, so that no two values of a record
are ever the same and an old one cannot be mistaken for a new one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.roster import Life
from iot_mqtt.errors import Unavailable
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import CacheName, Grid, Pair

VERSION: Final = 0x10
_RECORD: Final = Struct(">BBQQ")


class Home(NamedTuple):
    """Where a session lives."""

    life: Life
    epoch: int


def write(home: Home) -> bytes:
    return _RECORD.pack(VERSION, home.life.number, home.life.boot, home.epoch)


def read(record: bytes) -> Home:
    """``Unavailable``: a later version wrote it, and knows better what to do with it."""
    try:
        version, number, boot, epoch = _RECORD.unpack_from(record)
    except error as cut:
        raise Unavailable("a channel record is cut short") from cut
    if version >> 4 != VERSION >> 4:
        raise Unavailable(f"a channel record has format {version >> 4}; this version reads 1")
    return Home(Life(number, boot), epoch)


class Portion(NamedTuple):
    """What became of some records that were to be taken over."""

    taken: list[str]
    #: Somebody else was faster.
    lost: list[str]
    #: Not known: the grid did not answer.
    failed: dict[str, BaseException]


class Channels:
    """The records, and how one life takes those of others over."""

    def __init__(self, grid: Grid, clock: Clock, own: Life, page: int, at_once: int) -> None:
        self._grid = grid
        self._clock = clock
        self._own = own
        self._page = page
        self._at_once = at_once
        #: The greatest that this life has written.
        self._epoch = 0
        #: Records that could not be read.
        self.unreadable = 0

    async def get(self, client_id: str) -> bytes | None:
        return await self._grid.get(CacheName.CHANNELS, client_id.encode())

    async def take(self, client_id: str, record: bytes | None) -> bool:
        """Make it ours, if the record is still the one that was read."""
        return await self._take(client_id.encode(), record)

    async def let_go(self, client_id: str, unused: Callable[[], bool]) -> None:
        """Remove our record, and no other: as a compare-and-set, because a removal that is repeated after its answer
        was lost would take away what another node has written meanwhile.
        """
        record = await self.get(client_id)
        if record is not None and read(record).life == self._own and unused():
            await self._grid.compare_and_set(CacheName.CHANNELS, client_id.encode(), record, None)

    async def _take(self, key: bytes, record: bytes | None) -> bool:
        # Not 1 where there is no record: a record that was removed and made anew must not look like the old one to
        # somebody who read that and is about to replace it.
        self._epoch = max(self._epoch, 0 if record is None else read(record).epoch) + 1
        return await self._grid.compare_and_set(CacheName.CHANNELS, key, record, write(Home(self._own, self._epoch)))

    async def take_over(self, life: Life, begin: Callable[[str], None]) -> AsyncIterator[Portion]:
        """Everything that is at home in a node's lives up to this one, which are fenced; what others take meanwhile is
        left to them. Told in portions, ``begin`` before a client's record is changed.
        """
        after: bytes | None = None
        while True:
            page = await self._grid.page(CacheName.CHANNELS, b"", after, self._page)
            wanted = [pair for pair in page if self._is_of(pair[1], life)]
            for start in range(0, len(wanted), self._at_once):
                yield await self.take_some(wanted[start : start + self._at_once], begin)
            if len(page) < self._page:
                return
            after = page[-1][0]
            await pause(self._clock, 0.0)

    async def ours(self, clients: Sequence[str]) -> list[Pair]:
        """The records of those whose home is here."""
        keys = [client_id.encode() for client_id in clients]
        records = await self._grid.get_many(CacheName.CHANNELS, keys) if keys else ()
        return [
            (key, record)
            for key, record in zip(keys, records, strict=True)
            if record is not None and self._life_of(record) == self._own
        ]

    def _is_of(self, record: bytes, life: Life) -> bool:
        home = self._life_of(record)
        return home is not None and home.number == life.number and home.boot <= life.boot and home != self._own

    def _life_of(self, record: bytes) -> Life | None:
        """None: a later version wrote it."""
        try:
            return read(record).life
        except Unavailable:
            self.unreadable += 1
            return None

    async def take_some(self, pairs: Sequence[Pair], begin: Callable[[str], None]) -> Portion:
        """Many at once; returns when all have ended."""
        portion = Portion([], [], {})
        ended: Deferred[None] = Deferred()
        left = len(pairs)

        def over(result: object, client_id: str) -> None:
            nonlocal left
            if isinstance(result, Failure):
                portion.failed[client_id] = result.value or Unavailable("the grid did not say why")
            else:
                (portion.taken if result else portion.lost).append(client_id)
            left -= 1
            if not left:
                ended.callback(None)

        for key, record in pairs:
            client_id = key.decode()
            begin(client_id)
            Deferred.fromCoroutine(self._take(key, record)).addBoth(over, client_id)
        await ended
        return portion
