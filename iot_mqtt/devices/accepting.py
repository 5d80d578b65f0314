"""From what is asked to a command: checked, recorded, published; all of it in one batch.

Whoever is acknowledged can rely on three things that are committed together: the record, the message in the log, and
the state ``queued``, which is told next. What cannot be brought to anybody is recorded as failed, and told so: no
command ends without a word.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Final

from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.session import Session
from iot_mqtt.codec import Properties
from iot_mqtt.codec.properties import passed_on
from iot_mqtt.devices.asked import COMMAND_ID, IN_USE, MAX_KEY, NewCommand, bad_id, is_made, read, repeats
from iot_mqtt.devices.elsewhere import no_session
from iot_mqtt.devices.telling import may_answer_to
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.access import Action, form_of
from iot_mqtt.ports.devices import OPERATOR, State, StoredCommand, owner_of, replace
from iot_mqtt.values import Message

if TYPE_CHECKING:
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.publishing.path import Publishing
    from iot_mqtt.broker.publishing.steps import Sender
    from iot_mqtt.broker.sessions.sessions import Sessions
    from iot_mqtt.devices.book import Book
    from iot_mqtt.devices.elsewhere import Elsewhere
    from iot_mqtt.devices.senders import Senders
    from iot_mqtt.devices.telling import Telling
    from iot_mqtt.ports.clock import Clock
    from iot_mqtt.topics import Match

MAX_EXPIRY: Final = 0xFFFF_FFFF
#: Details of what came too late.
LATE: Final = "its deadline was over before it came"
FORGOTTEN: Final = "if it came before, it may have been done, which is not known any more"
#: How the states of a command are published: at QoS 1, not retained.
ANSWER_FORM: Final = form_of(1 << 1)


class Accepting:
    """The way in."""

    def __init__(
        self,
        book: Book,
        telling: Telling,
        elsewhere: Elsewhere,
        publishing: Publishing,
        sessions: Sessions,
        senders: Senders,
        clock: Clock,
    ) -> None:
        self._book = book
        self._telling = telling
        self._elsewhere = elsewhere
        self._publishing = publishing
        self._sessions = sessions
        self._senders = senders
        self._clock = clock
        #: What the grid has under the id of the command that is published next; None: nothing.
        self.looked_up: StoredCommand | None = None

    def published(self, publication: Publication, connection: Sender | None) -> Outcome | None:
        """A message to ``down/…``. One of QoS 0, a retained one, or one to nobody is like any other."""
        run = publication.run
        if not run.qos or run.retain or not owner_of(publication.topic[len(DOWN) :].decode()):
            return None
        outcome, user = Outcome(), publication.origin.user
        if connection is None and not user and not publication.publisher:
            user = OPERATOR
        for position, message in enumerate(publication.messages):
            new = read(message, run.properties)
            try:
                _, own = self.accept(new, publication.publisher, user, connection)
            except Refused as refusal:
                outcome.deny(position, refusal)
                continue
            outcome.receivers += own.receivers
            outcome.elsewhere |= own.elsewhere
        return outcome

    def accept(
        self, new: NewCommand, sender: str, user: str, connection: Sender | None
    ) -> tuple[StoredCommand, Outcome]:
        """Take one that ``user`` answers for; or say what became of the same one, which came before. Raises
        ``Refused``.
        """
        trouble = _wrong_with(new)
        known = self._book.get(owner_of(new.target), new.id) if new.id else None
        known = known or self._book.same(new.target, new.idempotency_key, user)
        before = self._elsewhere_accepted(new) if known is None else known.record
        if before is not None and not new.unclear:
            if repeats(new, user, before):
                return self._again(new, before, connection)
            trouble = IN_USE
        refusal = self._book.shares.refusal(user, owner_of(new.target)) if trouble is None else None
        why = trouble or refusal
        now = self._clock.wall()
        record = StoredCommand(
            id=new.id if new.id and trouble is None else token_hex(16),
            target=new.target,
            state=State.QUEUED,
            accepted_at=now,
            deadline=new.deadline,
            written=new.written,
            retry=new.retry,
            wants_reply=new.wants_reply,
            idempotency_key=new.idempotency_key if trouble is None else "",
            sender=sender,
            user=user,
            response_topic=self._response_topic(new, connection),
            correlation=new.correlation,
            times={State.QUEUED.value: now},
        )
        if why is not None:
            # The sender is told; nothing is kept: there is no room, or nothing right that it could be asked for by.
            self._telling.answer(_ended(record, State.FAILED, why), record.response_topic, record.correlation)
            reason = ReasonCode.QUOTA_EXCEEDED if trouble is None else ReasonCode.PAYLOAD_FORMAT_INVALID
            raise Refused(why, reason)
        return self._send(self._senders.signed(record, new.users, connection), new)

    def _elsewhere_accepted(self, new: NewCommand) -> StoredCommand | None:
        found = self.looked_up
        return found if found is not None and (found.owner, found.id) == (owner_of(new.target), new.id) else None

    def _send(self, record: StoredCommand, new: NewCommand) -> tuple[StoredCommand, Outcome]:
        topic = DOWN + new.target.encode()
        if record.deadline is not None and record.deadline <= record.accepted_at:
            why = self._late(new, record.deadline, record.accepted_at)
            return self._over(record, State.EXPIRED, why, new), _taken()
        unreachable, gone = self._unreachable(record.owner, self._publishing.routes.match(topic))
        message = self._message(record, new, topic)
        if unreachable is not None:
            # Others who listen get it; the device that it is for does not.
            outcome = _taken() if gone else self._publishing.hand_on(publication_of(message, self._clock.wall()))
            return self._over(record, State.FAILED, unreachable, new), outcome
        tracked = self._book.add(record) if self._elsewhere.is_home(record.owner) else None
        ticket = self._book.write(record, new.body)
        outcome = self._publishing.hand_on(publication_of(message, self._clock.wall()))
        if tracked is None:
            self._elsewhere.accepted(record, ticket)
        elif outcome.wholly_refused():
            self._book.fail(tracked, "there is no room for it in the queue of the device")
        return record, outcome

    def _unreachable(self, owner: str, match: Match[Session]) -> tuple[str | None, bool]:
        """Why the target cannot get it, if so; and whether nobody else may have it either."""
        session = self._sessions.get(owner)
        if session is not None:
            route = next((route for route in match.plain if route.receiver is session), None)
            if route is None:
                return f"{owner} has not subscribed to it: no plain filter of its session matches", False
            if route.qos == 0:
                return f"{owner} has subscribed with QoS 0, and could not confirm it", True
            return None, False
        return (None if self._elsewhere.wants(match) else no_session(owner)), False

    def _message(self, record: StoredCommand, new: NewCommand, topic: bytes) -> Message:
        """What the device gets: as it was sent, with the id."""
        properties = new.properties
        if not new.carried:
            properties += passed_on(Properties(user_properties=((COMMAND_ID, record.id),)))
        expires_at = record.deadline
        if expires_at is not None:
            # Whole seconds, up: the command's own deadline is exact, the message must not be gone before.
            expires_at = record.accepted_at + min(MAX_EXPIRY, int(expires_at - record.accepted_at) + 1)
        return Message(topic, new.body, new.qos, properties=properties, expires_at=expires_at, publisher=record.sender)

    # What is not sent.

    def _again(
        self, new: NewCommand, record: StoredCommand, connection: Sender | None
    ) -> tuple[StoredCommand, Outcome]:
        self._telling.answer(record, self._response_topic(new, connection), new.correlation)
        return record, _taken()

    def _late(self, new: NewCommand, deadline: float, now: float) -> str:
        """Why it is not sent. What was over long ago is forgotten."""
        since = deadline if new.written is None else new.written
        named = new.id or new.idempotency_key
        return f"{LATE}; {FORGOTTEN}" if named and self._book.is_forgotten(since, now) else LATE

    def _over(self, record: StoredCommand, state: State, why: str, new: NewCommand) -> StoredCommand:
        record = replace(_ended(record, state, why), untold=not self._elsewhere.is_home(record.owner))
        self._book.add(record)
        self._book.write(record, new.body)
        return record

    def _response_topic(self, new: NewCommand, connection: Sender | None) -> str:
        """Where the sender wants to be told: what it could publish and subscribe to itself, or nowhere."""
        topic = new.response_topic
        if not may_answer_to(topic):
            return ""
        permissions = None if connection is None else connection.permissions
        if permissions is None or permissions.unrestricted:
            return topic
        may = permissions.allows(Action.SUBSCRIBE, topic) and permissions.forms(topic) & ANSWER_FORM
        return topic if may else ""


def _taken() -> Outcome:
    """Somebody has it: the command's record."""
    outcome = Outcome()
    outcome.receivers = 1
    return outcome


def _ended(record: StoredCommand, state: State, why: str) -> StoredCommand:
    return replace(record, state=state, detail=why, times={**record.times, state.value: record.accepted_at})


def _wrong_with(new: NewCommand) -> str | None:
    if new.unclear:
        return new.unclear
    if new.id and bad_id(new.id):
        return "a command id has 1 to 64 letters, digits, '.', '_' and '-'"
    if not new.made and is_made(new.id):
        return "such a command id is made for records of Kafka"
    if len(new.idempotency_key) > MAX_KEY:
        return f"an idempotency key has at most {MAX_KEY} characters"
    return None
