"""``ports.grid.Grid`` over a cluster of Ignite servers: the log is read through the thin client, all else by a gateway.

A commit is acknowledged when every copy of every entry has it; whether that survives all servers' going at once
is the servers' persistence (docs/operations).

What cannot be done now fails with ``Unavailable``; reads wait up to ``read_patience`` for another server first.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import frames
from iot_mqtt.grid.ignite.dialer import Reach
from iot_mqtt.grid.ignite.faults import Fenced, NoServer, RefusedByGateway
from iot_mqtt.grid.ignite.gateway import Gateway
from iot_mqtt.grid.ignite.paging import Pages
from iot_mqtt.grid.ignite.reader import Reader
from iot_mqtt.grid.ignite.settings import NOT_YET, IgniteSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.grid.ignite.whole import Finisher, Life
from iot_mqtt.grid.ignite.writing import Writer, settle
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.disk import DiskUse
from iot_mqtt.ports.grid import CacheName, Pair, WriteBatch
from iot_mqtt.thread_bridge import Cross

log = logging.getLogger(__name__)

Done = Callable[[BaseException | None], None]

#: Seconds between two looks at whether the servers are there, while the grid is being opened.
LOOK: Final = 0.02
#: Bytes that there are while nobody has said how many.
UNKNOWN_ROOM: Final = 1 << 62
#: Seconds after a read that failed in which it is told; whoever still wants to read has tried again by then.
READ_FAILED: Final = 30.0
#: Caches whose values may be large, and are read by a connection of their own: nobody waits behind them. An entry of
#: these never changes while it is there.
LARGE: Final = frozenset((CacheName.LOG, CacheName.LOG_INDEX))


class IgniteGrid:
    """Coroutines of this class await Deferreds: drive them with ``Deferred.fromCoroutine`` or ``ensureDeferred``.

    ``gateway.messages`` is the ``ports.messaging.Messaging`` between nodes, over the same connection.
    """

    def __init__(
        self, settings: IgniteSettings, cross: Cross, reach: Reach, clock: Clock, rng: random.Random | None = None
    ) -> None:
        rng = rng or random.Random()
        self._settings = settings
        self._clock = clock
        self.reader = Reader(settings, cross, rng.randrange(max(len(settings.addresses), 1)))
        self.gateway = Gateway(settings, reach, clock, rng)
        self.pages = Pages(settings, self.gateway, clock)
        self.writer = Writer(settings, self.gateway, clock, self._get)
        self.finisher = Finisher(self, clock)
        #: Called once, with the reason, when this life of the node was declared dead. The node is to end.
        self.on_fenced: Callable[[str], None] = _ignore
        self.gateway.on_connected = self._connected
        self.gateway.on_fenced = self._fenced
        self.gateway.server_status.on_room = self._room_changed
        #: Called when the servers have said how full they are.
        self.on_room: Callable[[], None] = _nothing
        # What was put when they did.
        self._kept_before = 0
        self._open = False
        self._closed: list[Deferred[None]] | None = None
        self._late: list[Done] = []
        # When a read of large values failed last, and why; None: one has succeeded since.
        self._unread: tuple[float, str] | None = None
        #: Reads of large values that failed.
        self.read_failures = 0

    @property
    def available(self) -> bool:
        """Whether a commit made now would be sent."""
        return self._open and self.gateway.connected

    @property
    def read_trouble(self) -> str | None:
        """Why the log cannot be read; None: it can, as far as is known."""
        if not self._open:
            return None
        if self.reader.trouble is not None:
            return f"the grid cannot be reached: {self.reader.trouble}"
        if self._unread is None or self._clock.monotonic() - self._unread[0] > READ_FAILED:
            return None
        return self._unread[1]

    def outage(self) -> str | None:
        """Why it cannot be written, while no gateway has been there for some seconds; None: one is, or was just now."""
        return self.gateway.outage() if self._open else None

    # The life of the grid.

    async def open(self) -> None:
        """Raises ``NoServer`` or ``RefusedByGateway``, with what to do about it."""
        if not self._settings.gateways or not self._settings.addresses:
            raise NoServer("no addresses of Ignite servers: set grid.ignite.addresses and grid.ignite.gateway")
        self.gateway.start()
        self.reader.start()
        until = self._clock.monotonic() + self._settings.open_timeout
        try:
            await self._until_there(until)
        except (NoServer, RefusedByGateway, Fenced):
            await self.reader.stop()
            await self.gateway.stop()
            raise
        self._open, self._closed = True, None

    async def close(self) -> None:
        """Refuse new commits, finish the accepted ones, end the connections."""
        if self._closed is not None:
            waiting: Deferred[None] = Deferred()
            self._closed.append(waiting)
            await waiting
            return
        if not self._open:
            return
        self._open, self._closed = False, []
        await self.writer.idle()
        await self.pages.stop()
        await self.gateway.stop()
        await self.reader.stop()
        closed, self._closed = self._closed, None
        self._refuse_late()
        for waiting in closed:
            waiting.callback(None)

    async def identify(self, node: int, boot: int) -> None:
        """Be this life of this node, to the gateways, once what is on its way is done. Before that, nobody (0, 0).

        Returns when a gateway has welcomed it: what an earlier life had begun is finished. Raises ``Fenced``, and
        ``NoServer`` if no gateway answers in time.
        """
        self._check()
        await self.writer.idle()
        connects = self.gateway.connects
        self.gateway.identify((node, boot))
        until = self._clock.monotonic() + self._settings.open_timeout
        while not (self.gateway.connected and self.gateway.connects > connects):
            await self._look(until)

    async def fence(self, node: int, boot: int) -> None:
        """When this returns, nothing is written any more by that life of that node, nor by an earlier one."""
        self._check()
        await self.writer.request(partial(frames.encode_fence, node=node, boot=boot))

    async def finish(self, node: int, boot: int) -> None:
        """When this returns, a batch in the middle of which such a life was fenced is there whole or not at all."""
        self._check()
        await self.finisher.finish(node, boot)

    @property
    def copies_missing(self) -> int | None:
        """Partitions that have fewer copies than they should: until it is 0, no further server may be lost. None: the
        servers have just changed, or cannot be asked.
        """
        return self.gateway.server_status.missing

    @property
    def servers(self) -> int | None:
        """How many servers there are, as the gateway in use has said last. None: no gateway says so now."""
        return self.gateway.servers if self.gateway.connected else None

    def room_use(self) -> DiskUse:
        """Bytes of the fullest server: used, what was put since it said so included, and what it has to offer yet."""
        room = self.gateway.server_status.room
        if room is None:
            return DiskUse(0, UNKNOWN_ROOM)
        used = room.used + self.writer.kept - self._kept_before
        return DiskUse(used, max(0, room.offered - used))

    @property
    def capacity(self) -> int:
        """Bytes that all servers together offer for what is put once; 0: not known."""
        room = self.gateway.server_status.room
        return 0 if room is None else room.capacity

    @property
    def identity(self) -> Life:
        """Who it writes as; (0, 0): nobody."""
        return self.gateway.identity

    # Writing.

    async def commit(self, batch: WriteBatch) -> None:
        waiting: Deferred[None] = Deferred()
        self.commit_soon(batch, partial(settle, waiting))
        await waiting

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        """Commit and call ``done`` later; see the port for the contract."""
        if self._open:
            self.writer.commit(batch, done)
        else:
            # While closing, behind those that were accepted; never before this returns.
            self._late.append(done)
            if self._closed is None and len(self._late) == 1:
                self._clock.call_later(0.0, self._refuse_late)

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        """A value should name its writer: see ``writing`` for what becomes of a lost answer."""
        self._check()
        return await self.writer.swap((cache, key, value), expected)

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        self._check()
        await self.writer.request(partial(frames.encode_remove_prefix, cache=name_of(cache), prefix=prefix))

    # Reading.

    async def get(self, cache: CacheName, key: bytes) -> bytes | None:
        self._check()
        return await self._get(cache, key)

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check()
        return await self._get_many(cache, keys)

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        self._check()
        return await self.pages.page(cache, prefix, after, limit)

    # Inside.

    async def _get(self, cache: CacheName, key: bytes) -> bytes | None:
        (value,) = await self._get_many(cache, (key,))
        return value

    async def _get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        if cache not in LARGE:
            return await self.pages.get_many(cache, keys)
        try:
            values = await self.reader.get_many(cache, keys)
        except Unavailable as error:
            self.read_failures += 1
            self._unread = self._clock.monotonic(), str(error)
            raise
        self._unread = None
        # One server has answered. If it was dropped and does not know yet, it has not heard of what the others have
        # acknowledged since: what it has is right, because it is written once; what it has not is asked of all.
        absent = [number for number, value in enumerate(values) if value is None]
        if absent:
            found = await self.pages.get_many(cache, [keys[number] for number in absent])
            for number, value in zip(absent, found, strict=True):
                values[number] = value
        return values

    def _check(self) -> None:
        if not self._open:
            raise Unavailable("the grid is not open")

    def _connected(self) -> None:
        self.writer.connected()
        self.pages.connected()

    def _room_changed(self) -> None:
        self._kept_before = self.writer.kept
        self.on_room()

    def _fenced(self, detail: str) -> None:
        self.writer.fenced()
        self.pages.fenced()
        self.on_fenced(detail)

    async def _until_there(self, until: float) -> None:
        told = False
        while not (self.gateway.connected and self.reader.connected):
            await self._look(until)
            where, trouble = self._missing()
            if trouble not in (None, NOT_YET) and not told:
                told = True
                log.warning("no Ignite server answers yet at %s (%s); trying again", where, trouble)

    async def _look(self, until: float) -> None:
        """Wait a little for what the servers say; raises what there is no use in waiting for."""
        if self.gateway.fenced is not None:
            raise Fenced(self.gateway.fenced)
        if self.gateway.refusal is not None:
            raise RefusedByGateway(self.gateway.refusal)
        if self._clock.monotonic() >= until:
            raise NoServer(self._nobody())
        await pause(self._clock, LOOK)

    def _nobody(self) -> str:
        where, trouble = self._missing()
        return (
            f"no Ignite server answers at {where} ({trouble}); "
            "start one with 'iot-mqtt cluster up', or check grid.ignite.addresses and grid.ignite.gateway"
        )

    def _missing(self) -> tuple[str, str | None]:
        """Where nobody answers, and why as far as is known; if there is nothing missing, of the readers."""
        if not self.gateway.connected:
            where, trouble = self._settings.gateways, self.gateway.trouble
        else:
            where, trouble = self._settings.addresses, self.reader.trouble
        return ", ".join(map(str, where)), trouble

    def _refuse_late(self) -> None:
        late, self._late = self._late, []
        for done in late:
            try:
                done(Unavailable("the grid is not open"))
            except Exception:
                log.exception("a commit's completion failed")


def _nothing() -> None:
    """Nobody wants to know."""


def _ignore(_: str) -> None:
    """Nobody wants to know."""
