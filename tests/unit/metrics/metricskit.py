"""Facts of a node that never was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from iot_mqtt.ports.cluster_status import AbsentNode, ClusterStatus, PeerStatus
from iot_mqtt.ports.status import BrokerInfo, LogInfo


@dataclass(frozen=True)
class Facts(BrokerInfo):
    """``BrokerInfo`` with a figure in each place."""

    node_id: str = "n1"
    version: str = "1.2"
    started_at: float = 1000.0
    ready: bool = True
    state: str = "serving"
    clients: int = 2
    sessions: int = 5
    subscriptions: int = 7
    retained: int = 11
    retained_bytes: int = 13
    retained_system: int = 3
    queued: int = 17
    inflight: int = 19
    waiting: int = 23
    in_memory: int = 37
    unexplained: int = 47
    backlog: int = 29
    uncounted: int = 31
    largest_backlog: int = 37
    furthest_lag: int = 41
    paused: int = 43
    alarms: tuple[str, ...] = ()
    number: int = 1


@dataclass(frozen=True)
class RoomFacts(LogInfo):
    """``LogInfo`` with a figure in each place."""

    end: int = 1
    messages: int = 2001
    bytes: int = 2002
    generations: int = 2003
    streams: int = 2004
    messages_appended: int = 2005
    bytes_appended: int = 2006
    pages_written: int = 2007
    pages_read: int = 2008
    bytes_read: int = 2009
    damaged_pages: int = 2010
    disk_level: str = "alarm"
    disk_used: int = 2011
    disk_limit: int = 2012
    disk_free: int = 2013
    inodes: int = 2016
    inodes_free: int = 2017
    uncommitted_bytes: int = 2014
    uncommitted_operations: int = 2015
    trouble: str | None = None


@dataclass(frozen=True)
class Peer(PeerStatus):
    """``PeerStatus`` with a figure in each place."""

    number: int = 2
    node_id: str = "n2"
    boot: int = 5
    version: str = "1.2"
    member: bool = True
    up: bool = True
    hears_us: bool = True
    draining: bool = False
    load: float = 0.25
    clients: int = 3001
    end: int = 7
    unconfirmed: int = 3002
    crowded: bool = False
    routes: int = 3003
    routes_version: int = 7
    routes_agree: bool = True
    acts_on: int = 7
    datagrams_sent: int = 3004
    items_sent: int = 3005
    bytes_sent: int = 3006
    datagrams_received: int = 3007
    items_received: int = 3008
    bytes_received: int = 3009
    repairs_asked: int = 3010
    repairs_served: int = 3011
    gaps: int = 3012
    items_missed: int = 3013
    clock_offset: float | None = 0.0


@dataclass(frozen=True)
class Cluster(ClusterStatus):
    """``ClusterStatus`` with a figure in each place."""

    node_id: str = "n1"
    number: int = 1
    boot: int = 4001
    over: str | None = None
    registry: str = "connected"
    registry_trouble: str | None = None
    copies_missing: int | None = 0
    read_trouble: str | None = None
    read_failures: int = 4015
    grid_servers: int | None = 3
    routes: int = 4002
    routes_version: int = 7
    draining: bool = False
    peers: tuple[PeerStatus, ...] = (Peer(),)
    absent: tuple[AbsentNode, ...] = ()
    known_late: int = 4003
    claims_granted: Mapping[str, int] = field(default_factory=lambda: {"new": 4004, "moved": 4005})
    claims_refused: Mapping[str, int] = field(default_factory=lambda: {"home_silent": 4006})
    released: int = 4007
    releases_refused: int = 4008
    fences: int = 4009
    dead: Mapping[int, int] = field(default_factory=dict)
    adoptions: int = 4010
    adopted_clients: int = 4011
    adoption_failures: int = 4012
    unreadable_channels: int = 4013
    incompatible: tuple[str, ...] = ()
    strangers: int = 4014
    clocks_wrong: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Gateway:
    """``GatewayFacts`` with a figure in each place."""

    connects: int = 5001
    losses: int = 5002
    servers: int = 5003


@dataclass
class Counts:
    """What a listener counted."""

    accepted: int = 3
    refused: int = 1
    open: int = 2
    refusals: dict[str, int] = field(default_factory=lambda: {"banned": 1})


@dataclass
class Listener:
    """One open port."""

    name: str
    counts: Counts


class HandClock:
    """A clock that is turned by hand; ``late`` lets it run over what was due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, Callable[[], None], HandTimer]] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> HandTimer:
        timer = HandTimer()
        self.calls.append((self.now + delay, call, timer))
        return timer

    def turn(self, seconds: float) -> None:
        """Let time pass at once, then call what became due, late as it may be."""
        self.now += seconds
        due = [entry for entry in self.calls if entry[0] <= self.now]
        self.calls = [entry for entry in self.calls if entry[0] > self.now]
        for _, call, timer in due:
            if not timer.cancelled:
                call()


class HandTimer:
    """A timer of ``HandClock``."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
