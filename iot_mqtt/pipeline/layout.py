"""Layouts: the form of a listener's pipelines, made once and built for every connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.ends import Ends
from iot_mqtt.pipeline.pipeline import Pipeline
from iot_mqtt.pipeline.stage import Stage
from iot_mqtt.pipeline.table import Table, table_of

__all__ = ["Layout", "StageFactory"]

StageFactory = Callable[[], Stage]


class Layout:
    """Named stage factories, head to tail::

    Layout([("timeout", lambda: ConnectTimeoutStage(10)), ("mqtt", MqttCodecStage), ("broker", make_broker_stage)])

    Each call of a factory must give a new stage (unless the stage keeps no state), always of the same class: the
    table of who sees what is looked up once.
    """

    __slots__ = ("entries", "_table")

    def __init__(self, entries: Iterable[tuple[str, StageFactory]]) -> None:
        self.entries = tuple(entries)
        names = [name for name, _ in self.entries]
        if len(set(names)) != len(names):
            raise ValueError(f"stage names must differ: {', '.join(names)}")
        self._table: Table | None = None

    def __add__(self, other: Layout) -> Layout:
        return Layout(self.entries + other.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stages, head to tail."""
        return tuple(name for name, _ in self.entries)

    def build(self, channel: Channel) -> Pipeline:
        """Make the stages and the pipeline of a new connection, and tell the stages."""
        stages = [(name, factory()) for name, factory in self.entries]
        table = self._table
        if table is None:
            table = self._table = table_of((Ends, *(type(stage) for _, stage in stages), Ends))
        pipeline = channel.pipeline = Pipeline(channel, stages, table)
        if table.with_added:
            pipeline.tell_stages_added(table.with_added)
        return pipeline
