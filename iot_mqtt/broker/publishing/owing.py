"""Sessions whose clients are away, and what they are owed of a row of runs: a number for each, and nothing else."""

from __future__ import annotations

from typing import Any

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.topics import Match

#: A reader of the log, and how many messages.
Owed = tuple[LogCursor, int]


def owed_by(counts: list[int], matches: list[Match[Any]]) -> list[Owed] | None:
    """What each reader is to be owed once a row is in the log: runs of so many messages each. None: somebody gets
    something of it now.
    """
    owed: list[Owed] = []
    for count, match in zip(counts, matches, strict=True):
        for route in match.plain:
            session = route.receiver
            cursor = session.cursor if isinstance(session, KeptSession) else None
            if cursor is None or cursor.live or not route.qos:
                return None
            owed.append((cursor, count))
    return owed


def owe(owed: list[Owed]) -> int:
    """It is in the log; how many messages that is, over all readers."""
    messages = 0
    for cursor, count in owed:
        cursor.owe(count)
        messages += count
    return messages
