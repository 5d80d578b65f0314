"""What devices reply to commands, in bounds: of each reply, and of all that are kept for as long as their commands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from iot_mqtt.devices.weights import json_of, weight_of
from iot_mqtt.ports.devices import StoredCommand, replace

#: Bytes in memory, about, of all replies; the oldest are forgotten first.
MAX_REPLIES = 64 * 1024**2
#: Characters of a detail that is cut.
BEGINNING: Final = 200
#: Bytes of a detail that do not count: those of the node itself are shorter.
_SHORT: Final = 256


def within(detail: str, values: Mapping[str, Any] | None, most: int) -> tuple[str, Mapping[str, Any] | None]:
    """A reply as it is, or its beginning and a word that there was more."""
    size = len(detail.encode("utf-8", "replace")) + (0 if values is None else len(json_of(values)))
    if size <= most:
        return detail, values
    return _shortened(detail, f"the reply is cut: it has {size} bytes, more than {most}"), None


def without_reply(record: StoredCommand) -> StoredCommand:
    """The same command, with a word instead."""
    return replace(record, detail=_shortened(record.detail, "the reply is not kept any more"), values=None)


class Replies:
    """Those of commands that are over."""

    __slots__ = ("_weights", "_order", "_total")

    def __init__(self) -> None:
        #: By owner and id of a command; what weighs nothing is not there.
        self._weights: dict[tuple[str, str], int] = {}
        #: Commands, oldest reply first; one that has none any more is passed over.
        self._order: deque[tuple[str, str]] = deque()
        self._total = 0

    def put(self, record: StoredCommand) -> None:
        """This is what is known of a command now."""
        self.forget(record)
        weight = len(record.detail) if len(record.detail) > _SHORT else 0
        weight += 0 if record.values is None else weight_of(json_of(record.values))
        if weight:
            command = record.owner, record.id
            self._weights[command] = weight
            self._order.append(command)
            self._total += weight

    def forget(self, record: StoredCommand) -> None:
        self._total -= self._weights.pop((record.owner, record.id), 0)

    def too_many(self) -> Iterator[tuple[str, str]]:
        """Commands whose replies have to go, by owner and id; they are forgotten here."""
        order = self._order
        while order and (self._total > MAX_REPLIES or order[0] not in self._weights):
            command = order.popleft()
            weight = self._weights.pop(command, None)
            if weight is not None:
                self._total -= weight
                yield command


def _shortened(detail: str, word: str) -> str:
    return f"{detail[:BEGINNING]}: {word}" if detail else word
