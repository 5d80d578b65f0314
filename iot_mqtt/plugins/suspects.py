"""Who is suspected of a codec's faults, and for how long each of them is held off.

A device that was let in is known by its name: many may share an address. Before that there is only the address. Each
further fault of the same suspect within a day holds it off for twice as long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from iot_mqtt.plugins.running import NotAvailable
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.sdk import Event, Login

#: Suspects that are remembered; the one that was quiet for longest is forgotten.
MOST = 1024
_DAY = 86_400.0


class Suspect(NamedTuple):
    """On whose connection something went wrong."""

    kind: Literal["device", "address"]
    name: str
    #: Also a device has one: without its port.
    address: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Peer:
    """Who is at the other end of a codec's connection."""

    __slots__ = ("peer", "gateway", "accepted", "__weakref__")

    def __init__(self, peer: str) -> None:
        #: Its address.
        self.peer = peer
        #: Who it says it is; and whether it was let in.
        self.gateway = ""
        self.accepted = False

    @property
    def suspect(self) -> Suspect:
        """Whose fault it is if something goes wrong here."""
        address = host_of(self.peer)
        if self.gateway and self.accepted:
            return Suspect("device", self.gateway, address)
        return Suspect("address", address, address)

    def logs_in(self, events: Iterable[Event]) -> bool:
        """Whether it says with these who it is."""
        self.gateway = next((event.gateway for event in events if type(event) is Login), "")
        return bool(self.gateway)


def host_of(peer: str) -> str:
    """The address without its port."""
    host, colon, port = peer.rpartition(":")
    return host if colon and port.isdigit() else peer


@dataclass(frozen=True, slots=True)
class HeldOff:
    """One that is not let in now, for whoever looks."""

    kind: str
    name: str
    #: How often it was held off within a day.
    times: int
    #: Seconds that are left of it.
    seconds: float
    reason: str


@dataclass(slots=True)
class _Hold:
    until: float
    times: int
    reason: str


class HoldOffs:
    """Of one version of a plugin. ``now`` is monotonic seconds."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._holds: OrderedDict[tuple[str, str], _Hold] = OrderedDict()

    def hold(self, kind: str, name: str, reason: str) -> float:
        """Let it not in for a while; how many seconds. One that is held off already stays so, and no longer."""
        now, key = self._now(), (kind, name)
        hold = self._holds.get(key)
        if hold is None or now - hold.until > _DAY:
            hold = self._holds[key] = _Hold(0.0, 0, reason)
        self._holds.move_to_end(key)
        if len(self._holds) > MOST:
            self._holds.popitem(last=False)
        if now >= hold.until:
            length = min(self._limits.hold_off_most, self._limits.hold_off * 2.0 ** min(hold.times, 20))
            hold.until, hold.times, hold.reason = now + length, hold.times + 1, reason
        return hold.until - now

    def check(self, plugin: str, kind: str, name: str) -> None:
        """Raises ``NotAvailable`` if it is held off."""
        hold = self._holds.get((kind, name))
        if hold is not None and (left := hold.until - self._now()) > 0:
            raise NotAvailable(
                "held_off", f"{kind} {name} is held off by {plugin} for {left:.0f} s more: {hold.reason}"
            )

    def shown(self) -> Iterator[HeldOff]:
        """Those that are held off now, the last one first."""
        now = self._now()
        for (kind, name), hold in reversed(self._holds.items()):
            if hold.until > now:
                yield HeldOff(kind, name, hold.times, round(hold.until - now, 1), hold.reason)
