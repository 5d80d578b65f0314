"""Change listeners, as every grid keeps them: told after the commit, in the order of the operations."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iot_mqtt.ports.grid import CacheName, ChangeListener

log = logging.getLogger(__name__)

Operation = tuple[CacheName, bytes, "bytes | None"]


class Watching:
    """One registered listener; ``stop`` works at once, also from inside a notification."""

    __slots__ = ("prefix", "listener", "active", "_siblings")

    def __init__(self, prefix: bytes, listener: ChangeListener, siblings: list[Watching]) -> None:
        self.prefix = prefix
        self.listener = listener
        self.active = True
        self._siblings = siblings

    def stop(self) -> None:
        if self.active:
            self.active = False
            self._siblings.remove(self)


class Watchers:
    """The listeners of one grid. A listener that raises is logged and hinders nobody."""

    def __init__(self) -> None:
        self._by_cache: dict[CacheName, list[Watching]] = {}

    def add(self, cache: CacheName, listener: ChangeListener, prefix: bytes) -> Watching:
        siblings = self._by_cache.setdefault(cache, [])
        watching = Watching(prefix, listener, siblings)
        siblings.append(watching)
        return watching

    def tell(self, operations: Iterable[Operation]) -> None:
        """Tell each listener what it asked for. Costs nothing while nobody listens."""
        if not self._by_cache:
            return
        for cache, key, value in operations:
            for watching in tuple(self._by_cache.get(cache, ())):
                if watching.active and key.startswith(watching.prefix):
                    _notify(watching.listener, key, value)


def _notify(listener: ChangeListener, key: bytes, value: bytes | None) -> None:
    try:
        listener(key, value)
    except Exception:
        log.exception("a grid listener failed")
