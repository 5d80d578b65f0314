"""What devices report, in bounds of bytes: what waits to be written, and what was written last."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from iot_mqtt.devices.weights import json_of, weight_of
from iot_mqtt.ports.devices import StoredShadow, owner_of

#: Bytes in memory, about, of what waits to be written: of all clients, and of one.
MAX_WAITING = 256 * 1024**2
MAX_WAITING_OF_ONE = 64 * 1024**2
#: The same of what was written last, and of marks of differences. Of other devices it is read again.
REMEMBERED = 64 * 1024**2

#: What a target and a tag weigh by themselves.
_TARGET: Final = 300
_TAG: Final = 200

Value = TypeVar("Value")


class Waiting:
    """What was reported of one target since the last write, and by whose device."""

    __slots__ = ("values", "owner", "weight")

    def __init__(self, owner: str | None) -> None:
        #: Tag → (value, milliseconds, weight).
        self.values: dict[str, tuple[Any, int, int]] = {}
        self.owner = owner
        self.weight = 0


class Reports:
    """Those of all targets."""

    __slots__ = ("_waiting", "_total", "_of")

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._total = 0
        #: Bytes of each client.
        self._of: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, target: str) -> bool:
        return target in self._waiting

    def get(self, target: str) -> Waiting | None:
        return self._waiting.get(target)

    def first(self, count: int) -> list[str]:
        """Targets, in the order in which they began to wait."""
        return list(islice(self._waiting, count))

    def put(self, target: str, values: Mapping[str, Any], at: int, owner: str | None) -> bool:
        """Of each tag the latest value counts. False: there is no room, and nothing is kept."""
        found = self._waiting.get(target)
        waiting = Waiting(owner) if found is None else found
        fresh: dict[str, tuple[Any, int, int]] = {}
        added = 0 if found is not None else _TARGET + len(target)
        for tag, value in values.items():
            known = waiting.values.get(tag)
            if known is None or known[1] <= at:
                weight = _weight(tag, value)
                fresh[tag] = (value, at, weight)
                added += weight if known is None else weight - known[2]
        client = owner_of(target)
        of_client = self._of.get(client, 0) + added
        if added > 0 and (self._total + added > MAX_WAITING or of_client > MAX_WAITING_OF_ONE):
            return False
        waiting.values.update(fresh)
        waiting.weight += added
        self._waiting[target] = waiting
        self._total += added
        self._of[client] = of_client
        return True

    def pop(self, target: str) -> Waiting | None:
        """It waits no more."""
        found = self._waiting.pop(target, None)
        if found is not None:
            client = owner_of(target)
            self._total -= found.weight
            self._of[client] -= found.weight
            if not self._of[client]:
                del self._of[client]
        return found


class Recent(Generic[Value]):
    """The latest values by target, as many as weigh ``REMEMBERED``."""

    __slots__ = ("_values", "_total")

    def __init__(self) -> None:
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._total = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, target: str) -> Value | None:
        found = self._values.get(target)
        return None if found is None else found[0]

    def put(self, target: str, value: Value, weight: int) -> list[str]:
        """Those that made room for it; it may be among them."""
        self.forget(target)
        weight += _TARGET + len(target)
        self._values[target] = value, weight
        self._total += weight
        forgotten = []
        while self._total > REMEMBERED:
            oldest = next(iter(self._values))
            self.forget(oldest)
            forgotten.append(oldest)
        return forgotten

    def forget(self, target: str) -> bool:
        """Whether it was there."""
        found = self._values.pop(target, None)
        self._total -= 0 if found is None else found[1]
        return found is not None


class Reported:
    """What was written last."""

    __slots__ = ("_recent", "_of")

    def __init__(self) -> None:
        self._recent: Recent[StoredShadow] = Recent()
        #: The devices of each client.
        self._of: dict[str, set[str]] = {}

    def get(self, target: str) -> StoredShadow | None:
        return self._recent.get(target)

    def put(self, target: str, shadow: StoredShadow) -> None:
        self._of.setdefault(owner_of(target), set()).add(target)
        weight = weight_of(json_of(shadow.values)) + _TAG * len(shadow.times)
        for forgotten in self._recent.put(target, shadow, weight):
            self._forgotten(forgotten)

    def forget(self, target: str) -> None:
        if self._recent.forget(target):
            self._forgotten(target)

    def _forgotten(self, target: str) -> None:
        devices = self._of[owner_of(target)]
        devices.discard(target)
        if not devices:
            del self._of[owner_of(target)]

    def forget_all_of(self, client_id: str) -> None:
        for target in self._of.pop(client_id, ()):
            self._recent.forget(target)


class Differences:
    """Marks of those that were published last, of targets that have one. Where it is forgotten it is published anew."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: Recent[bytes] = Recent()

    def __contains__(self, target: str) -> bool:
        return self._marks.get(target) is not None

    def is_news(self, target: str, delta: Mapping[str, Any]) -> bool:
        """Whether it is another one than before; it is known from now on."""
        known = self._marks.get(target)
        if not delta:
            return self._marks.forget(target)
        mark = blake2b(json.dumps(delta, sort_keys=True).encode(), digest_size=16).digest()
        if mark == known:
            return False
        self._marks.put(target, mark, 0)
        return True


def _weight(tag: str, value: object) -> int:
    weight = _TAG + len(tag)
    if isinstance(value, str):
        return weight + len(value)
    return weight + weight_of(json_of({tag: value})) if isinstance(value, dict | list) else weight
