"""How the nodes of a static list hear of each other: everybody says who he is, again and again, to whoever listens."""

from __future__ import annotations

from iot_mqtt.cluster.registry.entry import BadEntry, dump, load
from iot_mqtt.cluster.registry.static import StaticRegistry
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.messaging import Messaging

TOPIC = "iot.members"
#: Heartbeats in the time after which a node counts as gone: a few may be lost.
BEATS = 6
#: In front of an entry: it lives, or it says goodbye.
ALIVE, LEAVING = b"+", b"-"


class Beacon:
    """The heartbeats of one ``StaticRegistry``."""

    def __init__(self, registry: StaticRegistry, messaging: Messaging, clock: Clock, timeout: float) -> None:
        self._registry = registry
        self._messaging = messaging
        self._clock = clock
        self._seconds = timeout / BEATS
        self._timer: Timer | None = None
        self._stopped = False

    async def start(self) -> None:
        """Listen, and speak once there is something to say."""
        await self._messaging.listen(TOPIC, self._came)
        self._beat()

    def stop(self) -> None:
        """Say goodbye."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._say(LEAVING)

    def _beat(self) -> None:
        if not self._stopped:
            self._say(ALIVE)
            self._timer = self._clock.call_later(self._seconds, self._beat)

    def _say(self, kind: bytes) -> None:
        own = self._registry.own
        if own is not None:
            name = own.node_id.encode()
            self._messaging.send(TOPIC, kind + bytes((len(name),)) + name + dump(own))

    def _came(self, payload: bytes) -> None:
        kind, size = payload[:1], payload[1] if len(payload) > 1 else 0
        try:
            member = load(payload[2 : 2 + size].decode(), payload[2 + size :])
        except (BadEntry, UnicodeDecodeError):
            return
        if kind == ALIVE:
            self._registry.heard(member)
        elif kind == LEAVING:
            self._registry.gone(member.node_id, member.boot)
