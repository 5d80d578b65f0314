"""What the store has of one client, read before any of it is used: restoring a session then waits for nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from iot_mqtt.ports.store import (
    Store,
    StoredDelivery,
    StoredFlight,
    StoredProgress,
    StoredSession,
    StoredWill,
)
from iot_mqtt.values import Subscription

T = TypeVar("T")
#: Whose records are looked at, by client id.
Wanted = Callable[[str], bool]


class Source(Protocol):
    """Where records come from: a store, or what was gathered of it for one client."""

    def sessions(self) -> AsyncIterator[StoredSession]: ...

    def subscriptions(self) -> AsyncIterator[tuple[str, Subscription, Mapping[int, int]]]: ...

    def progress(self) -> AsyncIterator[tuple[str, StoredProgress]]: ...

    def segments(self) -> AsyncIterator[tuple[str, int, list[StoredFlight]]]: ...

    def deliveries(self) -> AsyncIterator[tuple[str, StoredDelivery]]: ...

    def dups(self) -> AsyncIterator[tuple[str, int, int]]: ...

    def pubrels(self) -> AsyncIterator[tuple[str, int, int]]: ...

    def received(self) -> AsyncIterator[tuple[str, int]]: ...

    def wills(self) -> AsyncIterator[tuple[str, StoredWill]]: ...


class Records:
    """What the store has of one client; a ``Source`` that waits for nothing."""

    def __init__(self) -> None:
        #: By kind: the names of the store's iterators.
        self.of: dict[str, list[Any]] = {kind: [] for kind in KINDS}

    def sessions(self) -> AsyncIterator[StoredSession]:
        return _each(self.of["sessions"])

    def subscriptions(self) -> AsyncIterator[tuple[str, Subscription, Mapping[int, int]]]:
        return _each(self.of["subscriptions"])

    def progress(self) -> AsyncIterator[tuple[str, StoredProgress]]:
        return _each(self.of["progress"])

    def segments(self) -> AsyncIterator[tuple[str, int, list[StoredFlight]]]:
        return _each(self.of["segments"])

    def deliveries(self) -> AsyncIterator[tuple[str, StoredDelivery]]:
        return _each(self.of["deliveries"])

    def dups(self) -> AsyncIterator[tuple[str, int, int]]:
        return _each(self.of["dups"])

    def pubrels(self) -> AsyncIterator[tuple[str, int, int]]:
        return _each(self.of["pubrels"])

    def received(self) -> AsyncIterator[tuple[str, int]]:
        return _each(self.of["received"])

    def wills(self) -> AsyncIterator[tuple[str, StoredWill]]:
        return _each(self.of["wills"])


#: The store's iterators that have something of a client.
KINDS = ("sessions", "progress", "subscriptions", "dups", "deliveries", "segments", "pubrels", "received", "wills")


async def _each(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item


async def gather(store: Store, client_id: str | None, wanted: Wanted) -> dict[str, Records]:
    """The records of one client or, None, of all that are wanted, by client id."""
    gathered: dict[str, Records] = {}

    async def of_kind(kind: str) -> None:
        async for record in getattr(store, kind)(client_id):
            owner = record.client_id if isinstance(record, StoredSession) else record[0]
            if wanted(owner):
                gathered.setdefault(owner, Records()).of[kind].append(record)

    if client_id is None:
        for kind in KINDS:
            await of_kind(kind)
        return gathered
    # A client waits for its session: all questions at once, for the grid may be a process away.
    reading = [Deferred.fromCoroutine(of_kind(kind)) for kind in KINDS]
    failure: BaseException | None = None
    for one in reading:
        try:
            await one
        except Exception as error:  # noqa: BLE001 - every question is waited for; the first failure counts
            failure = failure or error
    if failure is not None:
        raise failure
    return gathered
