"""Why the log has no more what somebody was owed, for whom it is said."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Cause(StrEnum):
    """What has dropped it."""

    RETENTION = "the log's retention was over"
    OPERATOR = "an operator dropped them from the log"


def text_of(causes: Iterable[Cause]) -> str:
    """In words; of messages that were lost for several, nobody knows any more which for which."""
    return ", or ".join(sorted(causes, reverse=True))
