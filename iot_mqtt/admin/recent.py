"""What was answered a moment ago, for those who say how old an answer may be: ``Cache-Control: max-age``.

Twenty browsers with one page open ask the same every two seconds, and figures of ten thousand clients are added up for
each. They need not be: an answer is kept for whoever asks the same with the same rights, and takes one that old.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

from iot_mqtt.admin.json_text import JsonText, as_json
from iot_mqtt.admin.routes import Answered
from iot_mqtt.admin.streams import Stream

#: Answers that are kept, and bytes of one: larger ones are made anew.
MOST, LARGEST = 64, 64 * 1024
_MAX_AGE = re.compile(r"max-age=([0-9]{1,2})")


def age_of(cache_control: str | None) -> int:
    """How old an answer may be, in seconds, as a header says it; 0: it has to be new."""
    found = _MAX_AGE.fullmatch(cache_control or "")
    return 0 if found is None else int(found[1])


class _Kept(NamedTuple):
    asked_at: float
    answer: JsonText


class RecentAnswers:
    """Of one node."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        #: The oldest first.
        self._kept: dict[Hashable, _Kept] = {}

    def answer(self, key: Hashable, age: int, ask: Callable[[], object]) -> object:
        """The last answer if it is not older than ``age`` seconds, or a new one, perhaps to be awaited.

        ``key``: what is asked, and all that the answer depends on.
        """
        now, kept = self._now(), self._kept.get(key)
        if kept is not None and now - kept.asked_at <= age:
            return kept.answer
        outcome = ask()
        return self._later(key, now, outcome) if isinstance(outcome, Awaitable) else self._keep(key, now, outcome)

    async def _later(self, key: Hashable, asked_at: float, outcome: Awaitable[object]) -> object:
        return self._keep(key, asked_at, await outcome)

    def _keep(self, key: Hashable, asked_at: float, value: object) -> object:
        if value is None or isinstance(value, Answered | Stream):
            return value
        answer = value if isinstance(value, JsonText) else JsonText(as_json(value))
        self._kept.pop(key, None)
        if len(answer.text) <= LARGEST:
            if len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _Kept(asked_at, answer)
        return answer
