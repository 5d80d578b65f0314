"""Lists of several nodes as one: what each has to show, in its own order, and where a page ends.

A page ends where the items of a node do that has more of them. Its cursor is that of the last item shown, for all nodes
alike: a session that moves between two pages is shown once. Only of a node that has more items of that very key the
cursor says its own place beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

#: Nodes that a cursor speaks of.
_MOST = 1000

Item = Mapping[str, Any]
#: Node → the cursor it goes on from; "" for all others.
Places = dict[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """What one node has to show. ``cursors``: of the items, if there may be more than a page of them."""

    node: str
    items: Sequence[Item]
    cursors: Sequence[str] = ()
    more: bool = False


@dataclass(slots=True)
class _Heap:
    """The items of one node that were not shown yet."""

    part: Part
    key: Callable[[Item, str], Any]
    shown: int = 0

    @property
    def empty(self) -> bool:
        return self.shown == len(self.part.items)

    @property
    def first(self) -> Any:
        return self.key(self.part.items[self.shown], self.part.cursors[self.shown])


@dataclass(frozen=True, slots=True)
class Merged:
    """A page of all. ``places``: where the next one begins; None: there is none."""

    items: list[Item] = field(default_factory=list)
    places: Places | None = None


def merged(parts: Iterable[Part], limit: int, by: Sequence[str], asked: Places) -> Merged:
    """The first items of all. ``asked``: where the parts begin."""
    waiting = [_Heap(part, lambda item, cursor: key_of(item, by) or cursor) for part in parts]
    waiting.sort(key=lambda one: one.part.node)
    items: list[Item] = []
    last, cursor = None, ""
    while len(items) < limit and not any(one.empty and one.part.more for one in waiting):
        heads = [one for one in waiting if not one.empty]
        if not heads:
            return Merged(items)
        # Of equal ones that of the first node.
        head = min(heads, key=lambda one: one.first)
        last, cursor = head.first, head.part.cursors[head.shown]
        items.append(head.part.items[head.shown])
        head.shown += 1
    if all(one.empty and not one.part.more for one in waiting):
        return Merged(items)
    apart = {one.part.node: _place(one, asked) for one in waiting if not one.empty and one.first == last}
    return Merged(items, {"": cursor, **apart})


def put_together(parts: Iterable[Part], by: Sequence[str]) -> list[Item]:
    """All items of lists that have no pages."""
    items = [item for part in sorted(parts, key=lambda one: one.node) for item in part.items]
    return sorted(items, key=lambda item: key_of(item, by))


def key_of(item: Item, by: Sequence[str]) -> tuple[Any, ...]:
    """By which items are compared; what is null comes first."""
    return tuple(_comparable(item.get(name.removeprefix("-")), name.startswith("-")) for name in by)


def _comparable(value: Any, largest_first: bool) -> tuple[bool, Any]:
    return (False, 0) if value is None else (True, -value if largest_first else value)


def _place(one: _Heap, asked: Places) -> str:
    return one.part.cursors[one.shown - 1] if one.shown else place_of(one.part.node, asked) or ""


def place_of(node: str, places: Places) -> str | None:
    """Where a node's items begin; None: at the first."""
    return places.get(node, places.get("")) or None


def write_cursor(places: Places) -> str:
    return urlencode(places)


def read_cursor(cursor: str | None) -> Places:
    """``ValueError`` for no cursor of ours."""
    if cursor is None:
        return {}
    places = dict(parse_qsl(cursor, keep_blank_values=True, strict_parsing=True, max_num_fields=_MOST, errors="strict"))
    if "" not in places:
        raise ValueError("no cursor")
    return places
