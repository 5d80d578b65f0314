"""Messages of a node's log, for people: a page at a time, in the order in which they came.

The lists of several nodes are put together by the time at which messages came. So a page of another node's list says
where to go on here as a time, and one of this node's as a place.
"""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.broker.log_part import LoggedInfo, LoggedWanted
from iot_mqtt.broker.readers.replay import time_of
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.log import Breath, Log, LogRun
from iot_mqtt.topics import parse_replay, parse_shared, validate_filter

#: Messages and bytes of one reading of the log, and bytes of a payload that are shown.
READ_MESSAGES = 100
READ_BYTES = 128 * 1024
SHOWN = 1024


async def logged(log: Log, wanted: LoggedWanted, now: float, breathe: Breath) -> list[LoggedInfo]:
    """What is committed of those that are wanted. Raises ``Refused``."""
    _check(wanted.filter)
    since = _time(wanted.since, now)
    until = float("inf") if wanted.until is None else _time(wanted.until, now)
    behind, end = wanted.behind, log.committed_end
    if behind is None:
        position, later = await log.position_at(since), None
    elif behind.writer == log.writer:
        position, later = behind.position + 1, None
    else:
        position = await log.position_at(max(since, behind.came_at))
        later = behind.came_at
    found: list[LoggedInfo] = []
    while position < end:
        most = min(READ_MESSAGES, wanted.limit - len(found))
        reading = await log.read((wanted.filter,), position, most, READ_BYTES, all_up=True)
        for one in _messages(reading.runs, position, end):
            if one.came_at >= until:
                return found
            # A clock that was set back later on hides nothing.
            if later is not None and one.came_at <= later:
                continue
            later = None
            found.append(one)
            if len(found) == wanted.limit:
                return found
        if reading.at_end or reading.position <= position:
            break
        position = reading.position
        await breathe()
    return found


def _messages(runs: list[LogRun], begin: int, end: int) -> Iterator[LoggedInfo]:
    for run in runs:
        topic = run.topic.decode()
        for position, payload in enumerate(run.run.payloads(), run.position):
            if position >= end:
                return
            if position >= begin:
                shown = bytes(payload[:SHOWN])
                qos, writer = run.run.qos, run.reference.writer
                yield LoggedInfo(run.arrived, writer, position, topic, run.publisher, qos, len(payload), shown)


def _check(filter: str) -> None:
    validate_filter(filter)
    if parse_shared(filter) is not None or parse_replay(filter) is not None:
        raise Refused(f"{filter!r} must be a plain filter", ReasonCode.TOPIC_FILTER_INVALID)


def _time(text: str, now: float) -> float:
    # Digits alone are a place in some log, not the date that they could be.
    found = None if text.isdecimal() else time_of(text, now)
    if found is None:
        raise Refused(f"{text!r} is no duration or time", ReasonCode.TOPIC_FILTER_INVALID)
    return found
