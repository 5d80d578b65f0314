"""How many commands one gateway has that it has not dealt with; the others wait here, in their order.

Those that wait are not begun: they are queued, they can expire and be cancelled, and the broker keeps their messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Places:
    """Of one connection. ``until_answered``: a command has its place until it is over, not only until it is written."""

    __slots__ = ("until_answered", "_most", "_call_soon", "_taken", "_waiting", "_closed")

    def __init__(self, most: int, call_soon: Callable[[Callable[[], None]], None], *, until_answered: bool) -> None:
        self.until_answered = until_answered
        self._most = most
        self._call_soon = call_soon
        #: Ids of commands.
        self._taken: set[str] = set()
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._closed = False

    def take(self, command_id: str, begin: Callable[[], None]) -> None:
        """``begin`` is called when there is a place for the command, perhaps at once."""
        self._waiting.append((command_id, begin))
        self._fill()

    def free(self, command_id: str) -> None:
        """It needs its place no more. The next one gets it at the end of the turn, when whoever says this is done."""
        if command_id in self._taken:
            self._taken.discard(command_id)
            if self._waiting:
                self._call_soon(self._fill)

    def close(self) -> None:
        """Nothing is begun any more."""
        self._closed = True
        self._waiting.clear()

    def _fill(self) -> None:
        while self._waiting and not self._closed and len(self._taken) < self._most:
            command_id, begin = self._waiting.popleft()
            self._taken.add(command_id)
            begin()
