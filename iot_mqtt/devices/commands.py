"""Commands: what the broker asks about them (``publishing.accompanying``), and what gateways, the API and others call.

A command is a message of the ordinary durable session of its target. What is added is here: it leaves only after
``sent`` is committed, it leaves only once unless its sender allowed more, and whatever ends it is told.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.sending.commands import DOWN, Leave
from iot_mqtt.codec import properties as codec_properties
from iot_mqtt.devices.accepting import Accepting
from iot_mqtt.devices.asked import NewCommand, command_id_of
from iot_mqtt.devices.book import Book, Tracked, told_last
from iot_mqtt.devices.link.services import Verdict
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.devices import DeviceStore, State, StoredCommand, owner_of, replace
from iot_mqtt.session import Delivery, Piece

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.session import Session
    from iot_mqtt.devices.changes import Changes
    from iot_mqtt.devices.elsewhere import Elsewhere
    from iot_mqtt.devices.telling import Telling

log = logging.getLogger(__name__)

REPLY = b"reply/"
#: Bytes of a target: with it, everything that is published about a command is a topic.
MAX_TARGET = 60_000


class Commands:
    """Of one node. Everything is called in the reactor's thread and returns at once, coroutines excepted."""

    def __init__(
        self,
        broker: Broker,
        store: DeviceStore,
        changes: Changes,
        book: Book,
        accepting: Accepting,
        elsewhere: Elsewhere,
        telling: Telling,
    ) -> None:
        self._broker = broker
        self._store = store
        self._changes = changes
        self._book = book
        self._accepting = accepting
        self._elsewhere = elsewhere
        self._telling = telling
        #: Commands that are being read from the store, and the sessions that wait for each.
        self._fetching: dict[str, list[Session]] = {}
        #: Of those that were, and are nowhere: nobody knows them any more.
        self._unknown: set[str] = set()
        #: Whether there are commands at all; false: what is published to ``down/…`` is a message like others.
        self.enabled = True
        #: Replies that could not be understood.
        self.bad_replies = 0

    # For gateways.

    def begin(self, command_id: str, done: Callable[[Verdict], None]) -> None:
        """Commit ``sent``, then ``done(Verdict(send=True))``; or at once why it is not to be sent.

        ``Verdict(send=False)``: confirm the message that brought it, and forget it.
        """
        tracked = self._book.get(command_id)
        if tracked is None:
            done(Verdict(send=False, why="unknown"))
            return
        record = tracked.record
        if record.state is State.QUEUED and _is_late(record, self._broker.clock.wall()):
            self._book.give_up(tracked, "its deadline was over before it was sent")
        elif record.state is State.SENT and not record.retry:
            self._book.give_up(tracked, "the connection was lost before it was answered")
        record = tracked.record
        if record.state.final:
            done(Verdict(send=False, why=record.state.value))
            return
        ticket = self._book.sent(tracked)
        tracked.left = True
        self._changes.after(ticket, partial(self._begun, tracked, done))

    @staticmethod
    def _begun(tracked: Tracked, done: Callable[[Verdict], None]) -> None:
        """It may have been given up while the commit was under way."""
        state = tracked.record.state
        done(Verdict(send=False, why=state.value) if state.final else Verdict(send=True))

    def answered(self, command_id: str, ok: bool, detail: str = "", values: Mapping[str, Any] | None = None) -> None:
        """The device said what became of it. An answer that comes late settles what was uncertain; what is settled
        stays as it is.
        """
        tracked = self._book.get(command_id)
        if tracked is not None and tracked.record.state in (State.QUEUED, State.SENT, State.UNCERTAIN):
            self._book.change(tracked, State.ACKED if ok else State.FAILED, detail, values)

    def failed(self, command_id: str, reason: str) -> None:
        """The gateway cannot be told such a thing: nothing was written."""
        tracked = self._book.get(command_id)
        if tracked is not None:
            self._book.fail(tracked, reason)

    def link_lost(self, command_ids: Iterable[str]) -> None:
        """The connection that they were sent on is gone, and they were not answered."""
        for command_id in command_ids:
            tracked = self._book.get(command_id)
            if tracked is not None:
                self._book.lost(tracked)

    def allows_retry(self, command_id: str) -> bool:
        """Whether it may be sent twice: then confirm its message only when it is answered."""
        tracked = self._book.get(command_id)
        return tracked is not None and tracked.record.retry

    def deadline(self, command_id: str) -> int | None:
        """Milliseconds since 1970, if it has one."""
        tracked = self._book.get(command_id)
        deadline = None if tracked is None else tracked.record.deadline
        return None if deadline is None else round(deadline * 1000)

    # For the API, and for what comes from elsewhere.

    async def submit(self, new: NewCommand, sender: str = "") -> StoredCommand:
        """Accept a command and return when it is committed; or the one that it repeats. Raises ``Refused``."""
        _check_target(new.target, self._broker.settings.max_topic_levels)
        if not self.enabled:
            raise Refused("commands are turned off here: devices.commands is false")
        before = await self._accepted_elsewhere(new)
        if before is not None:
            return before
        if self._broker.budget.full:
            raise Refused("the disk is full", ReasonCode.QUOTA_EXCEEDED)
        record, _ = self._accepting.accept(new, sender, None)
        self._broker.turn.plan()
        await self._broker.store.settled()
        tracked = self._book.get(record.id)
        return record if tracked is None else tracked.record

    async def _accepted_elsewhere(self, new: NewCommand) -> StoredCommand | None:
        """The same command, whose target is at home on another node, or was. Nothing is awaited on a sole node."""
        place = self._elsewhere.place_of(new.target, new.id)
        record = None if place is None else await self._store.command(*place)
        if record is not None and record.target != new.target:
            raise Refused(f"the command id is in use for {record.target}", ReasonCode.PAYLOAD_FORMAT_INVALID)
        return record

    async def find(self, command_id: str) -> StoredCommand | None:
        """One command wherever it is at home, with its body."""
        tracked = self._book.get(command_id)
        record = None if tracked is None else tracked.record
        if record is None:
            record = await self._search(command_id)
        if record is None:
            return None
        return replace(record, body=await self._store.body(record.owner, record.id))

    async def _search(self, command_id: str) -> StoredCommand | None:
        if not self._elsewhere.clustered:
            return None
        async for record in self._store.commands():
            if record.id == command_id:
                return record
        return None

    async def page(
        self, target: str | None, state: str | None, after: tuple[str, str] | None, limit: int
    ) -> list[StoredCommand]:
        """The next ones by target's client and id."""
        found: list[StoredCommand] = []
        owner = None if target is None else owner_of(target)
        async for record in self._store.commands(owner):
            place = (record.owner, record.id)
            if after is not None and _order(place) <= _order(after):
                continue
            if target is not None and record.target != target and not record.target.startswith(target + "/"):
                continue
            if state is not None and record.state.value != state:
                continue
            found.append(record)
            if len(found) == limit:
                break
        return found

    async def cancel(self, command_id: str) -> StoredCommand | None:
        """Take back what was not sent. Raises ``Refused`` for what was, None for what nobody knows."""
        if self._book.get(command_id) is None:
            record = await self._search(command_id)
            if record is None:
                return None
            await self._elsewhere.cancel(record)
            return await self._store.command(record.owner, record.id)
        record = self.cancel_here(command_id)
        await self._broker.store.settled()
        return record

    def cancel_here(self, command_id: str) -> StoredCommand:
        """The same for one that is at home here."""
        tracked = self._book.get(command_id)
        if tracked is None or tracked.record.state.final or tracked.record.attempts:
            state = "unknown here" if tracked is None else tracked.record.state.value
            raise Refused(f"the command is {state}: only one that was never sent can be taken back")
        self._book.fail(tracked, "cancelled")
        self._broker.turn.plan()
        return tracked.record

    # Accompanying: what is published.

    def published(self, publication: Publication, connection: Connection | None) -> Outcome | None:
        """Commands and replies."""
        if publication.topic.startswith(DOWN):
            return self._accepting.published(publication, connection)
        return None if connection is None else self._replied(publication)

    def _replied(self, publication: Publication) -> Outcome | None:
        """Only the client that was sent a command can say what became of it."""
        command_id = publication.topic[len(REPLY) :].decode()
        tracked = self._book.get(command_id)
        if tracked is None or tracked.record.owner != publication.publisher or publication.run.retain:
            return None
        outcome = Outcome()
        outcome.receivers = publication.count
        for message in publication.messages:
            self._broker.publishing.hand_on(publication_of(message, self._broker.clock.wall()))
            reply = _read_reply(message.payload)
            if reply is None:
                self.bad_replies += 1
                log.warning("a reply is not understood", extra={"client": publication.publisher, "command": command_id})
                continue
            ok, detail, values = reply
            self.answered(command_id, ok, detail, values)
        outcome.ticket = self._broker.store.latest
        return outcome

    # Accompanying: what leaves.

    def leaving(self, session: Session, item: Delivery | Piece) -> Leave:
        entry = item.flight if isinstance(item, Piece) else item
        topic, properties = _what(item)
        if not _is_for(topic, session.client_id):
            return Leave.YES
        command_id = entry.command or _id_in(properties)
        if command_id is None:
            return Leave.YES
        entry.command = command_id
        tracked = self._book.get(command_id)
        if tracked is None:
            return self._fetch(session, command_id)
        if _is_gateway(session):
            return _over(tracked.record) if tracked.record.state.final else Leave.YES
        return self._leaving(session, item, tracked)

    def _leaving(self, session: Session, item: Delivery | Piece, tracked: Tracked) -> Leave:
        record, book, store = tracked.record, self._book, self._broker.store
        if tracked.unsent and not record.state.final and _is_late(record, self._broker.clock.wall()):
            book.give_up(tracked, "its deadline was over before it was sent")
        elif tracked.left and not record.retry and not record.state.final:
            book.give_up(tracked, "the connection was lost before it was confirmed")
        if tracked.record.state.final:
            return _over(tracked.record)
        if tracked.ticket == 0 or tracked.left:
            # Sent for the first time, or once more: that is committed before it leaves.
            tracked.left = False
            item.ticket = book.sent(tracked)
            self._look_ahead(session, item)
            return Leave.WAIT
        if tracked.ticket > store.committed:
            item.ticket = tracked.ticket
            return Leave.WAIT
        tracked.left = True
        return Leave.YES

    def _look_ahead(self, session: Session, item: Delivery | Piece) -> None:
        """What is lined up behind it goes with the same commit, not with one each."""
        for other in session.sending or ():
            if other is item or (isinstance(other, Piece) and other.publication is None):
                continue
            entry = other.flight if isinstance(other, Piece) else other
            topic, properties = _what(other)
            if not topic.startswith(DOWN) or not _is_for(topic, session.client_id):
                continue
            tracked = self._book.get(entry.command or _id_in(properties) or "")
            if tracked is None or tracked.record.state.final or (tracked.ticket and not tracked.left):
                continue
            if tracked.unsent and _is_late(tracked.record, self._broker.clock.wall()):
                continue
            if not tracked.left or tracked.record.retry:
                tracked.left = False
                other.ticket = self._book.sent(tracked)

    def _fetch(self, session: Session, command_id: str) -> Leave:
        """Nobody here knows it: another node may have accepted it just now, or it was over long ago."""
        if command_id in self._unknown:
            self._unknown.discard(command_id)
            return Leave.NEVER_AGAIN
        if not self._elsewhere.clustered:
            return Leave.NEVER_AGAIN
        waiting = self._fetching.get(command_id)
        if waiting is not None:
            if session not in waiting:
                waiting.append(session)
            return Leave.WAIT
        self._fetching[command_id] = [session]
        drive(
            self._store.command(session.client_id, command_id),
            partial(self._fetched, session, command_id),
            partial(self._not_fetched, command_id),
        )
        return Leave.WAIT

    def _fetched(self, session: Session, command_id: str, record: StoredCommand | None) -> None:
        if record is None:
            self._unknown.add(command_id)
        else:
            self.found(record, session)
        for waiting in self._fetching.pop(command_id, ()):
            self._broker.turn.call_soon(partial(self._broker.outflow.pump, waiting))

    def _not_fetched(self, command_id: str, error: BaseException) -> None:
        """Not ready is not absent: later again."""
        log.error("a command cannot be read; trying again: %s", error)
        for session in self._fetching.pop(command_id, ()):
            self._broker.clock.call_later(RETRY_SECONDS, partial(self._broker.outflow.pump, session))

    def found(self, record: StoredCommand, home: Session) -> None:
        """A command of a client that is at home here, accepted elsewhere or before; unless it is known. ``home``: its
        session when reading began. If it has another one now, the client was elsewhere meanwhile, and the record may be
        older than what became of it there.
        """
        if self._book.get(record.id) is not None or self._broker.sessions.get(record.owner) is not home:
            return
        same = self._book.same(record.target, record.idempotency_key)
        tracked = self._book.add(record)
        if same is not None and record.state is State.QUEUED:
            self._book.fail(tracked, f"it repeats {same.record.id}, which is {same.record.state.value}")

    # Accompanying: what becomes of it.

    def confirmed(self, session: Session, command: str) -> None:
        tracked = self._mqtt(session, command)
        if tracked is not None and not tracked.record.wants_reply:
            self.answered(command, ok=True)

    def refused(self, session: Session, command: str) -> None:
        tracked = self._mqtt(session, command)
        if tracked is not None:
            self._book.fail(tracked, "the device refused it")

    def dropped(self, session: Session, command: str, reason: Drop) -> None:
        tracked = self._book.get(command)
        if tracked is None or tracked.record.owner != session.client_id or tracked.record.state.final:
            return
        if reason is Drop.EXPIRED and tracked.record.attempts <= 1:
            self._book.change(tracked, State.EXPIRED, "its deadline was over before it was sent")
        elif tracked.record.attempts > 1:
            self._book.change(tracked, State.UNCERTAIN, f"it could not be sent again: {reason.value}")
        elif reason is not Drop.COMMAND_OVER:
            self._book.fail(tracked, f"it could not be sent: {reason.value}")

    def _mqtt(self, session: Session, command: str) -> Tracked | None:
        """A command of an MQTT device, which answers for itself."""
        tracked = self._book.get(command)
        if tracked is None or _is_gateway(session) or tracked.record.owner != session.client_id:
            return None
        return tracked

    # Accompanying: sessions.

    def session_came(self, client_id: str, *, inherited: bool) -> None:
        drive(self._load(client_id, inherited), _loaded, partial(self._not_loaded, client_id))

    async def _load(self, client_id: str, inherited: bool) -> None:
        home = self._broker.sessions.get(client_id)
        if home is None:
            return
        records = [record async for record in self._store.commands(client_id)]
        for record in records:
            self.found(record, home)
        if inherited and self._elsewhere.is_home(client_id):
            # The dead node may have committed these and not told them. What waits was told by whoever accepted it,
            # perhaps long after that death.
            for record in told_last(record for record in records if record.state is not State.QUEUED):
                self._telling.tell(record)

    def _not_loaded(self, client_id: str, error: BaseException) -> None:
        log.error("the commands of a client cannot be read; they are looked for again: %s", error)

    def session_left(self, client_id: str) -> None:
        self._book.leave(client_id)

    def session_ended(self, client_id: str) -> None:
        self._book.end_session(client_id)


