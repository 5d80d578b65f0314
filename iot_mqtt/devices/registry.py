"""Gateways, the devices behind them and MQTT devices: when they were first and last seen, and what they speak.

Written lazily, because nobody waits for it; but for the sequences of gateways (``sequences``), beside which this is.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.devices.changes import Changes
from iot_mqtt.devices.remembered import Key, Remembered, Seen
from iot_mqtt.devices.sequences import Sequences
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.ports.devices import NO_SEQUENCE, DeviceStore, StoredDevice, StoredSequence, replace
from iot_mqtt.ports.questions import Asking

if TYPE_CHECKING:
    from iot_mqtt.broker.sessions.sessions import Sessions
    from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Devices written in one turn; the others follow with the next ones.
WRITTEN_AT_ONCE = 500
#: The codec of a device that speaks MQTT itself.
MQTT: Final = "mqtt"


class Devices:
    """Those that this node has seen. Nobody is told of here before the broker has let it in."""

    def __init__(
        self, store: DeviceStore, changes: Changes, sessions: Sessions, clock: Clock, settings: DevicesSettings
    ) -> None:
        self._store = store
        self._changes = changes
        self._sessions = sessions
        self._clock = clock
        self._settings = settings
        self._seen = Remembered(settings.max_devices, settings.max_devices_behind)
        #: Who changed since it was written.
        self._dirty: dict[Key, None] = {}
        self._next_write = 0.0
        #: What was taken of gateways; while they are connected here.
        self._sequences = Sequences(store, changes, sessions)
        #: Addresses that each gateway is connected from; two while one takes over from the other.
        self._present: dict[str, set[str]] = {}
        #: Those of them that speak MQTT themselves.
        self._clients: set[str] = set()
        #: Frames that had been taken before.
        self.duplicates = 0
        #: Gateways and devices that others made room for, or that there was no room for.
        self.forgotten = 0
        #: Told target, values and time.
        self.on_values: Callable[[str, Mapping[str, Any] | bytes, int], None] = _nothing

    def join(self, asking: Asking) -> None:
        """There are other nodes."""
        self._sequences.join(asking)

    def restore(self, records: list[StoredDevice]) -> None:
        """What the store has. Whoever is marked as online was so when the node ended."""
        for record in sorted(records, key=lambda one: one.last_seen):
            key = (record.gateway, record.device)
            if self._put(key, Seen(replace(record, online=False))) and record.online:
                self._dirty[key] = None

    # Gateways.

    @property
    def connected(self) -> int:
        """Gateways that are connected here."""
        return len(self._present) - len(self._clients)

    def known(self, gateway: str, then: Callable[[], None]) -> None:
        """Read what is kept of a gateway, then go on. Before ``login``."""
        drive(self._read(gateway), lambda _: then(), partial(self._not_read, gateway, then))

    async def _read(self, gateway: str) -> None:
        await self._sequences.read(gateway)
        async for record in self._store.devices(gateway):
            key = (record.gateway, record.device)
            if self._seen.get(key) is None and self._seen.has_room(key):
                self._seen.put(key, Seen(replace(record, online=False)))

    def _not_read(self, gateway: str, then: Callable[[], None], error: BaseException) -> None:
        """Not ready is not absent: later again."""
        log.error("what is kept of a gateway cannot be read; trying again: %s", error, extra={"gateway": gateway})
        self._clock.call_later(RETRY_SECONDS, partial(self.known, gateway, then))

    def login(self, gateway: str, *, codec: str, version: str, peer: str, epoch: int = 0) -> int:
        """A gateway was let in. The highest sequence that is safe, or ``NO_SEQUENCE``. ``epoch``: of its numbering;
        with another one than before, or as another user's, it begins anew.
        """
        self._clients.discard(gateway)
        if self._arrived(gateway, codec, version, peer) is not None:
            self._write((gateway, ""))
        return self._sequences.begin(gateway, epoch)

    def left(self, gateway: str, peer: str = "") -> None:
        """The connection from this address is gone; one that had not logged in yet does not matter."""
        present = self._present.get(gateway)
        if present is None:
            return
        present.discard(peer)
        if present and peer:
            return
        del self._present[gateway]
        self._seen.left(gateway)
        key = (gateway, "")
        seen = self._seen.get(key)
        if seen is None:
            self._sequences.drop(gateway)
        elif seen.record.online:
            seen.last_seen = self._clock.wall()
            seen.record = replace(seen.record, online=False)
            if gateway in self._clients:
                self._dirty[key] = None
            else:
                for own in [own for own in self._dirty if own[0] == gateway]:
                    self._write(own)
                self._write(key)
        self._clients.discard(gateway)

    def _arrived(self, name: str, codec: str, version: str, peer: str) -> Seen | None:
        """It is here from this address; None if there is no room to remember that."""
        now = self._clock.wall()
        key = (name, "")
        self._present.setdefault(name, set()).add(peer)
        self._seen.connected(name)
        before = self._seen.get(key)
        record = StoredDevice(name, "", now, now) if before is None else before.current()
        logins = record.logins + 1
        record = replace(record, online=True, codec=codec, version=version, address=peer, last_seen=now, logins=logins)
        seen = Seen(record)
        return seen if self._put(key, seen) else None

    # MQTT devices.

    def client_came(self, client_id: str, version: str, peer: str) -> None:
        """An MQTT client that is let in has subscribed to its own commands: it is a device."""
        if client_id in self._present:
            return
        is_new = self._seen.get((client_id, "")) is None
        self._clients.add(client_id)
        if self._arrived(client_id, MQTT, version, peer) is not None:
            self._dirty[client_id, ""] = None
            if is_new:
                # So that it is in the list from now on; how it is, is at hand.
                self._write((client_id, ""))

    def client_left(self, client_id: str, peer: str) -> None:
        """Its connection is gone."""
        if client_id in self._clients:
            self.left(client_id, peer)

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
            adopted = gateway not in self._present and self._sessions.get(gateway) is not None
            if record.online and adopted:
                self._changes.device(replace(record, online=False))
                self._seen.forget((gateway, ""))

    @staticmethod
    def _not_marked(gateway: str, error: BaseException) -> None:
        log.warning("whether a gateway is online is not known: %s", error, extra={"gateway": gateway})

    def moved(self, gateway: str) -> None:
        """Its session is going to another node, which knows better from now on."""
        self._sequences.drop(gateway)
        self._seen.forget((gateway, ""))

    # Devices.

    def seen(self, gateway: str, device: str, *, readings: int = 1) -> None:
        """Something came of a device."""
        key = (gateway, device)
        seen = self._seen.get(key)
        now = self._clock.wall()
        if seen is None:
            seen = Seen(StoredDevice(gateway, device, now, now))
            if not self._put(key, seen):
                return
        seen.last_seen = now
        seen.readings += readings
        self._dirty[key] = None

    def values(self, gateway: str, device: str, values: Mapping[str, Any] | bytes, at: int) -> None:
        """How a device is, maybe in JSON; ``at`` in milliseconds since 1970."""
        if self._settings.shadows:
            self.on_values(f"{gateway}/{device}", values, at)

    def is_fresh(self, gateway: str, sequence: int, handed: int = NO_SEQUENCE) -> bool:
        """Whether a frame is new, also on its connection, on which ``handed`` is the greatest number that came."""
        fresh = sequence > max(handed, self._sequences.highest(gateway))
        self.duplicates += not fresh
        return fresh

    def taken(self, gateway: str, sequence: int) -> None:
        """Everything up to this frame has been published, and becomes safe together with that: call it in the turn of
        the last of it.
        """
        if sequence > self._sequences.highest(gateway):
            self._sequences.put(gateway, sequence)

    def not_taken(self, gateway: str, sequence: int) -> None:
        """What was called taken behind this frame was refused after all, and is to come again."""
        if sequence < self._sequences.highest(gateway):
            self._sequences.put(gateway, sequence)

    def _put(self, key: Key, seen: Seen) -> bool:
        """False: there is no room for it."""
        forgotten = self._seen.put(key, seen)
        if forgotten is None:
            return True
        self.forgotten += 1
        if forgotten == key:
            return False
        self._dirty.pop(forgotten, None)
        if not forgotten[1]:
            self._sequences.forget(forgotten[0])
        self._changes.forget_device(*forgotten)
        return True

    # Time.

    def sweep(self) -> None:
        """Write what was seen, now and then, and not all of it in one turn."""
        now = self._clock.monotonic()
        if now < self._next_write or not self._dirty:
            return
        for key in list(islice(self._dirty, WRITTEN_AT_ONCE)):
            self._write(key)
        if len(self._dirty) < WRITTEN_AT_ONCE:
            self._next_write = now + self._settings.seen_interval

    def write_all(self) -> None:
        """The node stops."""
        while self._dirty:
            for key in list(self._dirty):
                self._write(key)

    def _write(self, key: Key) -> None:
        self._dirty.pop(key, None)
        seen = self._seen.get(key)
        if seen is not None:
            # At the end: those that were written longest ago were seen longest ago.
            self._seen.put(key, seen)
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
        async for record in self._shown(gateway):
            if after is not None and _order((record.gateway, record.device)) <= _order(after):
                continue
            found.append(record)
            if len(found) == limit:
                break
        return found

    async def find(self, gateway: str, device: str) -> StoredDevice | None:
        """One gateway or device."""
        async for record in self._shown(gateway):
            if record.device == device:
                return record
        return None

    async def sequence(self, gateway: str) -> StoredSequence | None:
        """How far its frames are safe."""
        return await self._sequences.find(gateway)

    async def forget_sequence(self, gateway: str) -> bool:
        """Take none of its frames for a repetition any more; False: none was. Raises ``Unavailable``."""
        return await self._sequences.forget_everywhere(gateway)

    async def _shown(self, gateway: str | None) -> AsyncIterator[StoredDevice]:
        """Each gateway comes before its devices. These are online while it is, as long as they are heard of."""
        heard_since = self._clock.wall() - self._settings.silent_after
        online = ""
        async for record in self._store.devices(gateway):
            seen = self._seen.get((record.gateway, record.device))
            if seen is not None and seen.last_seen >= record.last_seen:
                record = seen.current()
            if not record.device:
                online = record.gateway if record.online else ""
            elif record.gateway == online:
                record = replace(record, online=record.last_seen >= heard_since)
            yield record


def _order(key: Key) -> tuple[int, bytes, bytes]:
    """As the keys of the store are ordered."""
    name = key[0].encode()
    return len(name), name, key[1].encode()


def _read(_: None) -> None:
    """Nothing waits for it."""


def _nothing(_target: str, _values: Mapping[str, Any] | bytes, _at: int) -> None:
    """Nobody keeps it."""
