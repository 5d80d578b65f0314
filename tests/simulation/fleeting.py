"""Clients whose time runs out: sessions that expire, wills that wait, connections that fall silent.

All of it is a matter of the node's timers, and these come late on a node that is held up.

session     one is gone sooner than it may expire, or is there still long after it had to
will        as of any client: once at most, and once where its client does not come back
silent      a connection of which nothing is heard is there long after its keep-alive
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from iot_mqtt.codec import PINGREQ, ConnectWill, Properties
from iot_mqtt.grid.records.keys import session_key
from iot_mqtt.ports.grid import CacheName
from tests.simulation.clients import Client
from tests.simulation.ledger import Broken
from tests.simulation.messaging import HELD_UP

if TYPE_CHECKING:
    from tests.simulation.brokers import BrokerLife
    from tests.simulation.world import World

#: Seconds: for how long a session outlives its connection, a will waits, and nothing may be heard of a client.
EXPIRIES = (1, 4)
DELAYS = (0, 1, 3)
KEEP_ALIVE = 2
#: Seconds from one PINGREQ to the next.
PINGS = 1.0
#: Seconds after which the node closes such a connection at the latest, if it runs: one and a half times the keep-alive
#: from when it goes on after it was held up, what it is held up then, two ticks of its wheel, and a step of the story.
SILENT = 1.5 * KEEP_ALIVE + 2 * HELD_UP[1] + 1.5
#: Seconds within which a session that is left alone is gone, when all is well.
GONE = 60.0


class Fleeting(Client):
    """Says that it is there, or nothing at all, after CONNECT."""

    durable = True
    keep_alive = KEEP_ALIVE

    def __init__(self, world: World, name: str, *, silent: bool) -> None:
        super().__init__(world, name)
        self._silent = silent
        self._will = b""
        #: The connection has broken, and it has not come back: the will is due.
        self._broken = False
        #: Until when the session is there at least, by what the client knows: the node takes the connection for longer.
        self._stays_until = 0.0
        self._owed_until = 0.0
        self._heard = 0.0
        #: When the connection was seen open last, at a node that others do not take for dead.
        self._open_at = 0.0

    def come(self, node: BrokerLife, rng: random.Random) -> None:
        """With another will, and other times for both."""
        expiry, delay = rng.choice(EXPIRIES), rng.choice(DELAYS)
        if not node.ready or node.ended:
            return
        self.leave()
        self.expiry = expiry
        self._owed_until, self._stays_until = self._stays_until, 0.0
        self._broken = False
        self._heard = self.world.clock.monotonic()
        self._will = f"will-{self.name}-{self.connections + 1}".encode()
        self.world.ledger.wills[self._will] = False
        properties = Properties(will_delay_interval=delay)
        self.connect(node, will=ConnectWill(b"wills/" + self.name.encode(), self._will, 2, properties=properties))

    def opened(self, present: bool) -> None:
        if not present and self.world.clock.monotonic() < self._owed_until and not self.world.network.skews:
            raise Broken(f"session: that of {self.name} is lost; it was to stay until {self._owed_until:.3f}")

    def poll(self) -> None:
        now, line = self.world.clock.monotonic(), self.line
        if line is not None and not (line.closed or line.life.paused or self.world.ensemble.away(line.life.name)):
            self._open_at = now
        if line is None or line.life.paused or not self.connected:
            self._heard = now
        elif not self._silent:
            if now > self._heard + PINGS:
                self._heard = now
                self.send(PINGREQ)
        elif now > self._heard + SILENT:
            raise Broken(f"silent: the connection of {self.name} is there still")
        super().poll()

    def over(self, was_connected: bool, politely: bool) -> None:
        if was_connected:
            self._broken = not politely
            self._stays_until = self._open_at + self.expiry

    def leave_for_good(self) -> None:
        self.leave()
        if self._broken:
            self.world.ledger.wills[self._will] = True

    @property
    def has_session(self) -> bool:
        """Whether any node would know it."""
        return session_key(self.name) in self.world.entries(CacheName.SESSIONS)
