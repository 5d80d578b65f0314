"""Sessions of another broker on their way into the grid of a node that is stopped.

::

    1  what waits for each session            in batches; without a session a node's start removes it
    2  subscriptions, positions, sessions     one batch: from here on all of them are there

A session claims what is published from the end of the node's log on. What waits for it comes before that, by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import Stored
from iot_mqtt.app.importing.mosquitto_sessions import Exchange, OldSession, OldSessions, Phase
from iot_mqtt.codec.properties import passed_on
from iot_mqtt.ports.log import Log
from iot_mqtt.ports.store import Store, StoredProgress, StoredSession
from iot_mqtt.topics import matches
from iot_mqtt.values import NEVER, Message, Subscription

#: Messages, and bytes of them, of a batch.
_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
#: Client ids that are named, of those that are there already.
_NAMED: Final = 20


@dataclass(slots=True)
class Outcome:
    """What there is, and what became of it."""

    sessions: int = 0
    subscriptions: int = 0
    #: Messages that wait or are under way.
    messages: int = 0
    #: QoS 2 messages that clients have, and are to be told once more that they may forget.
    released: int = 0
    #: Sessions whose time was over.
    ended: int = 0
    #: Sessions that are there already and stay as they are.
    kept: int = 0
    #: Messages whose time was over, or that mosquitto had removed.
    expired: int = 0
    #: Messages of QoS 0, which is never kept.
    qos_0: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Kept:
    """One message for one session."""

    message: Message
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    packet_id: int


@dataclass(slots=True)
class Transfer:
    """Of the sessions of one file. ``read`` it to its end before anything is written."""

    old: OldSessions
    now: float
    #: Whoever comes first with a client id gets its session.
    any_user: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    _wanted: list[OldSession] = field(default_factory=list)
    #: Of publishers that were told that it came: (client id, message).
    _received: list[Message] = field(default_factory=list)

    def read(self) -> None:
        """See all that is to be taken over; raises ``Refused`` where the file is damaged."""
        outcome = self.outcome
        outcome.notes += self.old.notes
        for session in self.old.by_client.values():
            self._accept(session)
            if self._is_over(session):
                outcome.ended += 1
            else:
                self._wanted.append(session)
        self._count()

    async def leave_out(self, store: Store, *, keep: bool) -> None:
        """Those that are there already stay as they are; unless that is wanted, they are a reason for ``Refused``."""
        there = {one.client_id for one in self._wanted if [found async for found in store.sessions(one.client_id)]}
        if there and not keep:
            named = ", ".join(sorted(there)[:_NAMED])
            raise Refused(f"nothing was written: {len(there)} sessions are there already ({named}); --keep leaves them")
        self._wanted = [one for one in self._wanted if one.client_id not in there]
        self.outcome.kept = len(there)
        self._count()

    async def write(self, store: Store, log: Log) -> None:
        """All of it."""
        messages = size = 0
        for session in self._wanted:
            client_id = session.client_id
            for sequence, kept in enumerate(self._waiting(session), 1):
                message, qos, retain = kept.message, kept.qos, kept.retain
                store.save_delivery(
                    client_id, sequence, message, qos, retain, kept.identifiers, kept.packet_id, shared=False
                )
                messages, size = messages + 1, size + message.size
                if messages >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                    await store.settled()
                    messages = size = 0
        await store.settled()
        for session in self._wanted:
            self._begin(session, store, log)
        await store.settled()

    def _begin(self, session: OldSession, store: Store, log: Log) -> None:
        client_id, end = session.client_id, log.end
        for subscription in session.subscriptions.values():
            store.save_subscription(client_id, subscription, {log.writer: end})
        store.save_progress(client_id, StoredProgress(end, writer=log.writer))
        for order, packet_id in enumerate(_released(session), len(session.exchanges)):
            store.save_pubrel(client_id, packet_id, order)
        received = [one.packet_id for one in session.exchanges if one.phase is Phase.RECEIVED and one.packet_id]
        if received:
            store.save_received(client_id, received)
        store.save_session(self._record(session))

    def _record(self, session: OldSession) -> StoredSession:
        interval, left = session.interval, self.now
        if session.ends and interval < NEVER:
            left = min(session.ends - interval, self.now)
        elif session.ends:
            # mosquitto's persistent_client_expiration ends what would be kept for ever.
            interval = session.ends - int(self.now)
        return StoredSession(
            client_id=session.client_id,
            version=5 if session.interval < NEVER else 4,
            expiry_interval=interval,
            created_at=self.now,
            disconnected_at=left,
            username=session.user or None,
            epoch=1,
            owner=None if self.any_user else session.user,
        )

    def _is_over(self, session: OldSession) -> bool:
        return session.interval == 0 or 0 < session.ends <= self.now

    def _accept(self, session: OldSession) -> None:
        """What its client has published at QoS 2 and was told that it came: it is delivered once, here."""
        for exchange in session.exchanges:
            if exchange.phase is Phase.RECEIVED and (stored := self._stored(exchange)) is not None:
                message = stored.message
                self._received.append(_message(stored))
                if message.retain:
                    text = "was to be retained when its publisher would have released it: publish it again"
                    self.outcome.notes.append(f"{message.topic.decode()}: {text}")

    def _count(self) -> None:
        outcome = self.outcome
        outcome.sessions = outcome.subscriptions = outcome.messages = outcome.released = 0
        outcome.expired = outcome.qos_0 = 0
        for session in self._wanted:
            outcome.sessions += 1
            outcome.subscriptions += len(session.subscriptions)
            outcome.released += len(_released(session))
            outcome.messages += sum(1 for _ in self._waiting(session, outcome))

    def _waiting(self, session: OldSession, outcome: Outcome | None = None) -> Iterator[Kept]:
        """In order: what it has under way, what waits for it, what was being published to it."""
        used = set(_released(session))
        outcome = outcome or Outcome()
        for exchange in session.exchanges:
            if exchange.phase not in (Phase.WAITS, Phase.SENT):
                continue
            stored = self._stored(exchange)
            if stored is None:
                outcome.expired += 1
            elif exchange.qos == 0:
                outcome.qos_0 += 1
            else:
                # An id that another exchange has is no id to go on with: it begins anew.
                under_way = exchange.phase is Phase.SENT and exchange.packet_id not in used
                packet_id = exchange.packet_id if under_way else 0
                used.add(packet_id)
                yield Kept(_message(stored), exchange.qos, exchange.retain, exchange.identifiers, packet_id)
        for message in self._received:
            yield from _matching(session, message)

    def _stored(self, exchange: Exchange) -> Stored | None:
        """Its message, unless it is over."""
        stored = self.old.database.stored(exchange.number)
        return None if stored is None or 0 < stored.expires <= self.now else stored


def _released(session: OldSession) -> list[int]:
    """Packet ids that the client is to be told PUBREL of, in order."""
    found = (one.packet_id for one in session.exchanges if one.phase is Phase.RELEASED and one.packet_id)
    return list(dict.fromkeys(found))


def _matching(session: OldSession, message: Message) -> Iterator[Kept]:
    """The message, if the session has subscribed to it above QoS 0."""
    topic = message.topic.decode()
    own = message.publisher == session.client_id
    found = [one for one in session.subscriptions.values() if matches(one.filter, topic) and not (own and one.no_local)]
    qos = min(message.qos, max((one.qos for one in found), default=0))
    if qos:
        retain = message.retain and any(one.retain_as_published for one in found)
        yield Kept(message, qos, retain, _identifiers(found), 0)


def _identifiers(subscriptions: Iterable[Subscription]) -> tuple[int, ...]:
    return tuple(one.identifier for one in subscriptions if one.identifier is not None)


def _message(stored: Stored) -> Message:
    message = stored.message
    return Message(
        message.topic,
        message.payload,
        message.qos,
        retain=message.retain,
        properties=passed_on(message.properties),
        expires_at=float(stored.expires) if stored.expires > 0 else None,
        publisher=stored.source,
    )
