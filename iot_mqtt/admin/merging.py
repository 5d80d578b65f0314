"""Lists of several nodes as one: what each has to show, in its own order, and where a page ends.

A page ends where the items of a node do that has more of them. Its cursor is that of the last item shown, for all nodes
alike: a session that moves between two pages is shown once. Only of a node that has more items of that very key the
cursor says its own place beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from iot_mqtt.admin.turns import ITEMS, Turns

#: Nodes that a cursor speaks of.
_MOST = 1000

#: Node → the cursor it goes on from; "" for all others.
Places = dict[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """What one node has to show: items that are JSON already. ``cursors``: of each, if there may be more than a page of
    them. ``keys``: of each, the fields that the items are sorted by, if they are not by their cursors.
    """

    node: str
    items: Sequence[bytes]
    cursors: Sequence[str] = ()
    keys: Sequence[Sequence[Any]] = ()
    more: bool = False


@dataclass(slots=True)
class _Heap:
    """The items of one node that were not shown yet."""

    part: Part
    by: Sequence[str]
    shown: int = 0
    first: Any = None

    def __post_init__(self) -> None:
        self.show(0)

    def show(self, count: int) -> None:
        """So many more are shown."""
        at = self.shown = self.shown + count
        if not self.empty:
            self.first = key_of(self.part.keys[at], self.by) if self.by else self.part.cursors[at]

    @property
    def empty(self) -> bool:
        return self.shown == len(self.part.items)


@dataclass(frozen=True, slots=True)
class Merged:
    """A page of all. ``places``: where the next one begins; None: there is none."""

    items: list[bytes] = field(default_factory=list)
    places: Places | None = None


async def merged(
    parts: Iterable[Part], limit: int, by: Sequence[str], asked: Places, turns: Turns, *, once: bool = False
) -> Merged:
    """The first items of all. ``asked``: where the parts begin. ``once``: of equal ones only the first node's."""
    waiting = sorted((_Heap(part, by) for part in parts), key=lambda one: one.part.node)
    items: list[bytes] = []
    last, cursor = None, ""
    while len(items) < limit and not any(one.empty and one.part.more for one in waiting):
        heads = [one for one in waiting if not one.empty]
        if not heads:
            return Merged(items)
        # Of equal ones that of the first node.
        head = min(heads, key=_first)
        if once and items and head.first == last:
            head.show(1)
            continue
        last, cursor = head.first, head.part.cursors[head.shown]
        items.append(head.part.items[head.shown])
        head.show(1)
        if len(items) % (4 * ITEMS) == 0:
            await turns.next()
    if all(one.empty and not one.part.more for one in waiting):
        return Merged(items)
    equal = () if once else [one for one in waiting if not one.empty and one.first == last]
    apart = {one.part.node: _place(one, asked) for one in equal}
    return Merged(items, {"": cursor, **apart})


_first: Callable[[_Heap], Any] = lambda one: one.first  # noqa: E731 - as a key it is called for each item


def put_together(parts: Iterable[Part], by: Sequence[str]) -> list[bytes]:
    """All items of lists that have no pages."""
    ordered = sorted(parts, key=lambda one: one.node)
    if not by:
        return [item for part in ordered for item in part.items]
    keyed = [(key_of(key, by), item) for part in ordered for key, item in zip(part.keys, part.items, strict=True)]
    return [item for _, item in sorted(keyed, key=lambda one: one[0])]


def key_of(values: Sequence[Any], by: Sequence[str]) -> tuple[Any, ...]:
    """By which items are compared, of the fields named by ``by``; what is null comes first."""
    return tuple(_comparable(value, name.startswith("-")) for value, name in zip(values, by, strict=True))


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
