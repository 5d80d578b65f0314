"""What devices reported last, what is desired of them, and the difference.

The two halves are records of their own, because they have different writers: what is reported belongs to the node
that the device is connected to, and is written lazily; what is desired is swapped in the grid by whoever sets it, with
the version that he saw. The difference is published on ``shadow/<target>/delta`` when it changes.

What is reported belongs to the user whose device reported it first, as a session does, but for longer: whoever has the
name of the device later, and is another user, reports nothing of it, until an operator has it forgotten.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from iot_mqtt.broker.driving import done, drive
from iot_mqtt.broker.publishing.accompanying import SPECIAL
from iot_mqtt.codec import Properties
from iot_mqtt.codec.properties import passed_on
from iot_mqtt.devices.changes import Changes
from iot_mqtt.devices.reports import Differences, Reported, Reports, Waiting
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.devices.shadow_count import ShadowCount
from iot_mqtt.devices.weights import json_of
from iot_mqtt.errors import MqttError, ReasonCode, Refused, Unavailable
from iot_mqtt.ports.access import generation_of, user_of
from iot_mqtt.ports.devices import DeviceStore, Half, StoredShadow, UnreadableShadow, owner_of
from iot_mqtt.ports.directory import Conflict, TooMuch
from iot_mqtt.ports.json_reader import read_json
from iot_mqtt.values import Message

if TYPE_CHECKING:
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.publishing.path import Publishing
    from iot_mqtt.broker.publishing.steps import Sender
    from iot_mqtt.broker.sessions.sessions import Sessions
    from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

SHADOW = SPECIAL[2]
#: Shadows written in one turn.
WRITTEN_AT_ONCE = 500
#: Seconds between two words in the log that there is no room.
WORD_SECONDS = 60.0
#: Milliseconds that a device's clock may be ahead. A time behind that would keep the true ones out.
TOLERANCE = 5 * 60 * 1000

Delta = dict[str, Any]


class Shadows:
    """Of the devices that report here."""

    def __init__(
        self,
        store: DeviceStore,
        changes: Changes,
        publishing: Publishing,
        sessions: Sessions,
        clock: Clock,
        settings: DevicesSettings,
    ) -> None:
        self._store = store
        self._changes = changes
        self._publishing = publishing
        self._clock = clock
        self._settings = settings
        self._sessions = sessions
        self._reported = Reported()
        #: Reported since the last write.
        self._pending = Reports()
        self.count = ShadowCount(store, clock, settings)
        self._writing = False
        self._next_write = 0.0
        self._deltas = Differences()
        #: Values that were not kept because there was no room for them, or that were none.
        self.refused = 0
        #: When it is logged again that there is no room.
        self._next_word = 0.0

    # Reporting.

    def report(self, target: str, values: Mapping[str, Any] | bytes, at: int, owner: str | None = None) -> None:
        """A device says how it is, maybe in JSON; ``at`` in milliseconds since 1970. An older value does not replace a
        newer one, and a time that is far ahead counts as now.
        """
        try:
            read = self._read(values) if isinstance(values, bytes) else values
        except ValueError:
            self.refused += 1
            return
        found = self._pending.get(target)
        if found is None and owner is None:
            session = self._sessions.get(owner_of(target))
            owner = None if session is None else session.owner
        elif found is not None and owner is not None and found.owner is not None and owner != found.owner:
            self._refuse(target, owner, len(read))
            return
        now = self._now()
        if not self._pending.put(target, read, at if at <= now + TOLERANCE else now, owner):
            self._no_room(target, "too much is reported at once; it is not kept", len(read))

    def _read(self, payload: bytes) -> dict[str, Any]:
        """``ValueError`` says what is wrong with it."""
        most = self._settings.max_shadow_bytes
        if len(payload) > most:
            raise ValueError(f"has {len(payload)} bytes, more than {most}")
        body = read_json(payload)
        if not isinstance(body, dict):
            raise ValueError("is no JSON object")  # noqa: TRY004 - whoever sent it has no types
        return body

    def sweep(self) -> None:
        """Write what was reported, now and then."""
        self.count.sweep()
        now = self._clock.monotonic()
        if self._writing or not self._pending or now < self._next_write:
            return
        self._next_write = now + self._settings.shadow_interval
        targets = self._pending.first(WRITTEN_AT_ONCE)
        self._writing = True
        drive(self._write(targets), self._written, self._not_written)

    def _written(self, _: None) -> None:
        self._writing = False

    def _not_written(self, error: BaseException) -> None:
        self._writing = False
        log.error("shadows cannot be written now; trying again: %s", error)

    async def _write(self, targets: list[str]) -> None:
        for target in targets:
            found = self._pending.get(target)
            try:
                await self._write_one(target)
            except Exception as error:
                if isinstance(error, Unavailable) and not isinstance(error, UnreadableShadow):
                    raise
                # Those of others are not held up by it, whatever it is. More may have been reported meanwhile.
                if self._pending.get(target) is found:
                    self._pending.pop(target)
                self.refused += 0 if found is None else len(found.values)
                log.error("what a device reports is not kept: %r", error, extra={"target": target})

    async def _write_one(self, target: str) -> None:
        before = self._reported.get(target)
        waiting = self._pending.get(target)
        owner = None if waiting is None else waiting.owner
        if before is None or _is_anothers(before, owner):
            before = await self._store.reported(target)
        found = self._pending.pop(target)
        if found is None:
            return
        if _is_anothers(before, owner):
            self._refuse(target, owner, len(found.values))
            return
        after = self._merged(before, found, found.owner)
        if after is not before:
            is_new = not before.version
            if is_new and (why := self.count.full(Half.REPORTED, target)) is not None:
                self._no_room(target, why, len(found.values))
                return
            self._changes.reported(target, after)
            if is_new:
                self.count.made(Half.REPORTED, target)
            self._reported.put(target, after)
            desired = await self._store.desired(target)
            if desired.values or target in self._deltas:
                self._compare(target, after, desired)

    def _refuse(self, target: str, owner: str | None, count: int) -> None:
        self.refused += count
        log.warning("another user's device was reported for", extra={"target": target, "user": user_of(owner or "")})
        self._tell_refused(target, "it is another user's device")

    def _no_room(self, target: str, why: str, count: int) -> None:
        """Logged now and then only: it may be so of many."""
        self.refused += count
        self._tell_refused(target, why)
        now = self._clock.monotonic()
        if now >= self._next_word:
            self._next_word = now + WORD_SECONDS
            log.warning("what a device reports is not kept: %s", why, extra={"target": target})

    def _merged(self, before: StoredShadow, found: Waiting, owner: str | None = None) -> StoredShadow:
        owner = before.owner if owner is None else owner
        values, times = dict(before.values), dict(before.times)
        latest = self._now() + TOLERANCE
        for tag, (value, at, _) in found.values.items():
            known = times.get(tag, 0)
            # One from before times were looked at is not believed either.
            if known <= at or known > latest:
                values[tag], times[tag] = value, at
        if values == before.values and times == before.times and owner == before.owner:
            return before
        if len(json_of(values)) > self._settings.max_shadow_bytes:
            self.refused += len(found.values)
            return before
        return StoredShadow(before.version + 1, values, times, owner)

    def _now(self) -> int:
        return round(self._clock.wall() * 1000)

    def forget(self, client_id: str) -> None:
        """Its devices report elsewhere from now on."""
        self._reported.forget_all_of(client_id)

    async def forget_reported(self, target: str) -> bool:
        """From now on nothing was reported of it, and another user's device may; False if so it was before. An empty
        desired half goes with it, and so does a damaged one. Committed when this returns.
        """
        damaged = [half for half in Half if await self._store.remove_damaged(half, target)]
        for half in damaged:
            self.count.forgot(half, target)
        desired = await self._store.desired(target)
        reported = self._reported.get(target) or await self._store.reported(target)
        waited = self._pending.pop(target) is not None
        if reported.version:
            # Until this is committed the store has what was before.
            nothing = StoredShadow()
            self._reported.put(target, nothing)
            self._changes.forget_reported(target)
            self.count.forgot(Half.REPORTED, target)
            await self._changes.settled()
            if self._reported.get(target) is nothing:
                self._reported.forget(target)
        empty = not desired.values and await self._store.remove_empty_desired(target)
        if empty:
            self.count.forgot(Half.DESIRED, target)
        return waited or empty or bool(damaged) or reported.version > 0

    # Desiring.

    async def desire(self, target: str, values: Mapping[str, Any], version: int | None) -> StoredShadow:
        """Set what is desired: tags that are null are taken away, others stay. ``version``: the one that it is based
        on, None: whatever there is. Committed when this returns. Raises ``Refused``.
        """
        if not owner_of(target) or any(character in target for character in "+#\0"):
            raise Refused(f"{target!r} is no target: name a client, or GATEWAY/DEVICE", ReasonCode.TOPIC_NAME_INVALID)
        for _ in range(3):
            before = await self._store.desired(target)
            if version is not None and version != before.version:
                raise Conflict(f"what is desired has version {before.version}, not {version}")
            if not before.version and (why := self.count.full(Half.DESIRED, target)) is not None:
                self.refused += len(values)
                raise TooMuch(why)
            merged = {tag: value for tag, value in {**before.values, **values}.items() if value is not None}
            if len(json_of(merged)) > self._settings.max_shadow_bytes:
                raise TooMuch(f"a shadow has at most {self._settings.max_shadow_bytes} bytes")
            now = self._now()
            times = {tag: now if tag in values else before.times.get(tag, now) for tag in merged}
            after = StoredShadow(before.version + 1, merged, times)
            if await self._store.swap_desired(target, after):
                if not before.version:
                    self.count.made(Half.DESIRED, target)
                reported = self._reported.get(target) or await self._store.reported(target)
                self._compare(target, reported, after)
                return after
        raise Conflict("somebody else sets what is desired all the time; try again")

    def _compare(self, target: str, reported: StoredShadow, desired: StoredShadow) -> None:
        """Publish the difference if it is another one than before."""
        delta = difference(reported, desired)
        if not self._deltas.is_news(target, delta):
            return
        body = {"version": desired.version, "delta": delta}
        payload = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        properties = passed_on(Properties(content_type="application/json"))
        self._publishing.send(Message(SHADOW + target.encode() + b"/delta", payload, 1, properties=properties))

    async def get(self, target: str) -> tuple[StoredShadow, StoredShadow]:
        """(reported, desired)"""
        reported = self._reported.get(target) or await self._store.reported(target)
        waiting = self._pending.get(target)
        if waiting is not None and not _is_anothers(reported, waiting.owner):
            reported = self._merged(reported, waiting)
        return reported, await self._store.desired(target)

    # By MQTT.

    def published(self, publication: Publication, connection: Sender | None) -> None:
        """``shadow/<target>/reported`` by the device itself, ``shadow/<target>/desired`` by whoever may."""
        target, _, what = publication.topic[len(SHADOW) :].decode().rpartition("/")
        session = None if connection is None else connection.session
        if not target or session is None or what not in ("reported", "desired"):
            return
        if what == "reported" and owner_of(target) != publication.publisher:
            return
        for message in publication.messages:
            try:
                body = self._read(message.payload)
            except ValueError as error:
                self.refused += 1
                who = {"client": publication.publisher, "target": target}
                log.warning("a shadow is not understood: it %s", error, extra=who)
                self._tell_refused(target, f"it {error}")
                continue
            if what == "reported":
                self.report(target, body, self._now(), session.owner)
                continue
            version = body.pop("version", None) if "desired" in body else None
            values = body.get("desired", body)
            if isinstance(values, dict) and isinstance(version, int | None):
                drive(self.desire(target, values, version), done, partial(self._not_desired, target))

    def _not_desired(self, target: str, error: BaseException) -> None:
        """Whoever set it is told where differences are told, too."""
        self._tell_refused(target, error.detail if isinstance(error, MqttError) else "the store does not answer")

    def _tell_refused(self, target: str, detail: str) -> None:
        payload = json.dumps({"error": detail}).encode()
        self._publishing.send(Message(SHADOW + target.encode() + b"/refused", payload, 1))


def _is_anothers(shadow: StoredShadow, owner: str | None) -> bool:
    """Whether a device of this owner may not report there. What is nobody's in particular is for everybody, and what
    was a deleted user's for who has his name.
    """
    known = shadow.owner
    if not known or owner is None or known == owner:
        return False
    return user_of(known) != user_of(owner) or generation_of(known) > generation_of(owner)


def difference(reported: StoredShadow, desired: StoredShadow) -> Delta:
    """What is desired and not reported so."""
    return {
        tag: value
        for tag, value in desired.values.items()
        if tag not in reported.values or reported.values[tag] != value
    }
