"""Who is next where passwords wait to be verified: addresses in turn, and the names of one address in turn.

::

    192.0.2.1         alice: p1        bob: p2
    198.51.100.7      alice: g1 g2 g3 g4 …                 next: p1, g1, p2, g2, g3 …
    2001:db8:1:2::/64 carol: p3

So a flood of one address makes nobody else wait, nor do guesses at one name others of the same address. Who is over
the bound is refused where most wait: the newest of the name with most, of the address with most.

Each address also has an *allowance* of wrong passwords (a leaky bucket): when it is used up, the address waits for
``seconds_each`` before its next verification, and only a few of it may wait. Names have none: nobody locks out a
user by guessing at him. Pure: time is passed in.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Addresses whose wrong passwords are remembered; those heard of longest ago make room.
MAX_ADDRESSES = 10_000
#: Verifications that may wait for an address without an allowance.
FEW = 16


@dataclass(slots=True)
class _Address(Generic[Key]):
    """What waits for one address, by name, and how many wrong passwords it showed lately."""

    names: OrderedDict[str, deque[Key]] = field(default_factory=OrderedDict)
    waiting: int = 0
    #: Wrong passwords that have not leaked away, at ``since``.
    level: float = 0.0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """``burst`` wrong passwords at once, then one in ``seconds_each``; a burst of 0: any number."""

    burst: int = 0
    seconds_each: float = 1.0


class FairQueue(Generic[Key]):
    """Keys that wait, each for an address and a name; ``limit`` in all."""

    def __init__(self, limit: int, allowance: Allowance | None = None) -> None:
        self._limit = limit
        self._allowance = allowance or Allowance()
        self._addresses: OrderedDict[str, _Address[Key]] = OrderedDict()
        #: Those of them for whom something waits, in the order of their turns.
        self._turns: OrderedDict[str, _Address[Key]] = OrderedDict()
        self.waiting = 0

    def put(self, key: Key, source: str, name: str, now: float) -> list[tuple[Key, str]]:
        """Add a key; returns the keys, with their addresses, that have to go because there are too many."""
        address = self._address(source, now)
        address.names.setdefault(name, deque()).append(key)
        address.waiting += 1
        self.waiting += 1
        self._turns.setdefault(source, address)
        gone = self.trim(source, now)
        while self.waiting > self._limit:
            most = max(self._turns, key=lambda each: self._turns[each].waiting)
            gone.append((self._newest(most, self._turns[most]), most))
        return gone

    def take(self, now: float) -> tuple[Key, str] | None:
        """The next key and its address; None if nothing waits that has its turn now."""
        found = next((each for each in self._turns.items() if self._delay(each[1], now) <= 0), None)
        if found is None:
            return None
        source, address = found
        name, keys = next(iter(address.names.items()))
        key = keys.popleft()
        del address.names[name]
        if keys:
            address.names[name] = keys  # behind the others
        self._turns.move_to_end(source)
        self._less(source, address)
        return key, source

    def withdraw(self, key: Key, source: str, name: str) -> None:
        """Nobody wants the turn of a key that waits."""
        address = self._turns[source]
        keys = address.names[name]
        keys.remove(key)
        if not keys:
            del address.names[name]
        self._less(source, address)

    def delay(self, now: float) -> float | None:
        """Seconds until something that waits has its turn; None if nothing waits."""
        return min((self._delay(address, now) for address in self._turns.values()), default=None)

    def charge(self, source: str, now: float) -> None:
        """A verification begins; it counts as a wrong password until ``forgive``."""
        address = self._address(source, now)
        address.level = self._level(address, now) + 1
        address.since = now

    def spent(self, source: str, now: float) -> bool:
        """Whether an address has used up its allowance."""
        address = self._addresses.get(source)
        return address is not None and self._delay(address, now) > 0

    def forgive(self, source: str, now: float) -> None:
        """It was the right one."""
        address = self._address(source, now)
        address.level = max(0.0, self._level(address, now) - 1)
        address.since = now

    def trim(self, source: str, now: float) -> list[tuple[Key, str]]:
        """What has to go because too many wait for an address that has used up its allowance."""
        address = self._turns.get(source)
        gone: list[tuple[Key, str]] = []
        if address is not None and self._delay(address, now) > 0:
            while address.waiting > FEW:
                gone.append((self._newest(source, address), source))
        return gone

    def _address(self, source: str, now: float) -> _Address[Key]:
        address = self._addresses.get(source)
        if address is None:
            self._make_room()
            address = self._addresses[source] = _Address(since=now)
        else:
            self._addresses.move_to_end(source)
        return address

    def _make_room(self) -> None:
        """Forget the oldest for whom nothing waits: at most what waits is looked at besides."""
        excess = len(self._addresses) + 1 - MAX_ADDRESSES
        if excess > 0:
            idle = (source for source, address in self._addresses.items() if not address.waiting)
            for source in [found for found, _ in zip(idle, range(excess), strict=False)]:
                del self._addresses[source]

    def _newest(self, source: str, address: _Address[Key]) -> Key:
        """Take out the newest of the name for which most wait."""
        name = max(reversed(address.names), key=lambda each: len(address.names[each]))
        keys = address.names[name]
        key = keys.pop()
        if not keys:
            del address.names[name]
        self._less(source, address)
        return key

    def _less(self, source: str, address: _Address[Key]) -> None:
        address.waiting -= 1
        self.waiting -= 1
        if not address.waiting:
            del self._turns[source]

    def _level(self, address: _Address[Key], now: float) -> float:
        return max(0.0, address.level - (now - address.since) / self._allowance.seconds_each)

    def _delay(self, address: _Address[Key], now: float) -> float:
        """Seconds until the address may have another verification."""
        if not self._allowance.burst:
            return 0.0
        over = self._level(address, now) + 1 - self._allowance.burst
        return over * self._allowance.seconds_each if over > 1e-9 else 0.0
