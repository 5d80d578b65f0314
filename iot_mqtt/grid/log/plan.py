"""Which pages a reader may want: turns, with their streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import overload

from iot_mqtt.grid.log.generation import Stream

#: A turn, and the streams with pages in it that may be wanted.
Row = tuple[int, list[Stream]]
#: In the order of the turns.
Plan = Sequence[Row]


class Column(Sequence[Row]):
    """The plan of a reader that wants one stream, as who reads one topic: nothing is made for each turn. ``turns`` are
    in their order.
    """

    __slots__ = ("stream", "turns", "_streams")

    def __init__(self, stream: Stream, turns: Sequence[int]) -> None:
        self.stream = stream
        self.turns = turns
        self._streams = [stream]

    def __len__(self) -> int:
        return len(self.turns)

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Column: ...

    def __getitem__(self, at: int | slice) -> Row | Column:
        return Column(self.stream, self.turns[at]) if isinstance(at, slice) else (self.turns[at], self._streams)

    def from_turn(self, turn: int) -> Column:
        """What of it is not before a turn."""
        start = bisect_left(self.turns, turn)
        return self[start:] if start else self


def planned(base: int, wanted: Sequence[tuple[Stream, Iterable[int]]]) -> Plan:
    """Of the turns of one block, which are ascending and counted from ``base``, by stream."""
    if len(wanted) == 1:
        stream, turns = wanted[0]
        return Column(stream, [base + low for low in turns])
    rows: dict[int, list[Stream]] = {}
    for stream, turns in wanted:
        for low in turns:
            rows.setdefault(base + low, []).append(stream)
    return sorted(rows.items(), key=_first)


def from_turn(plan: Plan, turn: int) -> Plan:
    """What of a plan is not before a turn."""
    if isinstance(plan, Column):
        return plan.from_turn(turn)
    return plan[bisect_left(plan, turn, key=_first) :]


def weight(plan: Plan) -> int:
    """What it takes to keep it, in pages, about."""
    return 1 + (len(plan) if isinstance(plan, Column) else sum([1 + len(streams) for _, streams in plan]))


def _first(row: Row) -> int:
    return row[0]
