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
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.shared_groups.names import home_of, part_name, split_name
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster import Claim
from iot_mqtt.ports.log import LogReader, Reference
from iot_mqtt.ports.store import StoredGroup

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.ports.cluster import Peers

log = logging.getLogger(__name__)

#: (name, record) and (name, number, references)
Records = tuple[list[tuple[str, StoredGroup]], list[tuple[str, int, list[Reference]]]]


class GroupHomes:
    """The logs whose parts are given out here."""

    def __init__(self, broker: Broker, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._claiming = False
        #: Those that the channel records give to this node; some of them may still have to be read.
        self._ours: set[int] = set()

    def want(self) -> None:
        """There is a durable group, and this node's own log is to be given out by itself."""
        if not self._claiming and not self._broker.groups.has_part(self._peers.number):
            self._claiming = True
            self._broker.clock.call_later(0.0, self._claim)

    def _claim(self) -> None:
        self._peers.claim(home_of(self._peers.number), self._claimed)

    def _claimed(self, claim: Claim, why: str) -> None:
        if claim is Claim.REFUSED:
            log.warning("durable groups wait for the node that has them: %s", why)
            self._broker.clock.call_later(RETRY_SECONDS, self._claim)
        else:
            self.take_on(self._peers.number)

    def take_on(self, writer: int) -> None:
        """The record says that they are here: begin, and try again until it succeeds."""
        self._ours.add(writer)
        self._begin(writer)

    def _begin(self, writer: int) -> None:
        if writer in self._ours:
            drive(self._take(writer), done, partial(self._not_taken, writer))

    def _not_taken(self, writer: int, error: BaseException) -> None:
        log.error("the groups of node %d cannot be read, trying again: %s", writer, error)
        self._broker.clock.call_later(RETRY_SECONDS, partial(self._begin, writer))

    async def take(self, writer: int) -> None:
        """The same once; ``Unavailable``: not now."""
        self._ours.add(writer)
        await self._take(writer)

    async def _take(self, writer: int) -> None:
        broker = self._broker
        groups = broker.groups
        if not groups.has_part(writer):
            reader = await self._reader(writer)
            records = await read_part(broker, writer)
            if writer in self._ours and not groups.has_part(writer):
                groups.open_part(writer, reader, records)
                self.begun(writer)
        if writer == self._peers.number:
            self._claiming = False

    async def _reader(self, writer: int) -> LogReader:
        broker, clustering = self._broker, self._broker.clustering
        if writer == broker.log.writer:
            return broker.log
        reader = broker.logs.of(writer)
        if reader is None:
            assert clustering is not None
            clustering.logs.follow(writer)
            reader = broker.logs.of(writer)
        if reader is None:
            raise Unavailable(f"nobody here reads the log of node {writer} yet")
        await reader.refresh()
        return reader

    def begun(self, writer: int) -> None:
        """They are given out here: everybody is told, and asked what there is with members."""
        self._ours.add(writer)
        self._broker.loans.look_later()
        clustering = self._broker.clustering
        if clustering is not None:
            for peer in clustering.routes:
                if peer.up:
                    self._say(peer.number, writer)
                    self._broker.loans.ask(peer.number)
        self._say(self._peers.number, writer)

    def _say(self, peer: int, writer: int) -> None:
        self._broker.talk.tell(peer, "gives", part_name(writer, ""), "", ())

    def peer_up(self, peer: int) -> None:
        for writer in self._broker.groups.writers:
            self._say(peer, writer)

    def release(self, writer: int, done: Callable[[bool], None]) -> None:
        """See ``ports.cluster.Node``."""
        broker = self._broker
        if writer == self._peers.number:
            # Nobody else has anything to do with it.
            done(False)  # noqa: FBT003 - the signature of the port
            return
        self._ours.discard(writer)
        broker.groups.close_part(writer)
        broker.plan_turn()
        drive(broker.store.settled(), lambda _: done(True), lambda _: done(False))  # noqa: FBT003 - the port says so


async def read_part(broker: Broker, writer: int) -> Records:
    """What the store has of the groups of one log."""
    groups = [entry async for entry in broker.store.groups() if split_name(entry[0]).writer == writer]
    shares = [entry async for entry in broker.store.group_segments() if split_name(entry[0]).writer == writer]
    return groups, shares
