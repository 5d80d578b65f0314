"""The broker's store on any grid: typed records in, one batch per turn out.

::

    save_* / remove_*  ─▶  gathering batch  ─(flush, nothing under way)─▶  grid  ─▶  committed, on_committed
                                 ▲                                           │
                                 └──── the next turns gather meanwhile ──────┘

A commit that fails is repeated until the grid takes it (see ``committer``); what waits for it waits. A batch that
cannot even be made (no memory, a fault of ours) ends the store: who was asked for a part of it believes that it is in.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from twisted.internet.defer import Deferred

from iot_mqtt.grid.committer import Committer
from iot_mqtt.grid.record_reader import RecordReader
from iot_mqtt.grid.records.keys import (
    ROUTE,
    client_prefix,
    packet_id_of,
    packet_key,
    queue_key,
    route_key,
    route_of,
    sequence_of,
    session_key,
    split_prefix,
    subscription_key,
)
from iot_mqtt.grid.records.message import encode_message
from iot_mqtt.grid.records.progress import (
    decode_group,
    decode_progress,
    decode_segment,
    decode_share,
    encode_group,
    encode_progress,
    encode_segment,
    encode_share,
)
from iot_mqtt.grid.records.queue import (
    RECEIVED,
    decode_dup,
    decode_pubrel,
    decode_queue,
    encode_dup,
    encode_pubrel,
    encode_queue,
)
from iot_mqtt.grid.records.retained import decode_retained
from iot_mqtt.grid.records.sessions import decode_session, decode_subscription, encode_session, encode_subscription
from iot_mqtt.grid.records.wills import decode_will, encode_will
from iot_mqtt.grid.retained_changes import RetainedChanges
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import (
    CommitOrder,
    CommitParticipant,
    StoredDelivery,
    StoredFlight,
    StoredGroup,
    StoredProgress,
    StoredSession,
    StoredWill,
)
from iot_mqtt.values import Message, Subscription

log = logging.getLogger(__name__)

#: Client prefixes kept ready; a bound, not a tuning knob.
MAX_PREFIXES = 100_000


class GridStore:
    """``ports.store.Store`` over a ``ports.grid.Grid``. Everything here runs in the reactor's thread."""

    def __init__(
        self, grid: Grid, clock: Clock, counters: Counters, on_broken: Callable[[BaseException], None] | None = None
    ) -> None:
        """``on_broken`` is told why a batch could not be made; without, whoever flushes is."""
        self._on_broken = on_broken or _raise
        self._clock = clock
        self._grid = grid
        self._committer = Committer(grid, clock, counters, self._committed)
        self._reader = RecordReader(grid)
        self._retained = RetainedChanges()
        self._gathering = WriteBatch()
        # There is something for the next batch besides what was gathered.
        self._reserved = False
        self._submitted = 0
        self.committed = 0
        # Since when something gathers behind the batch under way, and has gathered for that one; 0: nothing does.
        self._gathers_since = self._gathered_since = 0.0
        self.waited = 0.0
        #: By ``CommitOrder``.
        self._participants: dict[CommitOrder, CommitParticipant] = {}
        self._meanwhile: list[Callable[[], None]] = []
        self._settling: list[tuple[int, Deferred[None]]] = []
        self.on_committed: Callable[[], None] = _nothing
        self._prefixes: dict[str, bytes] = {}
        # The message encoded last: a message for a thousand sessions is encoded once.
        self._message: Message | None = None
        self._message_bytes = b""

    # Committing.

    @property
    def latest(self) -> int:
        """The newest batch that holds anything."""
        return self._submitted + 1 if self._gathering or self._reserved else self._submitted

    @property
    def failing(self) -> bool:
        """See the port."""
        return self._committer.failing

    @property
    def trouble(self) -> str | None:
        """See the port."""
        return self._committer.trouble

    def enlist(self, place: CommitOrder, participant: CommitParticipant) -> None:
        assert place not in self._participants, f"two participants as {place.name}"
        self._participants = dict(sorted([*self._participants.items(), (place, participant)]))

    def meanwhile(self, call: Callable[[], None]) -> None:
        """See the port."""
        self._meanwhile.append(call)

    def reserve(self) -> int:
        """A participant will have something for the next batch; its ticket."""
        self._reserved = True
        return self._submitted + 1

    @property
    def waiting(self) -> int:
        """Operations that are not committed yet."""
        batch = self._committer.batch
        return len(self._gathering) + len(self._retained) + (len(batch) if batch is not None else 0)

    def flush(self) -> bool:
        """Hand over what gathered, unless a batch is under way; its end hands over the next. Whether anything waits."""
        committer = self._committer
        # Asked in every turn, most of which have nothing: no call for an answer that an attribute has.
        if self._gathering.operations or self._reserved:
            if committer.batch is not None or committer.given_up:
                # Of the first turn that it waits for: one look at the clock for each batch.
                self._gathers_since = self._gathers_since or self._clock.monotonic()
                return True
            self._submitted += 1
            try:
                batch = self._made()
            except Exception as error:  # noqa: BLE001 - whatever it is, what was in it must not be acknowledged
                self.give_up()
                self._on_broken(error)
                return True
            self._gathering, self._reserved = WriteBatch(), False
            now = self._clock.monotonic()
            self._gathered_since, self._gathers_since = self._gathers_since or now, 0.0
            committer.commit(batch, now)
            for call in self._meanwhile:
                call()
        return committer.batch is not None

    def _made(self) -> WriteBatch:
        """What participants have comes first, in their order: where a batch is not atomic, its first part may be all
        that is written, and must not take away a will, say, whose message is not there.
        """
        batch = WriteBatch()
        for participant in self._participants.values():
            participant.contribute(batch, self._submitted)
        self._retained.stage(batch)
        batch.operations += self._gathering.operations
        batch.whole |= self._gathering.whole
        return batch

    def _committed(self, now: float) -> None:
        self.waited = now - self._gathered_since
        self.committed = self._submitted
        for participant in self._participants.values():
            try:
                participant.committed(self.committed)
            except Exception:
                # It has what it gave, and so have the others: they are to hear of it.
                log.exception("who took part in a commit could not go on after it")
        self.on_committed()
        self._release_settled()
        self.flush()

    async def settled(self) -> None:
        """Wait for everything staged so far."""
        self.flush()
        if self.latest > self.committed:
            waiting: Deferred[None] = Deferred()
            self._settling.append((self.latest, waiting))
            await waiting

    def give_up(self) -> None:
        """This life is over and nothing more can be written: what waits is not committed, and nobody is told so."""
        self._committer.give_up()

    def _release_settled(self) -> None:
        due = [waiting for ticket, waiting in self._settling if ticket <= self.committed]
        self._settling = [entry for entry in self._settling if entry[0] > self.committed]
        for waiting in due:
            waiting.callback(None)

    # Staging.

    def _prefix(self, client_id: str) -> bytes:
        prefix = self._prefixes.get(client_id)
        if prefix is None:
            if len(self._prefixes) >= MAX_PREFIXES:
                self._prefixes.clear()
            prefix = self._prefixes[client_id] = client_prefix(client_id)
        return prefix

    def _encoded(self, message: Message) -> bytes:
        if message is not self._message:
            self._message, self._message_bytes = message, encode_message(message)
        return self._message_bytes

    def save_session(self, session: StoredSession) -> None:
        self._gathering.put(CacheName.SESSIONS, session_key(session.client_id), encode_session(session))

    def remove_session(self, client_id: str) -> None:
        self._gathering.remove(CacheName.SESSIONS, session_key(client_id))
        self._prefixes.pop(client_id, None)

    def save_subscription(self, client_id: str, subscription: Subscription, since: Mapping[int, int]) -> None:
        key = subscription_key(self._prefix(client_id), subscription.filter)
        self._gathering.put(CacheName.SUBSCRIPTIONS, key, encode_subscription(subscription, since))

    def remove_subscription(self, client_id: str, filter: str) -> None:
        self._gathering.remove(CacheName.SUBSCRIPTIONS, subscription_key(self._prefix(client_id), filter))

    def save_delivery(
        self,
        client_id: str,
        sequence: int,
        message: Message,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        packet_id: int,
        shared: bool,
    ) -> None:
        self._gathering.whole |= qos == 2
        value = encode_queue(self._encoded(message), qos, packet_id, retain, identifiers, shared)
        self._gathering.put(CacheName.QUEUE, queue_key(self._prefix(client_id), sequence), value)

    def remove_delivery(self, client_id: str, sequence: int) -> None:
        self._gathering.remove(CacheName.QUEUE, queue_key(self._prefix(client_id), sequence))

    def save_dup(self, client_id: str, packet_id: int, sequence: int) -> None:
        key = packet_key(self._prefix(client_id), packet_id)
        self._gathering.whole = True
        self._gathering.put(CacheName.DUP, key, encode_dup(sequence))

    def remove_dup(self, client_id: str, packet_id: int) -> None:
        self._gathering.remove(CacheName.DUP, packet_key(self._prefix(client_id), packet_id))

    def save_progress(self, client_id: str, progress: StoredProgress) -> None:
        self._gathering.put(CacheName.PROGRESS, session_key(client_id), encode_progress(progress))

    def remove_progress(self, client_id: str) -> None:
        self._gathering.remove(CacheName.PROGRESS, session_key(client_id))

    def save_segment(self, client_id: str, number: int, flights: Sequence[StoredFlight]) -> None:
        # Without the position, which is another record, a message would get a second id.
        self._gathering.whole |= any(flight.qos == 2 for flight in flights)
        self._gathering.put(CacheName.SEGMENTS, queue_key(self._prefix(client_id), number), encode_segment(flights))

    def remove_segment(self, client_id: str, number: int) -> None:
        self._gathering.remove(CacheName.SEGMENTS, queue_key(self._prefix(client_id), number))

    def save_group(self, filter: str, group: StoredGroup) -> None:
        self._gathering.put(CacheName.GROUPS, session_key(filter), encode_group(group))

    async def place_group(self, filter: str, group: StoredGroup) -> None:
        await self._grid.compare_and_set(CacheName.GROUPS, session_key(filter), None, encode_group(group))

    def remove_group(self, filter: str) -> None:
        self._gathering.remove(CacheName.GROUPS, session_key(filter))

    def save_group_segment(self, filter: str, number: int, references: Sequence[Reference]) -> None:
        self._gathering.whole = True
        self._gathering.put(CacheName.SHARES, queue_key(self._prefix(filter), number), encode_share(references))

    def remove_group_segment(self, filter: str, number: int) -> None:
        self._gathering.remove(CacheName.SHARES, queue_key(self._prefix(filter), number))

    def save_pubrel(self, client_id: str, packet_id: int, order: int) -> None:
        key = packet_key(self._prefix(client_id), packet_id)
        self._gathering.whole = True
        self._gathering.put(CacheName.PUBREL, key, encode_pubrel(order))

    def remove_pubrel(self, client_id: str, packet_id: int) -> None:
        self._gathering.remove(CacheName.PUBREL, packet_key(self._prefix(client_id), packet_id))

    def save_received(self, client_id: str, ids: Iterable[int]) -> None:
        prefix = self._prefix(client_id)
        self._gathering.whole = True
        for packet_id in ids:
            self._gathering.put(CacheName.RECEIVED, packet_key(prefix, packet_id), RECEIVED)

    def remove_received(self, client_id: str, packet_id: int) -> None:
        self._gathering.remove(CacheName.RECEIVED, packet_key(self._prefix(client_id), packet_id))

    def save_will(self, client_id: str, will: StoredWill) -> None:
        self._gathering.put(CacheName.WILLS, session_key(client_id), encode_will(will))

    def remove_will(self, client_id: str) -> None:
        self._gathering.whole = True
        self._gathering.remove(CacheName.WILLS, session_key(client_id))

    def save_retained(self, message: Message, version: int = 0) -> None:
        self._retained.save(message, version)
        self._reserved = True

    def save_all_retained(self, messages: Mapping[bytes, Message]) -> None:
        self._retained.save_all(messages)
        self._reserved = True

    def remove_retained(self, topic: bytes) -> None:
        self._retained.remove(topic)
        self._reserved = True

    # Of a node in a cluster.

    def save_route(self, node: int, filter: str) -> None:
        self._gathering.put(CacheName.ROUTES, route_key(node, filter), ROUTE)

    def remove_route(self, node: int, filter: str) -> None:
        self._gathering.remove(CacheName.ROUTES, route_key(node, filter))

    # Reading back.

    async def sessions(self, client_id: str | None = None) -> AsyncIterator[StoredSession]:
        async for _, session in self._reader.single(CacheName.SESSIONS, decode_session, client_id):
            yield session

    async def subscriptions(
        self, client_id: str | None = None
    ) -> AsyncIterator[tuple[str, Subscription, Mapping[int, int]]]:
        async for key, (subscription, since) in self._reader.records(
            CacheName.SUBSCRIPTIONS, decode_subscription, client_id
        ):
            yield split_prefix(key)[0], subscription, since

    async def progress(self, client_id: str | None = None) -> AsyncIterator[tuple[str, StoredProgress]]:
        async for key, progress in self._reader.single(CacheName.PROGRESS, decode_progress, client_id):
            yield key.decode(), progress

    async def segments(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int, list[StoredFlight]]]:
        async for key, flights in self._reader.records(CacheName.SEGMENTS, decode_segment, client_id):
            yield split_prefix(key)[0], sequence_of(key), flights

    async def groups(self) -> AsyncIterator[tuple[str, StoredGroup]]:
        async for key, group in self._reader.records(CacheName.GROUPS, decode_group):
            yield key.decode(), group

    async def group_segments(self) -> AsyncIterator[tuple[str, int, list[Reference]]]:
        async for key, references in self._reader.records(CacheName.SHARES, decode_share):
            yield split_prefix(key)[0], sequence_of(key), references

    async def deliveries(self, client_id: str | None = None) -> AsyncIterator[tuple[str, StoredDelivery]]:
        async for key, record in self._reader.records(CacheName.QUEUE, decode_queue, client_id):
            yield split_prefix(key)[0], StoredDelivery(sequence_of(key), *record)

    async def dups(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int, int]]:
        async for key, sequence in self._reader.records(CacheName.DUP, decode_dup, client_id):
            yield split_prefix(key)[0], packet_id_of(key), sequence

    async def pubrels(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int, int]]:
        async for key, order in self._reader.records(CacheName.PUBREL, decode_pubrel, client_id):
            yield split_prefix(key)[0], packet_id_of(key), order

    async def received(self, client_id: str | None = None) -> AsyncIterator[tuple[str, int]]:
        async for key, _ in self._reader.entries(CacheName.RECEIVED, client_id):
            yield split_prefix(key)[0], packet_id_of(key)

    async def wills(self, client_id: str | None = None) -> AsyncIterator[tuple[str, StoredWill]]:
        async for key, will in self._reader.single(CacheName.WILLS, decode_will, client_id):
            yield key.decode(), will

    async def retained(self) -> AsyncIterator[tuple[Message, int]]:
        async for _, (message, _, counter) in self._reader.records(CacheName.RETAINED, decode_retained):
            self._retained.number_after(counter)
            yield message, counter

    async def routes(self) -> AsyncIterator[tuple[int, str]]:
        async for key, _ in self._reader.entries(CacheName.ROUTES):
            yield route_of(key)


def _nothing() -> None:
    """Nobody waits for commits yet."""


def _raise(error: BaseException) -> None:
    raise error
