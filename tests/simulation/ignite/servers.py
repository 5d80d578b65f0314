"""A cluster of Ignite servers in simulated time: who is there, who stands still, who is dropped, who comes back.

::

    member ─▶ paused or cut off ─▶ for longer than DETECT: dropped by the others ─▶ goes on, and does not know yet
      ▲  ▲            │                                                              │ NOTICE
      │  └── goes on ─┘                              crashed ──▶ away ◀── stops ─────┘
      └─── joins with nothing, or what is on its disk, copies its partitions ◀──┘ RESTART

With disks any of them may be lost at any time, and all of them at once: then they are active again when all are back.

Times are shorter than the real ones, in their proportion, so that a story of some seconds has all of it. What the real
gateway does at each of these points: ``cluster/gateway`` (``Pulse``, ``Quorum``, ``Fences``, ``Pages``).
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from iot_mqtt.grid.ignite import Address
from iot_mqtt.pipeline.clock import ManualClock
from tests.simulation.ignite.copies import Copy, Placement, partition_of
from tests.simulation.messaging import NodeClock
from tests.simulation.speed import Speed

if TYPE_CHECKING:
    from tests.simulation.ignite.link import Link

#: Seconds after which a server that does not answer is dropped; standing still after which it closes its connections,
#: and for how long it welcomes none then.
DETECT: Final = 2.0
STILL: Final = 1.6
DOUBT: Final = 4.0
#: With too few servers: until connections are closed.
GRACE: Final = 0.5
#: Until a server that was dropped, and goes on, sees that; until it runs again; until it has copied a partition.
NOTICE: Final = (0.1, 1.5)
RESTART: Final = (0.3, 3.0)
MOVE: Final = (0.1, 2.0)

#: (cache, key, value)
Entry = tuple[str, bytes, "bytes | None"]


class Write:
    """Entries on their way to all their copies. ``done`` is told whether they are all there: some are lost to all."""

    __slots__ = ("server", "entries", "done")

    def __init__(self, server: Server, entries: list[Entry], done: Callable[[bool], None]) -> None:
        self.server = server
        self.entries = entries
        self.done = done


class Server:
    """One of them; ``clock`` stands still when its process does."""

    def __init__(self, cluster: Servers, name: str, address: Address) -> None:
        self.cluster = cluster
        self.name = name
        self.address = address
        self.copy = Copy()
        self.clock = NodeClock(cluster.clock)
        self.speed = Speed(0.0002, 0.001)
        self.links: list[Link] = []
        #: Connections that were closed in the middle of a request.
        self.closing: list[Link] = []
        self.running = True
        self.paused = False
        #: It and the others do not reach each other.
        self.cut_off = False
        self.silent_since = 0.0
        self.doubt_until = 0.0
        #: What it had when it was dropped, as long as it does not know that it was.
        self.stale: set[int] | None = None
        self.thin_open = True
        #: What it had when it left.
        self.remembers: set[int] = set()

    @property
    def member(self) -> bool:
        return self in self.cluster.members

    @property
    def silent(self) -> bool:
        """The others wait for it."""
        return self.paused or self.cut_off

    @property
    def ready(self) -> bool:
        """Whether it may answer anything."""
        cluster = self.cluster
        return cluster.active and self.member and not self.cut_off and len(cluster.members) >= cluster.quorum

    @property
    def in_doubt(self) -> bool:
        return self.cluster.clock.monotonic() < self.doubt_until

    def delay(self) -> float:
        return self.cluster.rng.uniform(self.speed.least, self.speed.most)

    def close_links(self) -> None:
        for link in list(self.links):
            link.close()


class Servers:
    """All of them. ``lie``: planted; one that comes back says that it has what it missed while it was away."""

    def __init__(
        self, clock: ManualClock, rng: random.Random, count: int = 3, *, lie: bool = False, disks: bool = False
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.lie = lie
        self.quorum = count // 2 + 1
        self.servers = [Server(self, f"i{number}", Address("server", number)) for number in range(count)]
        self.members: list[Server] = list(self.servers)
        self.disks = disks
        #: After all were gone: that all are back.
        self.active = True
        self.placement = Placement(self.servers if disks else ())
        #: Number of a node → the greatest boot of which no HELLO is welcomed; the same of what was closed everywhere.
        self.fences: dict[int, int] = {}
        self.fenced: dict[int, int] = {}
        #: Commits that put something for keeping are refused.
        self.full = False
        self.happened: Counter[str] = Counter()
        self.kept_out = 0
        #: Lives of nodes of whose last commit a part may be missing: its server went in the middle of it. A node that
        #: lives tries again.
        self.unfinished: set[tuple[int, int]] = set()
        self.trace: Callable[[str], None] = lambda _: None
        self.version = 1
        self._under_way: list[Write] = []
        self._stuck: list[Write] = []
        # What waits until every member answers, and for whom.
        self._waiting: deque[tuple[Server, Callable[[], None]]] = deque()
        for partition, owners in enumerate(self.placement.owners):
            owners += self.placement.ideal(partition, self.members)

    # What happens to servers.

    @property
    def silent(self) -> list[Server]:
        """The others wait for these."""
        return [one for one in self.members if one.silent]

    @property
    def robust(self) -> bool:
        """Whether one of them may be lost now."""
        return self.disks or (
            len(self.members) == len(self.servers)
            and not self.placement.missing
            and not any(one.silent for one in self.members)
        )

    def crash(self, server: Server) -> None:
        """Its process is gone, with all that it had in memory."""
        if server.running:
            self.happened["servers crashed"] += 1
            self._ends(server)
            self._restart(server)

    def lose_power(self) -> None:
        """All of them; they have disks."""
        self.happened["servers all without power"] += 1
        for server in self.servers:
            self.crash(server)

    def pause(self, server: Server) -> None:
        if server.running and not server.paused:
            self.happened["servers paused"] += 1
            server.paused = True
            server.clock.pause()
            self._silent(server)

    def cut_off(self, server: Server) -> None:
        """The others do not reach it, nor it the others; nodes reach all of them."""
        if server.running and not server.cut_off:
            self.happened["servers cut off"] += 1
            server.cut_off = True
            self._silent(server)

    def go_on(self, server: Server) -> None:
        if not server.running or not server.silent:
            return
        stood_still = server.paused and self.clock.monotonic() - server.silent_since > STILL
        was_paused, server.paused = server.paused, False
        if server.member:
            server.cut_off = False
        if stood_still:
            server.doubt_until = self.clock.monotonic() + DOUBT
            server.close_links()
        if was_paused:
            server.clock.resume()
        if server.stale is not None and (was_paused or not server.cut_off):
            self.clock.call_later(self.rng.uniform(*NOTICE), lambda: self._noticed(server, server.clock))
        self.changed()

    def fill(self, *, full: bool) -> None:
        """There is no room for what is kept; or there is."""
        self.happened["servers full"] += full and not self.full
        self.full = full
        for server in self.members:
            for link in list(server.links):
                link.room()

    def calm(self) -> None:
        """All of them are quick."""
        for server in self.servers:
            server.speed = Speed(0.0002, 0.001)

    def _silent(self, server: Server) -> None:
        server.silent_since = since = self.clock.monotonic()

        def detect() -> None:
            if server.silent and server.silent_since == since and server.member:
                self._drop(server)

        self.clock.call_later(DETECT, detect)

    def _drop(self, server: Server) -> None:
        """The others go on without it."""
        self.trace(f"server {server.name} is dropped by the others")
        self.happened["servers dropped"] += 1
        server.stale = {number for number, owners in enumerate(self.placement.owners) if server in owners}
        self._leaves(server)
        if server.cut_off and not server.paused:
            # It sees the others fail, at about the same time, and soon that it is alone.
            self.clock.call_later(self.rng.uniform(0.0, 0.5), lambda: self._alone(server))

    def _alone(self, server: Server) -> None:
        server.thin_open = False
        self.clock.call_later(GRACE, lambda: self._noticed(server, server.clock))

    def _noticed(self, server: Server, life: NodeClock) -> None:
        """It has to join anew."""
        if server.running and server.clock is life and server.stale is not None and not server.paused:
            self.trace(f"server {server.name} sees that it was dropped")
            self._ends(server)
            self._restart(server)

    def _ends(self, server: Server) -> None:
        server.running = server.paused = server.cut_off = False
        server.thin_open = False
        server.stale = None
        server.clock.stop()
        server.close_links()
        if server.member:
            self._leaves(server)

    def _leaves(self, server: Server) -> None:
        self.members.remove(server)
        self.active = self.active and bool(self.members)
        self.version += 1
        server.remembers = {number for number, owners in enumerate(self.placement.owners) if server in owners}
        self.placement.without(server)
        for write in [write for write in (*self._under_way, *self._stuck) if write.server is server]:
            # What it had sent before it went arrives, all of it or not.
            self._forget(write)
            self.put([entry for entry in write.entries if self.rng.random() < 0.5])
        self._waiting = deque(one for one in self._waiting if one[0] is not server)
        closing, server.closing = server.closing, []
        for link in closing:
            link.idle()
        self._rebalance()
        self.changed()

    def _restart(self, server: Server) -> None:
        self.clock.call_later(self.rng.uniform(*RESTART), lambda: self._joins(server))

    def _joins(self, server: Server) -> None:
        if server.running:
            return
        self.trace(f"server {server.name} joins")
        server.running = server.thin_open = True
        server.clock = NodeClock(self.clock)
        server.doubt_until = 0.0
        server.speed = Speed(0.0002, 0.001)
        if not (self.lie or self.disks):
            server.copy = Copy()
        self.members.append(server)
        self.members.sort(key=lambda one: one.name)
        self.active = self.active or len(self.members) == len(self.servers)
        self.placement.find(self.members)
        self.version += 1
        self._rebalance()
        self.changed()

    def _rebalance(self) -> None:
        for partition, keeper in self.placement.wanted(self.members):
            self.clock.call_later(self.rng.uniform(*MOVE), lambda to=keeper, which=partition: self._moved(which, to))  # type: ignore[misc]

    def _moved(self, partition: int, to: Server) -> None:
        if to not in self.members or (partition, to) not in self.placement.wanted(self.members):
            return
        source = self.placement.owners[partition]
        if to.silent or not source or source[0].silent:  # type: ignore[attr-defined]
            self.clock.call_later(self.rng.uniform(*MOVE), lambda: self._moved(partition, to))
            return
        if not (self.lie and partition in to.remembers):
            to.copy.take_over(partition, source[0].copy)
        to.remembers.discard(partition)
        self.placement.has(partition, to, self.members)
        self.changed()

    def changed(self) -> None:
        """Go on with what waited for a server; tell the nodes."""
        stuck, self._stuck = self._stuck, []
        for write in stuck:
            self._arrive(write)
        self._go_on()
        for server in self.members:
            for link in list(server.links):
                link.topology()

    # For what a server does.

    def when_all_answer(self, server: Server, call: Callable[[], None]) -> None:
        """Once every member answers; never, if ``server`` is gone first."""
        self._waiting.append((server, call))
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not any(one.silent for one in self.members):
            self._waiting.popleft()[1]()

    def write(self, server: Server, entries: list[Entry], done: Callable[[bool], None]) -> None:
        """Each entry to every copy of its partition; ``done`` when all have it. In parts, if ``server`` goes first."""
        write = Write(server, entries, done)
        self._under_way.append(write)
        delay = server.delay() + max(one.speed.most for one in self.members) * self.rng.random()
        server.clock.call_later(delay, lambda: self._arrive(write) if write in self._under_way else None)

    def _arrive(self, write: Write) -> None:
        lost = self.disks and any(not self.placement.owners[partition_of(key)] for _, key, _ in write.entries)
        if write.server.cut_off or any(one.silent for one in self.members):
            here: list[Entry] = []
            there: list[Entry] = []
            for entry in write.entries:
                owners: list[Server] = self.placement.owners[partition_of(entry[1])]  # type: ignore[assignment]
                waits = write.server.cut_off or not owners or any(one.silent for one in owners)
                (there if waits else here).append(entry)
            self.put(here)
            if there:
                write.entries = there
                self._forget(write)
                self._stuck.append(write)
                return
        else:
            self.put(write.entries)
        self._forget(write)
        write.done(not lost)

    def _forget(self, write: Write) -> None:
        for several in (self._under_way, self._stuck):
            if write in several:
                several.remove(write)

    def put(self, entries: list[Entry]) -> None:
        """At once."""
        owners = self.placement.owners
        for cache, key, value in entries:
            for one in owners[partition_of(key)]:
                one.copy.shelves[cache].set(key, value)

    def present(self, cache: str, key: bytes) -> bytes | None:
        """At its primary."""
        owners = self.placement.owners[partition_of(key)]
        return owners[0].copy.shelves[cache].values.get(key) if owners else None

    def entries(self, cache: str, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        """A page of what the primaries have, and one entry more if there is one."""
        found: list[tuple[bytes, bytes]] = []
        for server in self.members:
            shelf = server.copy.shelves[cache]
            count = 0
            for key in shelf.behind(prefix, after):
                owners = self.placement.owners[partition_of(key)]
                if owners and owners[0] is server:
                    found.append((key, shelf.values[key]))
                    count += 1
                    if count > limit:
                        break
        found.sort()
        return found[: limit + 1]
