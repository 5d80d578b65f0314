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
        #: By command; what weighs nothing is not there.
        self._weights: dict[str, int] = {}
        #: Commands, oldest reply first; one that has none any more is passed over.
        self._order: deque[str] = deque()
        self._total = 0

    def put(self, record: StoredCommand) -> None:
        """This is what is known of a command now."""
        self.forget(record.id)
        weight = len(record.detail) if len(record.detail) > _SHORT else 0
        weight += 0 if record.values is None else weight_of(json_of(record.values))
        if weight:
            self._weights[record.id] = weight
            self._order.append(record.id)
            self._total += weight

    def forget(self, command_id: str) -> None:
        self._total -= self._weights.pop(command_id, 0)

    def too_many(self) -> Iterator[str]:
        """Commands whose replies have to go; they are forgotten here."""
        order = self._order
        while order and (self._total > MAX_REPLIES or order[0] not in self._weights):
            command_id = order.popleft()
            if command_id in self._weights:
                self.forget(command_id)
                yield command_id


def _shortened(detail: str, word: str) -> str:
    return f"{detail[:BEGINNING]}: {word}" if detail else word
