"""Processes that have ended, as far as the grid's gateways can tell.

A process that is killed is known of at once by its connection, and by nothing else before the registry gives up its
session. So each gateway tells everybody whose connection has begun, and whose has ended without the gateway's doing::

    gone ─▶ within ``grace`` another connection of that node, or a datagram of it?  yes: it only changed gateways
                                                                                    no: ``ended``

To be wrong spoils nothing: whoever is told fences that life before anything is taken from it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.fencing import SharedGrid
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.roster import Life
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Member, Registry

log = logging.getLogger(__name__)

#: What gateways send to, see ``cluster/gateway/PROTOCOL.md``.
TOPIC: Final = "iot.lives"
NOTICE: Final = struct.Struct("!BHQI")
HERE, GONE = 0, 1
#: What a node sent before its end may come so much later.
ON_THE_WAY: Final = 0.2


class _Connection(NamedTuple):
    """Which connection of which life; a later one is greater."""

    boot: int
    number: int


class _Gone(NamedTuple):
    """The last that was heard of; and when it went."""

    connection: _Connection
    at: float


class Departures:
    """``ended`` is called once for a life whose last connection is gone."""

    def __init__(
        self,
        own: int,
        messaging: Messaging,
        clock: Clock,
        grace: float,
        heard_at: Callable[[int], float | None],
        ended: Callable[[Life], None],
    ) -> None:
        """``heard_at``: when a node was last heard by link."""
        self._own = own
        self._messaging = messaging
        self._clock = clock
        self._grace = grace
        self._heard_at = heard_at
        self._ended = ended
        #: By number of the node: the latest connection that was heard of.
        self._latest: dict[int, _Connection] = {}
        self._gone: dict[int, _Gone] = {}
        self._closed = False

    async def open(self) -> None:
        await self._messaging.listen(TOPIC, self.told)

    def close(self) -> None:
        self._closed = True

    def told(self, payload: bytes) -> None:
        """A gateway's notice."""
        try:
            kind, number, boot, connection = NOTICE.unpack(payload)
        except struct.error:
            log.warning("a gateway tells of a connection in a way that is not understood: %r", payload[:32])
            return
        if number == self._own or self._closed:
            return
        told = _Connection(boot, connection)
        if told < self._latest.get(number, told):
            return
        self._latest[number] = told
        self._gone.pop(number, None)
        if kind == GONE:
            gone = self._gone[number] = _Gone(told, self._clock.monotonic())
            self._clock.call_later(self._grace, partial(self._look_again, number, gone))

    def _look_again(self, number: int, gone: _Gone) -> None:
        if self._closed or self._gone.get(number) is not gone:
            return
        del self._gone[number]
        heard = self._heard_at(number)
        if heard is None or heard < gone.at + ON_THE_WAY:
            self._ended(Life(number, gone.connection.boot))


class Evictions:
    """Takes nodes that have ended off the list of members: nobody waits for their sessions' time."""

    def __init__(self, membership: Membership, grid: SharedGrid, registry: Registry) -> None:
        self._membership = membership
        self._grid = grid
        self._registry = registry

    def ended(self, life: Life) -> None:
        """Its process has ended: what the list says of it need not wait for its session's time."""
        member = self._membership.members.get(life.number)
        if self._membership.connected() and member is not None and member.boot == life.boot:
            log.warning("a node has ended without a word; it is taken off the list", extra={"node": member.node_id})
            evicting = Deferred.fromCoroutine(self._evict(member))
            evicting.addErrback(_not_evicted)
            evicting.addErrback(_report)

    async def _evict(self, member: Member) -> None:
        """Fenced first: if it is alive after all, it writes nothing more, and begins a new life."""
        await self._grid.fence(member.number, member.boot)
        await self._registry.evict(member)


def _not_evicted(failure: Failure) -> None:
    failure.trap(Unavailable)
    log.warning("a node that has ended stays on the list until its session is over: %s", failure.value)


def _report(failure: Failure) -> None:
    log.error("a node that has ended cannot be taken off the list", exc_info=failure.value)
