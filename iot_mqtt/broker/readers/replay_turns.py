"""Replays that have not reached the present: how many there may be, and whose turn it is to read the log.

    session A: r1 r2 r3 ─┐
    session B: r4       ─┼─▶ one read of each session at a time, of so many sessions at once
    session C: r5 r6    ─┘

A few hundred bytes of SUBSCRIBE ask for hundreds of reads of a megabyte each. So the reads take turns, session by
session, and what all of them have in memory is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from iot_mqtt.broker.log_cursor import READ_BYTES
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.errors import ReasonCode, Refused


class Replay(Protocol):
    """One replay of one session."""

    session: Session

    def can_read(self) -> bool:
        """Whether there is something to read, and room for it."""
        ...

    def read_in_turn(self) -> None:
        """It is its turn. At the end of the read ``read_ended`` has to be called."""
        ...


class ReplayTurns:
    """Of all replays of a node."""

    __slots__ = ("behind", "_call_soon", "_going_on", "_most", "_most_each", "_reading", "_slots", "_waiting")

    def __init__(self, settings: MqttSettings, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self.limit(settings)
        self._call_soon = call_soon
        #: Replays of connected clients that are to read on.
        self.behind: set[object] = set()
        #: Who waits, by session, in the order of turns.
        self._waiting: dict[Session, deque[Replay]] = {}
        self._reading: set[Session] = set()
        self._going_on = False

    def limit(self, settings: MqttSettings) -> None:
        """So many from now on; those that there are go on."""
        self._most = settings.max_replays
        self._most_each = settings.max_replays_per_client
        self._slots = max(1, settings.replay_bytes // READ_BYTES)

    def admit(self, session: Session) -> None:
        """Refuse a further replay of a session where it is one too many."""
        if len(session.replays or ()) >= self._most_each:
            raise Refused("too many replays of this client", ReasonCode.QUOTA_EXCEEDED)
        if len(self.behind) >= self._most:
            raise Refused("too many replays at once", ReasonCode.QUOTA_EXCEEDED)

    def begun(self, replay: object) -> None:
        """It is not in the present."""
        self.behind.add(replay)

    def over(self, replay: object) -> None:
        """It has reached the present, or nobody is there to read for."""
        self.behind.discard(replay)

    def ask(self, replay: Replay) -> None:
        """Read when it is its turn."""
        self.behind.add(replay)
        queue = self._waiting.setdefault(replay.session, deque())
        if replay not in queue:
            queue.append(replay)
        if not self._going_on:
            self._go_on()

    def read_ended(self, replay: Replay) -> None:
        """The next one may read, in the next turn of the reactor."""
        session = replay.session
        self._reading.discard(session)
        if session in self._waiting:
            # Behind those that have not had a turn meanwhile.
            self._waiting[session] = self._waiting.pop(session)
        if self._waiting and not self._going_on:
            self._going_on = True
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        while len(self._reading) < self._slots:
            session = next((one for one in self._waiting if one not in self._reading), None)
            if session is None:
                return
            queue = self._waiting.pop(session)
            replay = queue.popleft()
            if queue:
                self._waiting[session] = queue
            if replay.can_read():
                self._reading.add(session)
                replay.read_in_turn()
