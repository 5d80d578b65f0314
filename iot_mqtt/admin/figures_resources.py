"""The resources about a node's own figures: what became of messages, and how the figures were before."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from iot_mqtt.admin.call import Call, Page, pair
from iot_mqtt.admin.errors import bad_request, bad_request_if
from iot_mqtt.admin.identity_sum import as_one
from iot_mqtt.admin.routes import Resource, combined, get, listing
from iot_mqtt.admin.schemas import Schemas, schema_of
from iot_mqtt.metrics.history.history import HistoryInfo, Wrong
from iot_mqtt.ports.identity import ClusterIdentity, LossIdentity, NodeAccounts
from iot_mqtt.ports.slow import SlowInfo


class FiguresPart(Protocol):
    """What a node says of itself in figures. Raises ``Unavailable`` before it has begun."""

    def identity(self) -> LossIdentity: ...

    async def accounts(self) -> NodeAccounts:
        """What it adds to the identity of the cluster."""
        ...

    def history(self, names: Iterable[str], begin: float | None, end: float | None, step: int | None, /) -> HistoryInfo:
        """Raises ``Wrong``."""
        ...

    async def slow(self, after: tuple[int, str] | None, limit: int, connected: bool | None, /) -> list[SlowInfo]:
        """Who does not keep up; ``after`` is (messages that wait, with a minus, client id)."""
        ...


class FiguresResources(Resource):
    """Of one node."""

    def __init__(self, figures: FiguresPart) -> None:
        self._figures = figures

    @get("identity", "What became of messages, summed: the loss identity.", "LossIdentity", spread="each")
    def _identity(self, call: Call) -> LossIdentity:
        return self._figures.identity()

    @combined(
        "identity/cluster",
        "What became of messages over all nodes and all their lives, as one sum; what cannot be known is named.",
        "ClusterIdentity",
        as_one,
    )
    async def _accounts(self, call: Call) -> NodeAccounts:
        return await self._figures.accounts()

    @get(
        "history",
        "Rates and levels of up to a week: series by their names with commas between (none: all), from and to in"
        " seconds since 1970, step in seconds.",
        "History",
        query=("series", "from", "to", "step"),
        spread="each",
    )
    def _history(self, call: Call) -> HistoryInfo:
        names = [name for name in call.query.get("series", "").split(",") if name]
        step = _seconds(call, "step")
        if step is not None and (step != int(step) or step < 1):
            raise bad_request("step must be a whole number of seconds")
        begin, end = _seconds(call, "from"), _seconds(call, "to")
        with bad_request_if(Wrong):
            return self._figures.history(names, begin, end, None if step is None else int(step))

    @listing(
        "slow",
        "For whom messages wait, or who does not read, and why; those for whom most waits first.",
        "Slow",
        "connected",
        spread="merge",
        by=("-waiting", "client_id"),
    )
    async def _slow(self, call: Call) -> Page:
        after = call.after_figure
        place = None if after is None else (-after[0], after[1])
        found = await self._figures.slow(place, call.limit + 1, call.flag("connected"))
        return call.page(found, lambda one: pair(str(one.waiting), one.client_id))

    def schemas(self) -> Schemas:
        return {
            "LossIdentity": schema_of(LossIdentity),
            "ClusterIdentity": schema_of(ClusterIdentity),
            "History": schema_of(HistoryInfo),
            "Slow": schema_of(SlowInfo),
        }


def _seconds(call: Call, name: str) -> float | None:
    text = call.query.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e11:
        raise bad_request(f"{name} must be a number of seconds, not {text!r}")
    return value
