"""Who sees which event: computed once per sequence of stage classes, shared by all pipelines of that form.

For each position there is a ``Row`` with, per event, the position of the next stage that overrides it: the
next one towards the tail for inbound events, towards the head for outbound ones. Firing an event is then one
index into the pipeline's list of contexts.
"""

from __future__ import annotations

from iot_mqtt.pipeline.rows import INBOUND, OUTBOUND, Row
from iot_mqtt.pipeline.stage import Stage

__all__ = ["Table", "overrides", "table_of"]

Classes = tuple[type[Stage], ...]


def overrides(stage_class: type[Stage], method: str) -> bool:
    """Whether a class has its own version of a ``Stage`` method."""
    return getattr(stage_class, method) is not getattr(Stage, method)


class Table:
    """The rows of one sequence of classes, head and tail included."""

    __slots__ = ("classes", "rows", "with_added", "_between")

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self._between: dict[tuple[int, int], Row] = {}
        last = len(classes) - 1
        inner = [self.between(position + 1, position - 1) for position in range(1, last)]
        #: Head and tail are one context, which sends inbound events from the head and outbound ones from the tail.
        ends = self.between(1, last - 1)
        self.rows = (ends, *inner, ends)
        self.with_added = tuple(i for i, each in enumerate(classes) if overrides(each, "added"))

    def between(self, above: int, below: int) -> Row:
        """The row of somebody who sends inbound events to ``above`` and on, outbound ones to ``below`` and on.

        A stage that was removed while an event passes through it stands between two positions.
        """
        row = self._between.get((above, below))
        if row is None:
            row = self._between[above, below] = self._make(above, below)
        return row

    def _make(self, above: int, below: int) -> Row:
        inbound = [self._first(event, range(above, len(self.classes)), len(self.classes) - 1) for event in INBOUND]
        outbound = [self._first(event, range(below, -1, -1), 0) for event in OUTBOUND]
        return Row(
            inbound + outbound,
            completes=inbound[INBOUND.index("read_complete")] < len(self.classes) - 1,
            direct=not (outbound[OUTBOUND.index("write")] or outbound[OUTBOUND.index("flush")]),
        )

    def _first(self, event: str, positions: range, otherwise: int) -> int:
        return next((i for i in positions if overrides(self.classes[i], event)), otherwise)


_tables: dict[Classes, Table] = {}


def table_of(classes: Classes) -> Table:
    """The table of a sequence of stage classes. A program has few of them, so each is kept."""
    table = _tables.get(classes)
    if table is None:
        table = _tables[classes] = Table(classes)
    return table
