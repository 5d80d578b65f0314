"""Sessions whose clients are away, and what they are owed of a row of runs: a number for each, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.codec import PublishRun
from iot_mqtt.topics import Match

#: A reader of the log, and how many messages.
Owed = tuple[Any, int]


def owed_by(runs: Sequence[PublishRun], matches: Sequence[Match[Any]]) -> list[Owed] | None:
    """What each reader is to be owed once the row is in the log. None: somebody gets something of it now."""
    owed: list[Owed] = []
    for run, match in zip(runs, matches, strict=True):
        for route in match.plain:
            session = route.receiver
            cursor = session.cursor if isinstance(session, KeptSession) else None
            if cursor is None or cursor.live or not route.qos:
                return None
            owed.append((cursor, run.count))
    return owed


def owe(owed: list[Owed]) -> int:
    """It is in the log; how many messages that is, over all readers."""
    messages = 0
    for cursor, count in owed:
        cursor.owe(count)
        messages += count
    return messages
