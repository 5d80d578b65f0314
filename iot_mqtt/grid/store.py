"""The broker's store on any grid: typed records in, one batch per turn out.

::

    save_* / remove_*  ─▶  gathering batch  ─(flush, nothing under way)─▶  grid  ─▶  committed, on_committed
                                 ▲                                           │
                                 └──── the next turns gather meanwhile ──────┘

When a batch leaves, and what becomes of it, is in ``commits``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from iot_mqtt.grid.commits import Commits
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
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import (
    StoredDelivery,
    StoredFlight,
    StoredGroup,
    StoredProgress,
    StoredSession,
    StoredWill,
)
from iot_mqtt.values import Message, Subscription

#: Client prefixes kept ready; a bound, not a tuning knob.
MAX_PREFIXES = 100_000


class GridStore(Commits):
    """``ports.store.Store`` over a ``ports.grid.Grid``. Everything here runs in the reactor's thread."""

    def __init__(
        self, grid: Grid, clock: Clock, counters: Counters, on_broken: Callable[[BaseException], None] | None = None
    ) -> None:
        """``on_broken`` is told why a batch could not be made; without, whoever flushes is."""
        super().__init__(grid, clock, counters, on_broken)
        self._grid = grid
        self._reader = RecordReader(grid)
        self._prefixes: dict[str, bytes] = {}
        # The message encoded last: a message for a thousand sessions is encoded once.
        self._message: Message | None = None
        self._message_bytes = b""

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
        self._wills[session_key(client_id)] = encode_will(will)
        self.reserve()

    def remove_will(self, client_id: str) -> None:
        self._wills[session_key(client_id)] = None
        self.reserve(soon=False)

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
