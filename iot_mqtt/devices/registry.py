"""Gateways and the devices behind them: when they were first and last seen, and what they speak.

Also the highest sequence of each gateway whose readings are safe, so that what it sends again after a reconnect,
anywhere, is recognised. Sequences are written with the readings; the rest lazily, because nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.devices.changes import Changes
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.ports.devices import DeviceStore, StoredDevice, replace

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker

log = logging.getLogger(__name__)

#: Devices written in one turn; the others follow with the next ones.
WRITTEN_AT_ONCE = 500

Key = tuple[str, str]


class OnGateway(Protocol):
    """Told of gateways that come and go."""

    def __call__(self, gateway: str, *, here: bool) -> None: ...


class Seen:
    """A gateway or device in memory."""

    __slots__ = ("record", "last_seen", "readings")

    def __init__(self, record: StoredDevice) -> None:
        self.record = record
        self.last_seen = record.last_seen
        self.readings = record.readings

    def current(self) -> StoredDevice:
        return replace(self.record, last_seen=self.last_seen, readings=self.readings)


class Devices:
    """Those that this node has seen, those seen longest ago first."""

    def __init__(self, broker: Broker, store: DeviceStore, changes: Changes, settings: DevicesSettings) -> None:
        self._broker = broker
        self._store = store
        self._changes = changes
        self._settings = settings
        self._seen: dict[Key, Seen] = {}
        #: Who changed since it was written.
        self._dirty: dict[Key, None] = {}
        self._next_write = 0.0
        #: Gateway → epoch and highest sequence that was taken; while it is connected here.
        self._sequences: dict[str, tuple[int, int]] = {}
        #: Addresses that each gateway is connected from; two while one takes over from the other.
        self._present: dict[str, set[str]] = {}
        #: Frames that had been taken before.
        self.duplicates = 0
        #: Told of gateways that come and go.
        self.on_gateway: OnGateway = _nobody
        #: Told target, values and time.
        self.on_values: Callable[[str, Mapping[str, Any], int], None] = _nothing

    def restore(self, records: list[StoredDevice]) -> None:
        """What the store has. Whoever is marked as online was so when the node ended."""
        for record in sorted(records, key=lambda one: one.last_seen):
            self._seen[record.gateway, record.device] = Seen(replace(record, online=False))
            if record.online:
                self._dirty[record.gateway, record.device] = None

    # Gateways.

    def known(self, gateway: str, then: Callable[[], None]) -> None:
        """Read what is kept of a gateway, then go on. Before ``login``."""
        drive(self._read(gateway), lambda _: then(), partial(self._not_read, gateway, then))

    async def _read(self, gateway: str) -> None:
        stored = await self._store.sequence(gateway)
        have = self._sequences.get(gateway)
        if stored is not None and (have is None or (have[0] == stored[0] and have[1] < stored[1])):
            self._sequences[gateway] = stored
        async for record in self._store.devices(gateway):
            if (record.gateway, record.device) not in self._seen:
                self._seen[record.gateway, record.device] = Seen(replace(record, online=False))

    def _not_read(self, gateway: str, then: Callable[[], None], error: BaseException) -> None:
        """Not ready is not absent: later again."""
        log.error("what is kept of a gateway cannot be read; trying again: %s", error, extra={"gateway": gateway})
        self._broker.clock.call_later(RETRY_SECONDS, partial(self.known, gateway, then))

    def login(self, gateway: str, *, codec: str, version: str, peer: str, epoch: int = 0) -> int:
        """A gateway is here; before its CONNECT is handed on. The highest sequence that is safe, 0 if none. ``epoch``:
        of its numbering; with another one than before it begins anew.
        """
        now = self._broker.clock.wall()
        key = (gateway, "")
        seen = self._seen.pop(key, None)
        record = StoredDevice(gateway, "", now, now) if seen is None else seen.current()
        record = replace(
            record, online=True, codec=codec, version=version, address=peer, last_seen=now, logins=record.logins + 1
        )
        self._put(key, Seen(record))
        self._write(key)
        self._present.setdefault(gateway, set()).add(peer)
        self.on_gateway(gateway, here=True)
        have = self._sequences.get(gateway)
        if have is None or have[0] != epoch:
            self._sequences[gateway] = (epoch, 0)
            return 0
        return have[1]

    def left(self, gateway: str, peer: str = "") -> None:
        """The connection from this address is gone; one that had not logged in yet does not matter."""
        present = self._present.get(gateway)
        if present is None:
            return
        present.discard(peer)
        if present and peer:
            return
        del self._present[gateway]
        seen = self._seen.get((gateway, ""))
        if seen is not None and seen.record.online:
            seen.last_seen = self._broker.clock.wall()
            seen.record = replace(seen.record, online=False)
            for key in [key for key in self._dirty if key[0] == gateway]:
                self._write(key)
            self._write((gateway, ""))
        self.on_gateway(gateway, here=False)

    def came(self, gateway: str) -> None:
        """Its session was on another node: what that one had taken, or said of it, last is committed now."""
        if gateway in self._present:
            # The other node has written that it left, perhaps after we wrote that it is here.
            self._write((gateway, ""))
        else:
            drive(self._not_here(gateway), _read, partial(self._not_marked, gateway))
        if gateway in self._present or gateway in self._sequences:
            drive(self._read(gateway), _read, partial(self._not_read, gateway, lambda: None))

    async def _not_here(self, gateway: str) -> None:
        """A node that died could not write that its gateways left: whoever adopts their sessions does."""
        async for record in self._store.devices(gateway):
            if record.device:
                return
            adopted = gateway not in self._present and self._broker.sessions.get(gateway) is not None
            if record.online and adopted:
                self._changes.device(replace(record, online=False))
                self._seen.pop((gateway, ""), None)

    @staticmethod
    def _not_marked(gateway: str, error: BaseException) -> None:
        log.warning("whether a gateway is online is not known: %s", error, extra={"gateway": gateway})

    def moved(self, gateway: str) -> None:
        """Its session is going to another node, which knows better from now on."""
        self._sequences.pop(gateway, None)
        self._seen.pop((gateway, ""), None)

    # Devices.

    def seen(self, gateway: str, device: str, *, readings: int = 1, at: int | None = None) -> None:
        """Something came of a device; ``at``: in milliseconds since 1970, None: now."""
        key = (gateway, device)
        seen = self._seen.get(key)
        now = self._broker.clock.wall() if at is None else at / 1000
        if seen is None:
            self._put(key, Seen(StoredDevice(gateway, device, now, now)))
            seen = self._seen[key]
        seen.last_seen = now
        seen.readings += readings
        self._dirty[key] = None

    def values(self, gateway: str, device: str, values: Mapping[str, Any], at: int) -> None:
        """How a device is; ``at`` in milliseconds since 1970."""
        if self._settings.shadows:
            self.on_values(f"{gateway}/{device}", values, at)

    def fresh(self, gateway: str, sequence: int) -> bool:
        """``is_fresh``, and if so ``taken``."""
        fresh = self.is_fresh(gateway, sequence)
        if fresh:
            self.taken(gateway, sequence)
        return fresh

    def is_fresh(self, gateway: str, sequence: int) -> bool:
        """Whether a frame is new."""
        fresh = sequence > self._sequences.get(gateway, (0, 0))[1]
        self.duplicates += not fresh
        return fresh

    def taken(self, gateway: str, sequence: int) -> None:
        """Everything up to this frame has been published, and becomes safe together with that: call it in the turn of
        the last of it.
        """
        epoch, highest = self._sequences.get(gateway, (0, 0))
        if sequence > highest:
            self._sequences[gateway] = (epoch, sequence)
            self._changes.sequence(gateway, epoch, sequence)

    def not_taken(self, gateway: str, sequence: int) -> None:
        """What was called taken behind this frame was refused after all, and is to come again."""
        epoch, highest = self._sequences.get(gateway, (0, 0))
        if sequence < highest:
            self._sequences[gateway] = (epoch, sequence)
            self._changes.sequence(gateway, epoch, sequence)

    def _put(self, key: Key, seen: Seen) -> None:
        if key not in self._seen and len(self._seen) >= self._settings.max_devices:
            oldest = next(iter(self._seen))
            del self._seen[oldest]
            self._dirty.pop(oldest, None)
            if not oldest[1]:
                self._sequences.pop(oldest[0], None)
            self._changes.forget_device(*oldest)
        self._seen[key] = seen

    # Time.

    def sweep(self) -> None:
        """Write what was seen, now and then, and not all of it in one turn."""
        now = self._broker.clock.monotonic()
        if now < self._next_write or not self._dirty:
            return
        for key in list(self._dirty)[:WRITTEN_AT_ONCE]:
            self._write(key)
        if len(self._dirty) < WRITTEN_AT_ONCE:
            self._next_write = now + self._settings.seen_interval

    def write_all(self) -> None:
        """The node stops."""
        while self._dirty:
            self._write(next(iter(self._dirty)))

    def _write(self, key: Key) -> None:
        self._dirty.pop(key, None)
        seen = self._seen.pop(key, None)
        if seen is not None:
            # Back at the end: those that were written longest ago were seen longest ago.
            self._seen[key] = seen
            seen.record = seen.current()
            self._changes.device(seen.record)
            gateway = self._seen.get((key[0], ""))
            if gateway is not None and gateway.last_seen < seen.last_seen:
                gateway.last_seen = seen.last_seen
                self._dirty[key[0], ""] = None

    # For the API.

    def __len__(self) -> int:
        return len(self._seen)

    async def page(self, gateway: str | None, after: Key | None, limit: int) -> list[StoredDevice]:
        """From the store, with what is newer here."""
        found: list[StoredDevice] = []
        async for record in self._store.devices(gateway):
            key = (record.gateway, record.device)
            if after is not None and _order(key) <= _order(after):
                continue
            seen = self._seen.get(key)
            found.append(seen.current() if seen is not None and seen.last_seen >= record.last_seen else record)
            if len(found) == limit:
                break
        return found

    async def find(self, gateway: str, device: str) -> StoredDevice | None:
        """One gateway or device."""
        async for record in self._store.devices(gateway):
            if record.device == device:
                seen = self._seen.get((gateway, device))
                return seen.current() if seen is not None and seen.last_seen >= record.last_seen else record
        return None


def _order(key: Key) -> tuple[int, bytes, bytes]:
    """As the keys of the store are ordered."""
    name = key[0].encode()
    return len(name), name, key[1].encode()


def _read(_: None) -> None:
    """Nothing waits for it."""


def _nothing(_target: str, _values: Mapping[str, Any], _at: int) -> None:
    """Nobody keeps it."""


def _nobody(gateway: str, *, here: bool) -> None:
    """Nobody wants to know yet."""
