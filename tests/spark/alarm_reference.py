"""What the alarm job must find, in plain Python: one reading after the other, one series at a time.

It knows nothing of batches. The job, whatever batches it gets, must find the same if each series comes in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from iot_spark.alarm_rules import AlarmRule


class Reading(NamedTuple):
    """A row of ``clean``, as far as alarms look at it. Times are milliseconds."""

    ts: int
    value: float | None
    device: str = "press"
    tag: str = "t"
    gateway: str = "gw"
    ingest: int | None = None
    quality: str = "good"

    @property
    def arrived(self) -> int:
        """When it came; if it does not say, at once."""
        return self.ts if self.ingest is None else self.ingest


class Change(NamedTuple):
    """An alarm is raised or cleared."""

    rule: str
    device: str
    tag: str
    state: str
    at: int
    started: int
    value: float | None


def changes(readings: Iterable[Reading], rules: Iterable[AlarmRule], clock: int) -> list[Change]:
    """All changes until ``clock``."""
    found: list[Change] = []
    series: dict[tuple[str, str, str], list[Reading]] = defaultdict(list)
    for rule in rules:
        series.clear()
        for reading in readings:
            if _matches(rule, reading):
                tag = "" if rule.whole_device else reading.tag
                series[reading.gateway, reading.device, tag].append(reading)
        for (_, device, tag), own in series.items():
            judge = _silence if rule.kind == "missing" else _level
            found += [Change(rule.name, device, tag, *one) for one in judge(own, rule, clock)]
    return sorted(found, key=_order)


def _order(change: Change) -> tuple[object, ...]:
    return (change.rule, change.device, change.tag, change.started, change.state != "raised")


def _matches(rule: AlarmRule, reading: Reading) -> bool:
    return all(
        any(fnmatchcase(getattr(reading, name), pattern) for pattern in getattr(rule.match, name))
        for name in ("gateway", "device", "tag")
    )


Found = list[tuple[str, int, int, float | None]]


def _silence(readings: Sequence[Reading], rule: AlarmRule, clock: int) -> Found:
    found: Found = []
    arrivals = sorted(reading.arrived for reading in readings)
    limit = round(rule.hold * 1000)
    for begin, end in zip(arrivals, [*arrivals[1:], None], strict=True):
        if (clock if end is None else end) - begin >= limit:
            found.append(("raised", begin + limit, begin, None))
            if end is not None:
                found.append(("cleared", end, begin, None))
    return found


def _level(readings: Sequence[Reading], rule: AlarmRule, clock: int) -> Found:
    """The state machine: ok, pending since a reading, active, and ok again."""
    found: Found = []
    pending: tuple[int, float] | None = None
    active = False
    hold = round(rule.hold * 1000)
    seen: list[tuple[int, float]] = []
    for reading in readings:
        if reading.value is None or reading.quality in ("bad", "stale"):
            continue
        at = min(reading.ts, reading.arrived)
        value = _rate(seen, at, reading.value, round(rule.per * 1000)) if rule.kind == "rate" else reading.value
        seen.append((at, reading.value))
        if pending is not None and not active and at - pending[0] >= hold:
            found.append(("raised", pending[0] + hold, *pending))
            active = True
        signal = None if value is None else _signal(value, rule)
        if value is None or signal is None:
            continue
        if signal and pending is None:
            pending = (at, value)
            if hold == 0:
                found.append(("raised", at, *pending))
                active = True
        elif not signal and pending is not None:
            if active:
                found.append(("cleared", at, pending[0], value))
            pending, active = None, False
    if pending is not None and not active and clock - pending[0] >= hold:
        found.append(("raised", pending[0] + hold, *pending))
    return found


def _rate(seen: Sequence[tuple[int, float]], at: int, value: float, per: int) -> float | None:
    older = [one for one in seen if one[0] <= at - per]
    if not older:
        return None
    before, was = older[-1]
    return (value - was) / ((at - before) / 1000)


def _signal(value: float, rule: AlarmRule) -> bool | None:
    assert rule.clear is not None
    if rule.above is not None:
        return True if value > rule.above else False if value <= rule.clear else None
    assert rule.below is not None
    return True if value < rule.below else False if value >= rule.clear else None
