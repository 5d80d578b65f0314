"""The figures that a node keeps of itself: sums over its lives."""

from __future__ import annotations

from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.loss_ledger import LossLedger, losses
from iot_mqtt.broker.views.view import View
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.marks import GridMarks
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.identity import LossIdentity
from iot_mqtt.ports.store import CommitOrder

#: Seconds between two looks at whether there is something to keep.
LOOK_SECONDS = 5.0


class NodeFigures:
    """``admin.figures_resources.FiguresPart`` of one life. It says nothing before ``begin``."""

    def __init__(self, *, clustered: bool) -> None:
        self._clustered = clustered
        self._ledger: LossLedger | None = None
        self._view: View | None = None

    async def begin(self, broker: Composition, view: View, grid: Grid, number: int) -> None:
        """Go on where the life before has ended; before anything is loaded."""
        ledger = LossLedger(GridMarks(grid, number), broker.counters, broker.clock, broker.turn.reserve)
        await ledger.load()
        broker.store.enlist(CommitOrder.LEDGER, ledger)
        self._ledger, self._view = ledger, view

    def look(self) -> None:
        """Keep what is new. Called every ``LOOK_SECONDS``."""
        ledger, view = self._ledger, self._view
        if ledger is not None and view is not None:
            if ledger.unsettled and view.ready and not view.info().uncounted:
                ledger.settle()
            ledger.look()

    def close(self) -> None:
        """The last batch of this life is about to be made."""
        if self._ledger is not None:
            self._ledger.close()

    def identity(self) -> LossIdentity:
        """What became of messages."""
        ledger, view = self._ledger, self._view
        if ledger is None or view is None:
            raise Unavailable("the node is starting")
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
