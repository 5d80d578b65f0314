"""Which node gives the parts of a log to their members: as a rule the node that writes it, or who has adopted it.

    first durable group ─▶ claim ─▶ own part here
    a node is dead      ─▶ its adopter has its parts: reads its log from where the group was
    it is back          ─▶ claims them, and the adopter lets go

It is settled like the home of a session, by a channel record of its own (``names.home_of``), so that at no moment
two nodes give out the same messages. While a node has not got its own part it records, and gives nothing out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.shared_groups.names import home_of
from iot_mqtt.broker.shared_groups.node import Logs
from iot_mqtt.broker.shared_groups.parts import Parts
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Claim, Peers
from iot_mqtt.ports.store import Store

log = logging.getLogger(__name__)

#: Seconds in which somebody adopts a dead node that gave its log out, and says so.
STAND_IN_AFTER = 15.0


class Leadership:
    """The logs whose parts are given out here."""

    def __init__(
        self,
        peers: Peers,
        parts: Parts,
        logs: Logs,
        store: Store,
        clock: Clock,
        on_begun: Callable[[int], None],
        is_given: Callable[[int], bool],
    ) -> None:
        """``on_begun`` is called when the parts of a log are given out here; ``is_given``: whether some other node has
        said that it gives one out.
        """
        self._peers = peers
        self._parts = parts
        self._logs = logs
        self._store = store
        self._clock = clock
        self._on_begun = on_begun
        self._is_given = is_given
        self._claiming = False
        #: Those that the channel records give to this node; some of them may still have to be read.
        self._ours: set[int] = set()
        #: Nodes that may be owing messages to groups of which they do not know.
        self._unaware: set[int] = set()

    def want(self) -> None:
        """There is a durable group, and this node's own log is to be given out by itself."""
        if not self._claiming and not self._parts.has(self._peers.number):
            self._claiming = True
            self._clock.call_later(0.0, self._claim)

    def _claim(self) -> None:
        self._peers.claim(home_of(self._peers.number), self._claimed)

    def _claimed(self, claim: Claim, why: str) -> None:
        if claim is Claim.REFUSED:
            log.warning("durable groups wait for the node that has them: %s", why)
            self._clock.call_later(RETRY_SECONDS, self._claim)
        else:
            self.take_on(self._peers.number)

    def placed(self, writer: int) -> None:
        """A group has a place in the log of a node that does not know of it, and may not give its log out at all."""
        self._unaware.add(writer)

    def peer_up(self, writer: int) -> None:
        """It is heard, and is told of all groups."""
        self._unaware.discard(writer)

    def node_gone(self, writer: int) -> None:
        """A node is dead. If it did not give its log out, nobody finds anything to adopt, and this node does it."""
        if writer in self._unaware:
            self._clock.call_later(STAND_IN_AFTER, partial(self._stand_in, writer))

    def _stand_in(self, writer: int) -> None:
        if writer in self._unaware and not self._parts.has(writer) and not self._is_given(writer):
            self._peers.claim(home_of(writer), partial(self._stood_in, writer))

    def _stood_in(self, writer: int, claim: Claim, why: str) -> None:
        if claim is Claim.REFUSED:
            log.warning("the groups of a node (number %d) cannot be taken on now: %s", writer, why)
            self._clock.call_later(RETRY_SECONDS, partial(self._stand_in, writer))
        else:
            self._unaware.discard(writer)
            self.take_on(writer)

    def take_on(self, writer: int) -> None:
        """The record says that they are here: begin, and try again until it succeeds."""
        self._ours.add(writer)
        self._begin(writer)

    def _begin(self, writer: int) -> None:
        if writer in self._ours:
            drive(self._take(writer), done, partial(self._not_taken, writer))

    def _not_taken(self, writer: int, error: BaseException) -> None:
        log.error("the groups of a node (number %d) cannot be read, trying again: %s", writer, error)
        self._clock.call_later(RETRY_SECONDS, partial(self._begin, writer))

    async def take(self, writer: int) -> None:
        """The same once; ``Unavailable``: not now."""
        self._ours.add(writer)
        await self._take(writer)

    async def _take(self, writer: int) -> None:
        parts = self._parts
        if not parts.has(writer):
            reader = await self._logs.reader(writer)
            records = await parts.read(writer)
            if writer in self._ours and not parts.has(writer):
                parts.open(writer, reader, records)
                self.begun(writer)
        if writer == self._peers.number:
            self._claiming = False

    def begun(self, writer: int) -> None:
        """They are given out here."""
        self._ours.add(writer)
        self._on_begun(writer)

    def release(self, writer: int, done: Callable[[bool], None]) -> None:
        """See ``ports.cluster.Node``."""
        if writer == self._peers.number:
            # Nobody else has anything to do with it.
            done(False)  # noqa: FBT003 - the signature of the port
            return
        self._ours.discard(writer)
        self._parts.close(writer)
        drive(self._store.settled(), lambda _: done(True), lambda _: done(False))  # noqa: FBT003 - the port says so
