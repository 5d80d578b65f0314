"""A list of what there is, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import TypeVar

from iot_mqtt.broker.session import Session
from iot_mqtt.topics import parse_replay, parse_shared

T = TypeVar("T")
K = TypeVar("K", str, tuple[str, str])


def by_client(session: Session) -> str:
    """A key to list sessions by."""
    return session.client_id


def page(items: Iterable[T], key: Callable[[T], K], after: K | None, limit: int) -> list[T]:
    """The next ``limit`` in key order, without sorting the rest."""
    wanted = (item for item in items if after is None or key(item) > after)
    return nsmallest(limit, wanted, key=key)


def plain_of(filter: str) -> str:
    """What topics are held against."""
    found = parse_shared(filter) or parse_replay(filter)
    return filter if found is None else found[1]
