"""What a session had when it ended: shared messages go to other members, the rest is dropped and counted."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.session import SENT_QOS1, SENT_QOS2, Delivery, Flight, Outbound
from iot_mqtt.topics import SharedGroup


@dataclass(frozen=True, slots=True, eq=False)
class PassingOn:
    """Empties sessions."""

    groups: SharedGroups
    fan_out: FanOut
    counters: Counters
    clock: Clock

    def empty(self, session: Session) -> None:
        """Nothing is left of it."""
        self.groups.forget(session)
        if not (session.outbound or session.queue or session.replays or isinstance(session, KeptSession)):
            session.outbound.limit = 0
            return
        now = self.clock.wall()
        entries = session.outbound.entries.values()
        left = [entry for entry in entries if isinstance(entry, Delivery)]
        # Sent, kept by nobody, and not confirmed.
        lost = sum(1 for entry in entries if entry is SENT_QOS1 or entry is SENT_QOS2 or isinstance(entry, Flight))
        lost += sum(cursor.owed for cursor in session.cursors())
        left.extend(session.queue.take_all())
        session.outbound = Outbound(0)
        for delivery in left:
            origin = delivery.origin
            # [MQTT-4.8.2-5] a QoS 2 exchange that began with one member is never continued with another.
            if isinstance(origin, SharedGroup) and not (delivery.qos == 2 and delivery.sent) and origin:
                if delivery.expired(now):
                    self.counters.dropped[Drop.EXPIRED] += 1
                else:
                    self.fan_out.redispatch(publication_of(delivery.message, now), origin)
            else:
                lost += 1
        if lost:
            self.counters.dropped[Drop.SESSION_ENDED] += lost