def _is_gateway(session: Session) -> bool:
    """PUBACK from it says nothing of the device behind it."""
    return session.connection is not None and session.connection.patient


def _loaded(_: None) -> None:
    """Nothing waits for it."""


def _check_target(target: str, most_levels: int) -> None:
    """It is part of topics: of the command's, and of those that its states are told on."""
    if not owner_of(target) or "+" in target or "#" in target or "\0" in target:
        raise Refused(f"{target[:100]!r} is no target: name a client, or GATEWAY/DEVICE")
    if len(target.encode("utf-8", "replace")) > MAX_TARGET or target.count("/") + 2 >= most_levels:
        raise Refused(f"the target is too long: {MAX_TARGET} bytes, and {most_levels - 2} levels")


def _order(place: tuple[str, str]) -> tuple[int, bytes, str]:
    """As the keys of the store are ordered: by the length of the client id first."""
    name = place[0].encode()
    return len(name), name, place[1]


def _is_late(record: StoredCommand, now: float) -> bool:
    return record.deadline is not None and record.deadline <= now


def _over(record: StoredCommand) -> Leave:
    return Leave.NEVER_AGAIN if record.attempts else Leave.NEVER


def _is_for(topic: bytes, client_id: str) -> bool:
    return owner_of(topic[len(DOWN) :].decode()) == client_id


def _what(item: Delivery | Piece) -> tuple[bytes, bytes]:
    """Topic and raw properties; none for what is no command: a retained message."""
    if isinstance(item, Piece):
        run = item.publication.run
        return item.publication.topic, b"" if run.retain else run.forwardable
    message = item.message
    return message.topic, b"" if message.retain or item.retain else message.properties


def _id_in(raw: bytes) -> str | None:
    return command_id_of(codec_properties.read_publish(raw, from_client=False)) if raw else None


def _read_reply(payload: bytes) -> tuple[bool, str, Mapping[str, Any] | None] | None:
    """What a device says: nothing (done), or {"ok": …, "detail": …, "values": {…}}."""
    if not payload:
        return True, "", None
    try:
        reply = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(reply, dict):
        return None
    ok, detail, values = reply.get("ok", True), reply.get("detail", ""), reply.get("values")
    if not isinstance(ok, bool) or not isinstance(detail, str) or not isinstance(values, dict | None):
        return None
    return ok, detail, values
