"""Publishes that belong together: what a gateway's link hands over, which ends where a frame does.

::

    RunBatch ─▶ room on the disk? ─ no ─▶ all of it waits
                    └ yes ─▶ all of it is served, in this turn ─▶ ``served``: the frame's number, in the same commit

A link keeps to Receive Maximum as far as frames allow: what was begun goes on beyond it to the frame's end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.handlers.publish import PublishHandler
from iot_mqtt.broker.connections.handlers.publish_gate import PublishGate
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.codec import RunBatch


class WholeHandler:
    """Serves a batch whole, now or later. ``handlers``: of runs, by class."""

    __slots__ = ("_publish", "_gate", "_budget", "_handlers")

    def __init__(
        self,
        publish: PublishHandler,
        gate: PublishGate,
        budget: Budget,
        handlers: Mapping[type, Callable[[Connection, Any], None]],
    ) -> None:
        self._publish = publish
        self._gate = gate
        self._budget = budget
        self._handlers = handlers

    def serve(self, connection: Connection, batch: RunBatch) -> None:
        """Runs of a gateway."""
        if not (self._budget.full and self._gate.holds_runs(connection, batch)):
            self._budget.whole(partial(self._serve, connection, batch))

    def _serve(self, connection: Connection, batch: RunBatch) -> None:
        if self._gate.takes_runs(connection, batch):
            self._publish.serve_runs(connection, batch)
        else:
            for run in batch.runs:
                self._handlers[type(run)](connection, run)
        batch.served()
