"""What waits, summed over the sessions and groups of a node: one pass each time somebody asks for the figures of it."""

from __future__ import annotations

from collections.abc import Iterable

from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.ports.log import TURN_BITS


class Tally:
    """Sums over all sessions and groups."""

    __slots__ = ("queued", "in_memory", "inflight", "released", "backlog", "uncounted", "largest", "furthest")

    def __init__(self) -> None:
        self.queued = self.inflight = self.released = self.in_memory = 0
        self.backlog = self.uncounted = self.largest = self.furthest = 0

    def add(self, cursor: LogCursor) -> None:
        """A reader that is behind."""
        waiting = cursor.owed
        if cursor.backlog is None:
            self.uncounted += 1
        elif not waiting:
            return
        self.backlog += waiting
        self.largest = max(self.largest, waiting)
        self.furthest = max(self.furthest, (cursor.log.end >> TURN_BITS) - (cursor.position >> TURN_BITS))


def tally(sessions: Iterable[Session], groups: SharedGroups) -> Tally:
    """One pass over everything; a session for which nothing waits costs a few comparisons."""
    found = Tally()
    for session in sessions:
        queued = len(session.queue)
        inflight = released = 0
        if session.outbound.entries:
            inflight, released = len(session.outbound), session.outbound.released
        if queued or inflight:
            found.queued += queued
            found.inflight += inflight
            found.released += released
            if not session.durable:
                found.in_memory += queued + inflight - released
        if session.replays or session.__class__ is not Session:
            for cursor in session.cursors():
                if not cursor.live:
                    found.add(cursor)
    for group in groups.parts():
        if not group.live:
            found.add(group)
    found.uncounted += groups.unplaced
    return found
