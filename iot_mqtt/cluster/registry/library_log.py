"""What ZooKeeper's client library says of its attempts to connect: each thing once, with the server that it is about.

It tries every server anew several times a second: an election alone would be ten lines that name nobody. That a
connection is lost, and what that means, the registry says itself.
"""

from __future__ import annotations

import logging
from typing import Final

_TRIES: Final = "Connecting to "
_CONNECTED: Final = "Zookeeper connection established"
_ATTEMPTS: Final = ("Connection dropped: ", "Connection time-out: ")
#: Of what the registry says itself.
_TOLD_ELSEWHERE: Final = ("Transition to CONNECTING", "Zookeeper connection lost")


class LibraryLines(logging.Filter):
    """Of its logger. Called in kazoo's threads."""

    def __init__(self) -> None:
        super().__init__()
        self._server = "ZooKeeper"
        #: Since the last connection.
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith(_TRIES):
            self._server = text.removeprefix(_TRIES).partition(",")[0]
            return False
        if text in _TOLD_ELSEWHERE:
            return False
        if text.startswith((_CONNECTED, *_ATTEMPTS)):
            if text.startswith(_CONNECTED):
                self._told.clear()
            text = f"{self._server}: {text}"
            if text in self._told:
                return False
            self._told.add(text)
            record.msg, record.args = text, ()
        return True
