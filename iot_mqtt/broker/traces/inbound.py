"""Where watched clients leave the fast path: their connections are served by this, those of all others are not.

::

    any other client ─▶ ``Dispatch``
    a watched one    ─▶ ``TracedInbound`` ─ its messages one by one ─▶ ``Dispatch`` ─▶ ``TracedPublish``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iot_mqtt.broker.connections.connection import Connection, Inbound
from iot_mqtt.broker.publishing.batches import flattened
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.traces.runs import TracedRun, singles
from iot_mqtt.broker.traces.tracer import Tracer
from iot_mqtt.codec import PublishRun, RunBatch


class TracedInbound(Inbound):
    """An ``Inbound`` before another. ``sampled``: all messages are traced, not only those with a context."""

    __slots__ = ("_inbound", "_sampled")

    def __init__(self, inbound: Inbound, *, sampled: bool) -> None:
        self._inbound = inbound
        self._sampled = sampled

    def read(self, connection: Connection, batch: list[object]) -> None:
        items: list[object] = []
        for item in flattened(batch):
            if isinstance(item, PublishRun):
                items += singles(item, sampled=self._sampled)
            elif isinstance(item, RunBatch):
                runs = [single for run in item.runs for single in singles(run, sampled=self._sampled)]
                items.append(RunBatch(runs, item.served))
            else:
                items.append(item)
        self._inbound.read(connection, items)

    def pump(self, session: Session) -> None:
        self._inbound.pump(session)


class Watch:
    """Puts the connections of watched clients behind a ``TracedInbound``."""

    __slots__ = ("_tracer", "_all", "_some")

    def __init__(self, tracer: Tracer, inbound: Inbound) -> None:
        self._tracer = tracer
        self._all = TracedInbound(inbound, sampled=True)
        self._some = TracedInbound(inbound, sampled=False)

    def connected(self, connection: Connection) -> None:
        """A client was let in."""
        session = connection.session
        if session is None:
            return
        if self._tracer.samples(session.client_id):
            connection.serving = replace(connection.serving, inbound=self._all)
        elif self._tracer.trusts(connection.origin.user):
            connection.serving = replace(connection.serving, inbound=self._some)


class TracedPublish:
    """The handler of ``TracedRun``: that of all others, with a trace around it."""

    __slots__ = ("_tracer", "_serve")

    def __init__(self, tracer: Tracer, serve: Callable[[Connection, PublishRun], None]) -> None:
        self._tracer = tracer
        self._serve = serve

    def serve(self, connection: Connection, run: TracedRun) -> None:
        """One message of a watched client."""
        session = connection.session
        assert session is not None
        tracer = self._tracer
        trace = tracer.current = tracer.begin(run.run, session.client_id, connection.origin.user, sampled=run.sampled)
        try:
            self._serve(connection, run.run)
        finally:
            tracer.current = None
            if trace is not None:
                tracer.served(trace, held=connection.stash is not None)
