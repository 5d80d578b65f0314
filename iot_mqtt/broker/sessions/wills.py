"""Wills: kept from CONNECT on, published when their connection or session ends without a farewell."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.broker.publishing.steps import Absent, Sender
from iot_mqtt.broker.session import Session
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.access import Permissions, form_of, principal_of, user_of
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import Store, StoredWill
from iot_mqtt.values import Message, Standing, Will

logger = logging.getLogger(__name__)

#: Calls the third with the rights that a session's owner has now, or the fourth.
RightsOf = Callable[[Session, Standing, Callable[[Permissions], None], Callable[[BaseException], None]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Wills:
    """The wills of this node's sessions.

    A will has a record from CONNECT until it is cancelled or published, whatever its session: a node that
    is killed has broken the connections, and its next start publishes what they left.
    """

    store: Store
    budget: Budget
    clock: Clock
    wheel: TimingWheel
    publish: Callable[[Session, Will], None]

    def set(self, session: Session, will: Will | None) -> None:
        """A CONNECT brought a will or none; one that waits out its delay is not sent [MQTT-3.1.3-9]."""
        if session.will is not None:
            self.cancel(session)
        session.will = will
        if will is not None:
            self.store.save_will(session.client_id, StoredWill(will, None, session.owner))
            self.budget.added(len(will.message.payload))

    def cancel(self, session: Session) -> None:
        """Forget the will [MQTT-3.1.2-10]."""
        if isinstance(session, KeptSession) and session.will_timer is not None:
            session.will_timer.cancel()
            session.will_timer = None
        if session.will is not None:
            session.will = None
            self.store.remove_will(session.client_id)

    def connection_lost(self, session: KeptSession) -> None:
        """Publish it, now or after its delay (never later than the session ends) [MQTT-3.1.2-8]."""
        will = session.will
        if will is None:
            return
        if will.delay == 0:
            self._go(session)
            return
        self.store.save_will(session.client_id, StoredWill(will, self.clock.wall() + will.delay, session.owner))
        session.will_timer = self.wheel.schedule(will.delay, lambda: self.delay_over(session))

    def delay_over(self, session: KeptSession) -> None:
        """The client is not back."""
        self._go(session)

    def session_ended(self, session: Session) -> None:
        """No session, no delay."""
        self._go(session)

    def _go(self, session: Session) -> None:
        will = session.will
        if will is not None:
            self.cancel(session)
            self.publish(session, will)


@dataclass(frozen=True, slots=True, eq=False)
class WillPublishing:
    """Publishes wills whose time has come, unless the right to it is gone since CONNECT."""

    publishing: Publishing
    rights_of: RightsOf
    counters: Counters
    clock: Clock

    def publish(self, session: Session, will: Will) -> None:
        """Publish one that is not the session's any more."""
        client_id, owner = session.client_id, session.owner
        if owner is None:
            # Kept before there were owners; it was allowed at CONNECT.
            self._send(client_id, will, "", None)
        else:
            judged, failed = partial(self._judged, client_id, owner, will), partial(self._not_judged, client_id)
            self.rights_of(session, will.standing, judged, failed)

    def _judged(self, client_id: str, owner: str, will: Will, permissions: Permissions) -> None:
        topic = will.message.topic.decode()
        form = form_of(will.message.qos << 1 | will.message.retain)
        if permissions.unrestricted or permissions.forms(topic) & form:
            self._send(client_id, will, owner, Absent(permissions, principal_of(client_id, owner, will.standing)))
            return
        self.counters.denied["will"] += 1
        self.counters.recent.note(client_id, "denied_will", topic, detail="when it was due")
        logger.warning(
            "a will was not published: the right to it is gone",
            extra={"client": client_id, "user": user_of(owner) or None, "topic": topic},
        )

    def _not_judged(self, client_id: str, error: BaseException) -> None:
        self.counters.denied["will"] += 1
        logger.error("a will was not published: nobody says who may: %s", error, extra={"client": client_id})

    def _send(self, client_id: str, will: Will, owner: str, sender: Sender | None) -> None:
        self.publishing.send(will_message(will, client_id, self.clock.wall()), user_of(owner), sender)


def will_message(will: Will, client_id: str, now: float) -> Message:
    """The will as it goes out: its expiry counts from this moment."""
    kept = will.message
    return Message(
        kept.topic,
        kept.payload,
        kept.qos,
        retain=kept.retain,
        properties=kept.properties,
        expires_at=None if will.expiry is None else now + will.expiry,
        publisher=client_id,
    )
