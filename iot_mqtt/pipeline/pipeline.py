"""The pipeline of one connection: its contexts in order, and the ways to change them.

Stages may be added and removed at any time, also by a stage in the middle of an event: what travels
goes on from where it is, by the new order. A stage that removed itself may still fire; its events go to what
now stands where it stood.
"""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.ends import ENDS, Ends
from iot_mqtt.pipeline.rows import DEAD_ROW
from iot_mqtt.pipeline.stage import Context, Stage
from iot_mqtt.pipeline.table import Table, table_of

__all__ = ["Pipeline"]


class Pipeline(Context):
    """Built by a ``Layout``. It is the context of its own two ends, where events enter and leave."""

    __slots__ = ()

    def __init__(self, channel: Channel, stages: Sequence[tuple[str, Stage]], table: Table) -> None:
        # Of its length at once: one that grows has room for more, which each connection would keep.
        contexts: list[Context] = [self] * (len(stages) + 2)
        rows = table.rows
        self.channel = channel
        self.name = "ends"
        self.stage = ENDS
        self._contexts = contexts
        self.row = rows[0]
        position = 1
        for name, stage in stages:
            contexts[position] = Context(channel, name, stage, contexts, rows[position])
            position += 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stages, head to tail, without these two."""
        return tuple(context.name for context in self._contexts[1:-1])

    def get(self, name: str) -> Stage | None:
        """The stage of that name, or None."""
        context = self.context(name)
        return None if context is None else context.stage

    def context(self, name: str) -> Context | None:
        """The context of the stage of that name, or None."""
        for context in self._contexts:
            if context.name == name and context is not self:
                return context
        return None

    def __contains__(self, name: str) -> bool:
        return self.context(name) is not None

    def add_before(self, neighbour: str, name: str, stage: Stage) -> Context:
        """Add on the head's side of ``neighbour``."""
        return self._insert(self._position(neighbour), name, stage)

    def add_after(self, neighbour: str, name: str, stage: Stage) -> Context:
        """Add on the tail's side of ``neighbour``."""
        return self._insert(self._position(neighbour) + 1, name, stage)

    def remove(self, name: str) -> Stage:
        """Take a stage out and return it."""
        position = self._position(name)
        context = self._contexts[position]
        table = self._settle([*self._contexts[:position], *self._contexts[position + 1 :]])
        context.place(self._contexts, table.between(position, position - 1))
        context.tell_removed()
        return context.stage

    def tell_stages_added(self, positions: Sequence[int]) -> None:
        """Run ``added`` of the stages at these positions; the layout calls this once all are in place."""
        for context in [self._contexts[position] for position in positions]:
            context.tell_added()

    def dismantle(self) -> None:
        """Remove every stage from the tail down; the channel calls this after ``inactive``."""
        contexts, self._contexts = self._contexts, [self, self]
        for context in reversed(contexts[1:-1]):
            context.tell_removed()
        for context in contexts[:-1]:
            context.retire()
        self.channel.pipeline = ENDED

    def report(self, error: BaseException) -> None:
        """An exception that left an end: the stages are told, from the head on."""
        if self.stage is ENDS:
            self.fire_failed(error)
        else:
            super().report(error)

    def _insert(self, position: int, name: str, stage: Stage) -> Context:
        if name in self:
            raise ValueError(f"there is a stage {name!r} in this pipeline already")
        context = Context(self.channel, name, stage, [], DEAD_ROW)
        self._settle([*self._contexts[:position], context, *self._contexts[position:]])
        context.tell_added()
        return context

    def _settle(self, contexts: list[Context]) -> Table:
        table = table_of(tuple([type(context.stage) for context in contexts]))
        self._contexts = contexts
        for context, row in zip(contexts, table.rows, strict=True):
            context.place(contexts, row)
        return table

    def _position(self, name: str) -> int:
        for position, context in enumerate(self._contexts):
            if context.name == name and 0 < position < len(self._contexts) - 1:
                return position
        raise KeyError(f"no stage {name!r} in this pipeline: {', '.join(self.names) or 'there are none'}")

    def __repr__(self) -> str:
        return f"<Pipeline {' '.join(self.names)}>"


#: What a channel has after its connection ended: no stages, and events go nowhere.
ENDED = Pipeline(None, (), table_of((Ends, Ends)))  # type: ignore[arg-type]
ENDED.retire()
