"""Files that people change while a node runs, looked at again and again: they may be slow, so a thread looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from iot_mqtt.app.node.directory import Following
from iot_mqtt.app.slow_files import SlowFiles

#: Seconds after which the log says that they cannot be seen.
PATIENCE: Final = 10.0


class Look(Protocol):
    """Looks, in any thread; what it returns puts in force what it has found, in the reactor's."""

    def __call__(self, *, changed_only: bool) -> Callable[[], object]: ...


class FileLooks:
    """One look at a time."""

    def __init__(self, look: Look, reactor: Any, what: str) -> None:
        """``what`` is looked at, for the log."""
        self._look = look
        #: How often somebody has asked for all of them to be read, and how many of these have what they asked for.
        self._asked = self._answered = 0
        self._files = SlowFiles(self._read, reactor, PATIENCE, what)
        self._following = Following(self._renew, what)

    def look(self) -> None:
        """Read again what has changed; called regularly."""
        self._following.look()

    async def reload(self) -> None:
        """Read all of them again, not before this was called. Raises ``Unavailable``."""
        self._asked += 1
        asked = self._asked
        while self._answered < asked:
            await self._renew()

    async def _renew(self) -> None:
        asked, take = await self._files.read()
        take()
        self._answered = max(self._answered, asked)

    def _read(self) -> tuple[int, Callable[[], object]]:
        asked = self._asked
        return asked, self._look(changed_only=asked == self._answered)
