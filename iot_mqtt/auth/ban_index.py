"""Bans, found by client id, user or address in a few looks, however many there are.

Each is filed once, under the narrowest thing that it names::

    client id            a dictionary
    pattern              by what it begins with: as many looks as there are lengths of beginnings
    user                 a dictionary
    address or network   by the width of its prefix: as many looks as there are widths
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, TypeVar

from iot_mqtt.ports.addresses import Address, parsed
from iot_mqtt.ports.bans import Ban
from iot_mqtt.wildcards import for_fnmatch

_SIGNS = re.compile(r"[*?]")
#: Bits before an IPv4 address in IPv6.
MAPPED = 96
Key = TypeVar("Key")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Entry:
    """A ban, understood; ``ValueError`` if its address is none."""

    ban: Ban
    #: None: the client id itself, if any.
    client: re.Pattern[str] | None
    network: Network | None

    @classmethod
    def of(cls, ban: Ban) -> Entry:
        pattern = None
        if ban.client is not None and not ban.exact and _SIGNS.search(ban.client):
            pattern = re.compile(translate(for_fnmatch(ban.client)))
        return cls(ban, pattern, None if ban.address is None else _network(ban.address))

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it is filed."""
        ban, network = self.ban, self.network
        if ban.client is not None:
            if self.client is None:
                return "client", ban.client
            return "pattern", ban.client[: min(found for sign in "*?" if (found := ban.client.find(sign)) >= 0)]
        if ban.user is not None:
            return ("user", ban.user)
        assert network is not None
        return ("network", network.version, network.prefixlen, _prefix(network.network_address, network.prefixlen))

    def fits(self, client_id: str, user: str, address: Address | None, now: float) -> bool:
        """Whether it concerns somebody now."""
        ban = self.ban
        return (
            (ban.until is None or ban.until > now)
            and (ban.client in (None, client_id) if self.client is None else self.client.match(client_id) is not None)
            and (ban.user is None or ban.user == user)
            and (self.network is None or (address is not None and address in self.network))
        )


class BanIndex:
    """All of them, by id and by what they name."""

    __slots__ = ("_by_id", "_filed", "_lengths", "_widths")

    def __init__(self) -> None:
        self._by_id: dict[str, Entry] = {}
        self._filed: dict[tuple[Any, ...], dict[str, Entry]] = {}
        #: How many patterns begin with so many characters that are no signs, and networks by version and width.
        self._lengths: dict[int, int] = {}
        self._widths: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Ban]:
        return iter([entry.ban for entry in self._by_id.values()])

    def get(self, id: str) -> Ban | None:
        """The ban of an id."""
        found = self._by_id.get(id)
        return None if found is None else found.ban

    def add(self, ban: Ban) -> None:
        """From now on; in place of another one of its id. ``ValueError``: its address is none."""
        entry = Entry.of(ban)
        self.remove(ban.id)
        place = entry.place
        self._by_id[ban.id] = entry
        self._filed.setdefault(place, {})[ban.id] = entry
        self._count(place, 1)

    def remove(self, id: str) -> None:
        """It does not hold any more."""
        entry = self._by_id.pop(id, None)
        if entry is None:
            return
        place = entry.place
        del self._filed[place][id]
        if not self._filed[place]:
            del self._filed[place]
        self._count(place, -1)

    def find(self, client_id: str, user: str, host: str, now: float) -> Ban | None:
        """One that concerns a client."""
        address = parsed(host)
        for place in self._places(client_id, user, address):
            for entry in self._filed.get(place, {}).values():
                if entry.fits(client_id, user, address, now):
                    return entry.ban
        return None

    def bans_host(self, host: str, now: float) -> bool:
        """Whether nobody is let in from an address."""
        if not self._widths:
            return False
        address = parsed(host)
        return any(
            entry.fits("", "", address, now)
            for place in self._networks(address)
            for entry in self._filed.get(place, {}).values()
        )

    def _places(self, client_id: str, user: str, address: Address | None) -> Iterator[tuple[Any, ...]]:
        if client_id:
            yield "client", client_id
            for length in self._lengths:
                if length <= len(client_id):
                    yield "pattern", client_id[:length]
        if user:
            yield "user", user
        yield from self._networks(address)

    def _networks(self, address: Address | None) -> Iterator[tuple[Any, ...]]:
        if address is not None:
            for version, width in self._widths:
                if version == address.version:
                    yield "network", version, width, _prefix(address, width)

    def _count(self, place: tuple[Any, ...], change: int) -> None:
        if place[0] == "pattern":
            _add(self._lengths, len(place[1]), change)
        elif place[0] == "network":
            _add(self._widths, (place[1], place[2]), change)


def _add(counts: dict[Key, int], key: Key, change: int) -> None:
    counts[key] = counts.get(key, 0) + change
    if not counts[key]:
        del counts[key]


def _network(text: str) -> Network:
    """An address or network; IPv4 in IPv6 is IPv4, as of who connects."""
    network = ipaddress.ip_network(text, strict=False)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= MAPPED:
        return ipaddress.IPv4Network((mapped, network.prefixlen - MAPPED))
    return network


def _prefix(address: Address, width: int) -> int:
    return int(address) >> (address.max_prefixlen - width)
