"""The figures that a node keeps of itself: sums over its lives, and how it was in the last week."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.loss_ledger import LossLedger, losses
from iot_mqtt.broker.views.slow_view import Place, SlowView
from iot_mqtt.broker.views.view import View
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.marks import GridMarks, kept_accounts
from iot_mqtt.metrics.history.history import History, HistoryInfo
from iot_mqtt.metrics.history.series import Facts
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.identity import LossIdentity, NodeAccounts
from iot_mqtt.ports.log import Breath
from iot_mqtt.ports.slow import SlowInfo
from iot_mqtt.ports.store import CommitOrder

#: Seconds between two looks at whether there is something to keep.
LOOK_SECONDS = 5.0


class NodeFigures:
    """``admin.figures_resources.FiguresPart`` of one life. It says nothing before ``begin``."""

    def __init__(self, history: Path, *, clustered: bool) -> None:
        """``history``: the file that it is in."""
        self._path = history
        self._clustered = clustered
        self._ledger: LossLedger | None = None
        self._grid: Grid | None = None
        self._number = 0
        self._view: View | None = None
        self._history: History | None = None
        self._slow: SlowView | None = None
        # The greatest lateness of the loop since the last sample.
        self._lag = 0.0

    async def begin(self, broker: Composition, view: View, grid: Grid, number: int, breathe: Breath) -> None:
        """Go on where the life before has ended; before anything is loaded. ``breathe``: when long lists go on."""
        ledger = LossLedger(GridMarks(grid, number), broker.counters, broker.clock, broker.turn.reserve)
        await ledger.load()
        # A mark that says what was taken over goes with the records that say it no more, and with no batch before them.
        broker.lifecycle.loading.when_whole(partial(broker.store.enlist, CommitOrder.LEDGER, ledger))
        self._ledger, self._view, self._grid, self._number = ledger, view, grid, number
        readers = broker.readers
        self._slow = SlowView(broker.sessions, readers.outflow, readers.logs, broker.clock, breathe)
        self._history = History(self._path, broker.clock, self._facts)

    def _facts(self) -> Facts:
        view, lag = self._begun(), self._lag
        self._lag = 0.0
        info = view.info()
        if self._ledger is not None:
            self._ledger.in_memory = info.in_memory
        return Facts(view.counters, info, view.log.info(), view.uplink(), lag)

    def _begun(self) -> View:
        if self._view is None:
            raise Unavailable("the node is starting")
        return self._view

    def late(self, seconds: float, _now: float) -> None:
        """The event loop was measured."""
        self._lag = max(self._lag, seconds)

    def sample(self) -> None:
        """Add to the history. Called every ``SAMPLE_SECONDS`` of ``metrics.history``."""
        if self._history is not None and self._view is not None and self._view.ready:
            self._history.sample()

    def history(self, names: Iterable[str], begin: float | None, end: float | None, step: int | None, /) -> HistoryInfo:
        """How the node was."""
        if self._history is None:
            raise Unavailable("the node is starting")
        return self._history.read(names, begin, end, step)

    def look(self) -> None:
        """Keep what is new. Called every ``LOOK_SECONDS``."""
        ledger, view = self._ledger, self._view
        if ledger is not None and view is not None:
            if ledger.unsettled and view.ready and not view.info().uncounted:
                ledger.settle()
            ledger.look()

    async def slow(self, after: Place | None, limit: int, connected: bool | None, /) -> list[SlowInfo]:
        """Who does not keep up."""
        if self._slow is None:
            raise Unavailable("the node is starting")
        return await self._slow.slow(after, limit, connected)

    def close(self) -> None:
        """The last batch of this life is about to be made."""
        if self._ledger is not None:
            self._ledger.close()
        self.abandon()

    def abandon(self) -> None:
        """Keep nothing more."""
        if self._history is not None:
            self._history.close()

    def identity(self) -> LossIdentity:
        """What became of messages."""
        view, ledger = self._begun(), self._ledger
        assert ledger is not None, "it comes with the view"
        info, counters, account = view.info(), view.counters, ledger.account
        comparable = not (self._clustered or info.uncounted or ledger.unsettled)
        return LossIdentity(
            node_id=info.node_id,
            matched=counters.messages_matched,
            restored=counters.messages_restored,
            delivered=counters.messages_delivered,
            waiting=info.waiting,
            handed_over=counters.messages_handed_over,
            dropped=losses(counters),
            uncounted=info.uncounted,
            unexplained=info.unexplained,
            account=account,
            between=account.between if comparable else None,
        )

    async def accounts(self) -> NodeAccounts:
        """What this node adds to the identity of the cluster."""
        view, ledger, grid = self._begun(), self._ledger, self._grid
        assert ledger is not None, "it comes with the view"
        assert grid is not None, "it comes with the view"
        kept = await kept_accounts(grid) if self._clustered else ()
        info, lost = view.info(), view.counters.readers_uncounted
        return NodeAccounts(self._number, info.unexplained, info.waiting, info.uncounted, ledger.account, kept, lost)
