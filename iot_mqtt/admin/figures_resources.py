"""The resources about a node's own figures: what became of messages, and how the figures were before."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.routes import Resource, get
from iot_mqtt.admin.schemas import Schemas, schema_of
from iot_mqtt.metrics.history.history import HistoryInfo, Wrong
from iot_mqtt.ports.identity import LossIdentity


class FiguresPart(Protocol):
    """What a node says of itself in figures. Raises ``Unavailable`` before it has begun."""

    def identity(self) -> LossIdentity: ...

    def history(self, names: Iterable[str], begin: float | None, end: float | None, step: int | None, /) -> HistoryInfo:
        """Raises ``Wrong``."""
        ...


class FiguresResources(Resource):
    """Of one node."""

    def __init__(self, figures: FiguresPart) -> None:
        self._figures = figures

    @get("identity", "What became of messages, summed: the loss identity.", "LossIdentity", spread="each")
    def _identity(self, call: Call) -> LossIdentity:
        return self._figures.identity()

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
        try:
            begin, end = _seconds(call, "from"), _seconds(call, "to")
            return self._figures.history(names, begin, end, None if step is None else int(step))
        except Wrong as error:
            raise bad_request(str(error)) from error

    def schemas(self) -> Schemas:
        return {"LossIdentity": schema_of(LossIdentity), "History": schema_of(HistoryInfo)}


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
