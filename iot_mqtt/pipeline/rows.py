"""Where events enter a pipeline, and where they go from one position of it. Who sees which is found in ``table``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mypy_extensions import mypyc_attr

from iot_mqtt.pipeline.reasons import CloseReason

__all__ = ["DEAD_ROW", "INBOUND", "OUTBOUND", "Ends", "Row"]

INBOUND = ("active", "inactive", "read", "read_complete", "writability_changed", "event", "failed")
OUTBOUND = ("write", "flush", "close", "set_reading")


class Row:
    """For one position: where each event goes from here."""

    __slots__ = (*INBOUND, *OUTBOUND, "completes", "direct")

    active: int
    inactive: int
    read: int
    read_complete: int
    writability_changed: int
    event: int
    failed: int
    write: int
    flush: int
    close: int
    set_reading: int

    #: Whether a stage wants to know of ``read_complete``: hardly any does, and it would come with every receive.
    completes: bool
    #: Whether writes and flushes go to the head at once.
    direct: bool

    def __init__(self, targets: Sequence[int], *, completes: bool = False, direct: bool = False) -> None:
        self.completes = completes
        self.direct = direct
        for event, target in zip(INBOUND + OUTBOUND, targets, strict=True):
            setattr(self, event, target)


#: For contexts of a pipeline that is no more: everything goes to the one context that swallows it.
DEAD_ROW = Row([0] * len(INBOUND + OUTBOUND))


@mypyc_attr(allow_interpreted_subclasses=True)
class Ends:
    """A pipeline, as its channel sees it: inbound events enter at the head, outbound ones at the tail."""

    __slots__ = ("row",)

    row: Row

    def fire_active(self) -> None:
        raise NotImplementedError

    def fire_inactive(self, reason: CloseReason | None) -> None:
        raise NotImplementedError

    def fire_read(self, batch: list[Any]) -> None:
        raise NotImplementedError

    def fire_read_complete(self) -> None:
        raise NotImplementedError

    def fire_writability(self, writable: bool) -> None:
        raise NotImplementedError

    def fire_event(self, event: object) -> None:
        raise NotImplementedError

    def fire_failed(self, error: BaseException) -> None:
        raise NotImplementedError

    def write(self, batch: list[Any]) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        raise NotImplementedError

    def close(self, reason: CloseReason) -> None:
        raise NotImplementedError

    def set_reading(self, on: bool) -> None:
        raise NotImplementedError

    def dismantle(self) -> None:
        raise NotImplementedError
