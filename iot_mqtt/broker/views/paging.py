"""A list of what there is, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Any, TypeVar, overload

from iot_mqtt.broker.session import Session
from iot_mqtt.topics import parse_replay, parse_shared

T = TypeVar("T")
K = TypeVar("K", str, tuple[str, str])


#: A key to list sessions by.
by_client: Callable[[Session], str] = attrgetter("client_id")


class Made(Sequence[T]):
    """Values of what was found, made when somebody looks at them: of a thousand, a few at a time."""

    __slots__ = ("_found", "_make")

    def __init__(self, found: Sequence[Any], make: Callable[[Any], T]) -> None:
        self._found = found
        self._make = make

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> list[T]: ...

    def __getitem__(self, at: int | slice) -> T | list[T]:
        found, make = self._found, self._make
        return list(map(make, found[at])) if isinstance(at, slice) else make(found[at])


def page(items: Iterable[T], key: Callable[[T], K], after: K | None, limit: int) -> list[T]:
    """The next ``limit`` in key order, without sorting the rest."""
    wanted = items if after is None else (item for item in items if key(item) > after)
    return nsmallest(limit, wanted, key=key)


def plain_of(filter: str) -> str:
    """What topics are held against."""
    found = parse_shared(filter) or parse_replay(filter)
    return filter if found is None else found[1]
