"""A list of what there is, page by page. Only so much of it is looked at before others have a turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeVar, overload

from iot_mqtt.broker.session import Session
from iot_mqtt.ports.log import Breath
from iot_mqtt.topics import parse_replay, parse_shared

T = TypeVar("T")
K = TypeVar("K", str, tuple[str, str], tuple[int, str])

#: Things that are looked at in one piece: some microseconds each.
PIECE: Final = 100

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


async def pieces(items: Iterable[T], breathe: Breath, size: int = PIECE) -> AsyncIterator[list[T]]:
    """All items, some in each turn. What changes meanwhile must not be what is iterated over."""
    left = iter(items)
    while piece := list(islice(left, size)):
        yield piece
        if len(piece) < size:
            return
        await breathe()


async def page(
    items: Iterable[T],
    key: Callable[[T], K],
    after: K | None,
    limit: int,
    breathe: Breath,
    fits: Callable[[T], bool] | None = None,
) -> list[T]:
    """The next ``limit`` of those that fit, in key order, without sorting the rest."""
    found: list[T] = []
    #: Nobody behind it is shown.
    last: K | None = None
    async for piece in pieces(items, breathe):
        if after is not None or last is not None:
            piece = [one for one in piece if (after is None or key(one) > after) and (last is None or key(one) < last)]
        found += piece if fits is None else filter(fits, piece)
        if len(found) >= 2 * limit:
            found.sort(key=key)
            del found[limit:]
            last = key(found[-1])
    found.sort(key=key)
    return found[:limit]


def plain_of(filter: str) -> str:
    """What topics are held against."""
    found = parse_shared(filter) or parse_replay(filter)
    return filter if found is None else found[1]
