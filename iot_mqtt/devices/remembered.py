"""Gateways and devices in memory, so many and no more: whoever is connected stays, and nobody fills it for all others.

::

    one more of a gateway that has its share   ─▶ that gateway's own device, seen longest ago, makes room
    one more when all is full                  ─▶ the one of those away that was seen longest ago does
                                               ─▶ nobody is away: a device of the same gateway does, or it is not kept
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from iot_mqtt.ports.devices import StoredDevice, replace

#: A gateway and its device; "" for the gateway itself, or for an MQTT device.
Key = tuple[str, str]


class Seen:
    """A gateway or device in memory."""

    __slots__ = ("record", "last_seen", "readings")

    def __init__(self, record: StoredDevice) -> None:
        self.record = record
        self.last_seen = record.last_seen
        self.readings = record.readings

    def current(self) -> StoredDevice:
        return replace(self.record, last_seen=self.last_seen, readings=self.readings)


class Remembered:
    """At most ``most``, of these ``most_behind`` devices of each gateway. Each order begins with what was put first."""

    def __init__(self, most: int, most_behind: int) -> None:
        self._most = most
        self._most_behind = most_behind
        self._seen: dict[Key, Seen] = {}
        #: The devices of each gateway.
        self._behind: dict[str, dict[str, None]] = {}
        self._connected: set[str] = set()
        #: Those whose gateway is not connected.
        self._away: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def get(self, key: Key) -> Seen | None:
        return self._seen.get(key)

    def has_room(self, key: Key) -> bool:
        """Whether it is there, or nobody has to make room for it."""
        return key in self._seen or self._who_makes_room(key) is None

    def put(self, key: Key, seen: Seen) -> Key | None:
        """Keep it, as what was seen last. Who is forgotten for that: this one itself, if there is no room."""
        forgotten = None if key in self._seen else self._who_makes_room(key)
        if forgotten == key:
            return key
        if forgotten is not None:
            self.forget(forgotten)
        gateway, device = key
        self._seen.pop(key, None)
        self._seen[key] = seen
        if device:
            behind = self._behind.setdefault(gateway, {})
            behind.pop(device, None)
            behind[device] = None
        if gateway not in self._connected:
            self._away[key] = None
            self._away.move_to_end(key)
        return forgotten

    def forget(self, key: Key) -> None:
        gateway, device = key
        self._seen.pop(key, None)
        self._away.pop(key, None)
        behind = self._behind.get(gateway)
        if device and behind is not None:
            behind.pop(device, None)
            if not behind:
                del self._behind[gateway]

    def connected(self, gateway: str) -> None:
        """It is here, and with it what is behind it."""
        self._connected.add(gateway)
        for key in self._of(gateway):
            self._away.pop(key, None)

    def left(self, gateway: str) -> None:
        """It is not here any more."""
        self._connected.discard(gateway)
        for key in self._of(gateway):
            self._away[key] = None

    def _of(self, gateway: str) -> Iterator[Key]:
        if (gateway, "") in self._seen:
            yield gateway, ""
        for device in self._behind.get(gateway, ()):
            yield gateway, device

    def _who_makes_room(self, key: Key) -> Key | None:
        gateway, device = key
        behind = self._behind.get(gateway) if device else None
        if behind is not None and len(behind) >= self._most_behind:
            return gateway, next(iter(behind))
        if len(self._seen) < self._most:
            return None
        if self._away:
            return next(iter(self._away))
        return key if behind is None else (gateway, next(iter(behind)))
