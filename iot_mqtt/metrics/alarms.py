"""The alarms of one life of a node: which go on and since when, and the last of those that are over.

The words of an alarm have figures in them that change from second to second, and the cause that was found last. Two
texts are of the same alarm if they differ in these only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from iot_mqtt.ports.alarms import Alarm, AlarmInfo

#: Alarms that are over and still shown.
KEPT: Final = 200
#: Those that go on, at once; of more only the first ones are known.
MOST: Final = 1000
LONGEST: Final = 500

#: A number that stands by itself, with its unit or without, and is no part of a name such as press-7.
_FIGURE: Final = re.compile(r"(?<![\w./:-])\d+(?:[.,]\d+)*(?:[num]?s|min|[hd]|[kKMGT]?i?B)?(?![\w/:-])")


class AlarmBook:
    """Looked at once a second, by whoever watches the node."""

    def __init__(self) -> None:
        self._going_on: dict[str, AlarmInfo] = {}
        self._over: deque[AlarmInfo] = deque(maxlen=KEPT)

    def look(self, alarms: Iterable[Alarm], now: float) -> tuple[list[AlarmInfo], list[AlarmInfo]]:
        """Those that are new, and those that are over. ``alarms``: all there are now."""
        before, found = self._going_on, dict[str, AlarmInfo]()
        for alarm in alarms:
            name = _FIGURE.sub("#", alarm.text.replace(alarm.cause, "", 1))
            if name not in found and len(found) < MOST:
                code, helps = alarm.kind.value
                since = before[name].since if name in before else now
                found[name] = AlarmInfo(code, alarm.text[:LONGEST], since, None, helps)
        self._going_on = found
        raised = [one for name, one in found.items() if name not in before]
        over = [replace(one, until=now) for name, one in before.items() if name not in found]
        self._over.extend(over)
        return sorted(raised, key=lambda one: one.text), sorted(over, key=lambda one: one.text)

    def items(self) -> list[AlarmInfo]:
        """Those that go on first, then those that are over; the newest of each first."""
        going_on = sorted(self._going_on.values(), key=lambda one: -one.since)
        return [*going_on, *reversed(self._over)]
