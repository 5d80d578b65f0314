"""Which user of a name somebody is: how many users of that name were deleted before. What was kept for one of them is
not the next one's.

    retired   │ name │ {"times": 1}      written before the user is deleted, so whoever sees that he is gone knows it
"""

from __future__ import annotations

import logging
from typing import Final

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.directory import RETIRED, Conflict, Directory, TooMuch

log = logging.getLogger(__name__)

#: As many names are remembered as there may be documents of a kind; then so many of the oldest are forgotten at once.
FORGOTTEN_AT_ONCE: Final = 100
_ATTEMPTS: Final = 5


class Generations:
    """Of the users in a directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def of(self, name: str) -> int:
        """Of whoever has the name now, or would have it if he was added."""
        document = self._directory.get(RETIRED, name)
        times = 0 if document is None else document.body.get("times")
        return times if isinstance(times, int) and times > 0 else 0

    async def end(self, name: str) -> None:
        """The user of this name is about to be deleted. Raises ``Unavailable``."""
        for _ in range(_ATTEMPTS):
            document = self._directory.get(RETIRED, name)
            version = 0 if document is None else document.version
            try:
                await self._directory.put(RETIRED, name, {"times": self.of(name) + 1}, version)
            except Conflict:
                await self._directory.refresh()
            except TooMuch:
                await self._forget()
            else:
                return
        raise Unavailable("others delete users at the same moment; try again")

    async def _forget(self) -> None:
        oldest = sorted(self._directory.of(RETIRED).values(), key=lambda one: one.version)[:FORGOTTEN_AT_ONCE]
        log.warning("that users were deleted is forgotten of %d names, from %r on", len(oldest), oldest[0].name)
        for document in oldest:
            await self._directory.delete(RETIRED, document.name)
