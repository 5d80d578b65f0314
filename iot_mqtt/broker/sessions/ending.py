"""The end of a session here, in one of three ways: for good, when its time is over, or because another node has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.sessions.keeping import Keeping
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.turn import Turn
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.endings import SESSION_EXPIRED, end_text
from iot_mqtt.session import SENT_QOS1, SENT_QOS2, Delivery, Flight, Outbound
from iot_mqtt.topics import SharedGroup


@dataclass(frozen=True, slots=True, eq=False)
class PassingOn:
    """Empties sessions."""

    groups: SharedGroups
    fan_out: FanOut
    counters: Counters
    clock: Clock

    def empty(self, session: Session, why: str) -> None:
        """Nothing is left of it; ``why`` it ended, of ``ports.endings``."""
        self.groups.forget(session)
        if not (session.outbound or session.queue or session.replays or isinstance(session, KeptSession)):
            session.outbound.limit = 0
            return
        now = self.clock.wall()
        entries = session.outbound.entries.values()
        left = [entry for entry in entries if isinstance(entry, Delivery)]
        # Sent, kept by nobody, and not confirmed.
        lost = sum(1 for entry in entries if entry is SENT_QOS1 or entry is SENT_QOS2 or isinstance(entry, Flight))
        for cursor in session.cursors():
            lost += cursor.owed
            self.counters.readers_uncounted += cursor.backlog is None
        left.extend(session.queue.take_all())
        session.outbound = Outbound(0)
        for delivery in left:
            origin = delivery.origin
            # [MQTT-4.8.2-5] a QoS 2 exchange that began with one member is never continued with another.
            if isinstance(origin, SharedGroup) and not (delivery.qos == 2 and delivery.sent) and origin:
                if delivery.expired(now):
                    self.counters.dropped[Drop.EXPIRED] += 1
                else:
                    publication = publication_of(delivery.message, now)
                    publication.wait(now)
                    self.fan_out.redispatch(publication, origin)
            else:
                lost += 1
        if lost:
            self.counters.dropped[Drop.SESSION_ENDED] += lost
            # Many a client without a session that is kept leaves something behind each time.
            weak = not isinstance(session, KeptSession)
            self.counters.recent.note(
                session.client_id, Drop.SESSION_ENDED, count=lost, detail=end_text(why), weak=weak
            )


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """Ends sessions, for whatever reason."""

    sessions: Sessions
    subscriptions: Subscriptions
    keeping: Keeping
    wills: Wills
    passing_on: PassingOn
    accompaniment: Accompaniment

    def end(self, session: Session, reason: ReasonCode, why: str) -> None:
        """Forget everything of a session; its will goes out now at the latest [MQTT-3.1.3-9].

        ``reason``: what its connection is closed with; ``why``: a name of ``ports.endings``.
        """
        if session.ended:
            return
        session.ended = True
        self.sessions.others.changed(session)
        if session.connection is not None:
            session.connection.disconnect(reason)
            session.connection = None
        if isinstance(session, KeptSession) and session.expiry_timer is not None:
            session.expiry_timer.cancel()
        self.subscriptions.drop_all(session)
        self.sessions.remove(session)
        self.keeping.ended(session)
        self.wills.session_ended(session)
        self.passing_on.empty(session, why)
        self.accompaniment.by.session_ended(session.client_id)
        session.close_readers()


@dataclass(frozen=True, slots=True, eq=False)
class Expiry:
    """Ends them."""

    ending: Ending
    attempts: Attempts
    wheel: TimingWheel
    turn: Turn

    def end_after(self, session: KeptSession, seconds: float) -> None:
        """End the session unless it is connected again by then."""
        session.expiry_timer = self.wheel.schedule(max(0.0, seconds), lambda: self.expire(session))

    def end(self, session: Session) -> None:
        """Its time is over."""
        self.ending.end(session, ReasonCode.SUCCESS, SESSION_EXPIRED)

    def expire(self, session: KeptSession) -> None:
        """Its interval is over: end it, unless it is connected."""
        session.expiry_timer = None
        if session.connection is None and not session.ended:
            self.attempts.ended(session.client_id, session.user, SESSION_EXPIRED)
            self.end(session)
            self.turn.plan()


class Progress(Protocol):
    """What is kept of a session's way through the log."""

    def write_down(self, session: KeptSession) -> None:
        """All that has changed of it, now."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Hands sessions over."""

    sessions: Sessions
    subscriptions: Subscriptions
    progress: Progress
    accompaniment: Accompaniment
    counters: Counters
    turn: Turn

    def hand_over(self, session: KeptSession) -> None:
        """Forget a session in memory, and leave every record: another node goes on with it (``Arriving``).

        Its connection is gone. What has changed of it is staged with the next batch: the other node may begin once
        the store is settled.
        """
        session.ended = True
        owed = sum(cursor.owed for cursor in session.cursors())
        self.counters.messages_handed_over += session.waiting + owed
        # No other node can go on with a replay of this one's log.
        self.counters.messages_passed_on += session.waiting + sum(cursor.owed for cursor in session.plain_cursors())
        for timer in (session.expiry_timer, session.will_timer):
            if timer is not None:
                timer.cancel()
        session.expiry_timer = session.will_timer = None
        # What it remembers of groups elsewhere is forgotten with it.
        self.progress.write_down(session)
        self.subscriptions.let_go(session)
        session.close_readers()
        session.readers = None
        # What is under way refers to the session: a cycle, and memory until everything is searched for such.
        session.outbound = Outbound(0)
        self.sessions.remove(session)
        self.accompaniment.by.session_left(session.client_id)
        self.turn.plan()
