"""What becomes of commands, by those that they are for: gateways over their links, and MQTT devices.

A link asks before it sends one (``begin``). What confirms or refuses the message, or says so on ``reply/<id>``, answers
for an MQTT device; of a device behind a gateway only its link does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.devices.book import Book, Tracked
from iot_mqtt.devices.link.services import Verdict
from iot_mqtt.devices.senders import GONE, Senders
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.ports.json_reader import read_json

if TYPE_CHECKING:
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.publishing.path import Publishing
    from iot_mqtt.broker.session import Session
    from iot_mqtt.devices.changes import Changes
    from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

REPLY = b"reply/"


class States:
    """Of the commands whose target is at home on this node."""

    def __init__(self, book: Book, changes: Changes, publishing: Publishing, senders: Senders, clock: Clock) -> None:
        self._book = book
        self._changes = changes
        self._publishing = publishing
        self._senders = senders
        self._clock = clock
        #: Replies that could not be understood.
        self.bad_replies = 0

    def of(self, gateway: str) -> GatewayCommands:
        """Those that a gateway's link asks about."""
        return GatewayCommands(gateway, self._book, self._changes, self._senders, self._clock)

    def replied(self, publication: Publication) -> Outcome | None:
        """What its device says of a command; None: that is a message like others."""
        command_id = publication.topic[len(REPLY) :].decode()
        tracked = self._book.get(publication.publisher, command_id)
        if tracked is None or publication.run.retain:
            return None
        outcome = Outcome()
        outcome.receivers = publication.count
        for message in publication.messages:
            self._publishing.hand_on(publication_of(message, self._clock.wall()))
            reply = _read_reply(message.payload)
            if reply is None:
                self.bad_replies += 1
                log.warning("a reply is not understood", extra={"client": publication.publisher, "command": command_id})
                continue
            ok, detail, values = reply
            settle(self._book, tracked, ok, detail, values)
        return outcome

    def confirmed(self, session: Session, command: str) -> None:
        tracked = self._mqtt(session, command)
        if tracked is not None and not tracked.record.wants_reply:
            settle(self._book, tracked, ok=True)

    def refused(self, session: Session, command: str) -> None:
        tracked = self._mqtt(session, command)
        if tracked is not None:
            self._book.fail(tracked, "the device refused it")

    def dropped(self, session: Session, command: str, reason: Drop) -> None:
        tracked = self._book.get(session.client_id, command)
        if tracked is None or tracked.record.state.final:
            return
        if reason is Drop.EXPIRED and tracked.record.attempts <= 1:
            self._book.change(tracked, State.EXPIRED, "its deadline was over before it was sent")
        elif tracked.record.attempts > 1:
            self._book.change(tracked, State.UNCERTAIN, f"it could not be sent again: {reason.value}")
        elif reason is not Drop.COMMAND_OVER:
            self._book.fail(tracked, f"it could not be sent: {reason.value}")

    def _mqtt(self, session: Session, command: str) -> Tracked | None:
        """A command of an MQTT device, which answers for itself."""
        return None if is_gateway(session) else self._book.get(session.client_id, command)


class GatewayCommands:
    """Of one gateway, as its link asks for them (``link.services.CommandStates``)."""

    def __init__(self, gateway: str, book: Book, changes: Changes, senders: Senders, clock: Clock) -> None:
        self._gateway = gateway
        self._book = book
        self._changes = changes
        self._senders = senders
        self._clock = clock

    def _get(self, command_id: str) -> Tracked | None:
        return self._book.get(self._gateway, command_id)

    def _to(self, target: str, command_id: str) -> Tracked | None:
        """A message carries the id; it may be that of a command to another target."""
        tracked = self._get(command_id)
        return None if tracked is None or tracked.record.target != target else tracked

    def begin(self, command_id: str, device: str, done: Callable[[Verdict], None], over: Callable[[], None]) -> None:
        """Commit ``sent``, then ``done(Verdict(send=True))``; or at once why it is not to be sent.

        ``Verdict(send=False)``: confirm the message that brought it, and forget it. Otherwise ``over`` is called when
        it has its end or has not been answered for long, unless the link is lost before.
        """
        tracked = self._to(f"{self._gateway}/{device}", command_id)
        if tracked is None:
            done(Verdict(send=False, why="unknown"))
            return
        record = tracked.record
        if record.state is State.QUEUED and is_late(record, self._clock.wall()):
            self._book.give_up(tracked, "its deadline was over before it was sent")
        elif record.state is State.SENT and not record.retry:
            self._book.give_up(tracked, "the connection was lost before it was answered")
        elif not record.state.final and self._senders.is_gone(record):
            self._book.withdraw(tracked, GONE)
        record = tracked.record
        if record.state.final:
            done(Verdict(send=False, why=record.state.value))
            return
        ticket = self._book.sent(tracked)
        tracked.left = True
        self._book.call_when_over(tracked, over)
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
        tracked = self._get(command_id)
        if tracked is not None:
            settle(self._book, tracked, ok, detail, values)

    def failed(self, command_id: str, reason: str) -> None:
        """The gateway cannot be told such a thing: nothing was written."""
        tracked = self._get(command_id)
        if tracked is not None:
            self._book.fail(tracked, reason)

    def refused(self, command_id: str, target: str, reason: str) -> None:
        """The gateway has no such target; nothing of it was begun."""
        tracked = self._to(target, command_id)
        if tracked is not None:
            self._book.fail(tracked, reason)

    def link_lost(self, command_ids: Iterable[str]) -> None:
        """The connection that they were sent on is gone, and they were not answered."""
        for command_id in command_ids:
            tracked = self._get(command_id)
            if tracked is not None:
                tracked.call_when_over(None)
                self._book.lost(tracked)

    def allows_retry(self, command_id: str) -> bool:
        """Whether it may be sent twice: then confirm its message only when it is answered."""
        tracked = self._get(command_id)
        return tracked is not None and tracked.record.retry

    def deadline(self, command_id: str) -> int | None:
        """Milliseconds since 1970, if it has one."""
        tracked = self._get(command_id)
        deadline = None if tracked is None else tracked.record.deadline
        return None if deadline is None else round(deadline * 1000)


def settle(book: Book, tracked: Tracked, ok: bool, detail: str = "", values: Mapping[str, Any] | None = None) -> None:
    """Its device said what became of it. What is settled stays as it is."""
    if tracked.record.state in (State.QUEUED, State.SENT, State.UNCERTAIN):
        book.answer(tracked, State.ACKED if ok else State.FAILED, detail, values)


def is_late(record: StoredCommand, now: float) -> bool:
    """Its deadline is over."""
    return record.deadline is not None and record.deadline <= now


def is_gateway(session: Session) -> bool:
    """PUBACK from it says nothing of the device behind it."""
    return session.connection is not None and session.connection.patient


def _read_reply(payload: bytes) -> tuple[bool, str, Mapping[str, Any] | None] | None:
    """What a device says: nothing (done), or {"ok": …, "detail": …, "values": {…}}, of which each may be missing. Only
    beside ``ok`` may there be other names: one of them could have been meant for it.
    """
    if not payload:
        return True, "", None
    try:
        reply = read_json(payload, once=True)
    except ValueError:
        return None
    if not isinstance(reply, dict) or ("ok" not in reply and not reply.keys() <= {"detail", "values"}):
        return None
    ok, detail, values = reply.get("ok", True), reply.get("detail", ""), reply.get("values")
    if not isinstance(ok, bool) or not isinstance(detail, str) or not isinstance(values, dict | None):
        return None
    return ok, detail, values
