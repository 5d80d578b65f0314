"""The broker of one node among others: ``ports.cluster.Node``.

What other nodes want stands in the routing table (``peers``), what this one wants is counted and told (``interest``),
and who is at home here is settled in ``homes``. A sole node has none of this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.cluster.beginnings import Beginnings
from iot_mqtt.broker.cluster.homes import Homes
from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.cluster.other_logs import Follow, OtherLogs
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.publication import Publication
from iot_mqtt.ports.cluster import Forwarded, Interest, Peers
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Followed, LogRun, Reference
from iot_mqtt.values import Message

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.readers.cursors import SessionCursor
    from iot_mqtt.broker.readers.elsewhere import ElsewhereCursor
    from iot_mqtt.broker.session import Session

log = logging.getLogger(__name__)


class Clustering:
    """Everything that a broker has only when there are others."""

    def __init__(self, broker: Broker, peers: Peers, follow: Follow) -> None:
        self._broker = broker
        self._peers = peers
        #: Nothing that others retained was missed, or it is about to be read.
        self._retained_current = True
        self.logs = OtherLogs(broker.logs, broker.clock, follow)
        self.beginnings = Beginnings(broker, peers, self.logs)
        self.own = OwnInterest(broker, peers)
        self.routes = PeerRoutes(broker, peers)
        broker.groups.join(peers, self.routes)
        self.homes = Homes(broker, peers, self.own, broker.groups.leadership)
        #: Cursors that have read everything and wait until a peer acts on what their session wants.
        self._resting: dict[int, dict[SessionCursor, None]] = {}
        #: Those that have read all that was announced, and wait for more that is known to be there.
        self._short: dict[int, dict[ElsewhereCursor, None]] = {}
        # Acknowledgements of interest that wait for a commit.
        self._acknowledging: list[tuple[int, Callable[[], None]]] = []

    # The broker's turn.

    def end_turn(self) -> None:
        """What was gathered for others leaves."""
        self.own.tell()
        latest = self._broker.store.latest
        for peer in self.routes:
            peer.end_turn(latest)
        self._broker.groups.end_turn(latest)
        # That commit may be over already.
        self._forward_committed(self._broker.store.committed)
        self._peers.flush()

    def committed(self, committed: int) -> None:
        """A commit is over: what waited for it goes on."""
        self.homes.committed(committed)
        self._forward_committed(committed)
        if self._acknowledging:
            waiting, self._acknowledging = self._acknowledging, []
            for ticket, call in waiting:
                if ticket <= committed:
                    call()
                else:
                    self._acknowledging.append((ticket, call))
        self._peers.flush()

    def _forward_committed(self, committed: int) -> None:
        for peer in self.routes:
            peer.committed(committed)
        self._broker.groups.committed(committed)

    def rests(self, cursor: SessionCursor, writer: int) -> bool:
        """Whether a cursor that has read all there is of another node's log can rely on being offered what comes."""
        if self._peers.known_by(writer, self.own.tell()):
            return True
        self._resting.setdefault(writer, {})[cursor] = None
        return False

    def wants_more(self, cursor: ElsewhereCursor) -> None:
        """It has read up to the end that was announced, and may not rest there."""
        self._short.setdefault(cursor.log.writer, {})[cursor] = None

    def when_in_force(self, session: Session, call: Callable[[], None]) -> None:
        """``call`` when the session gets whatever is published anywhere for what it has subscribed to, and nothing that
        was published before; the former after a bounded time at the latest.
        """
        self.beginnings.when_fixed(session, partial(self.own.when_known, call))

    # Node: what the others want.

    def interest(self) -> Sequence[Interest]:
        # A peer forgets whatever is not in this: what was loaded a moment ago must be.
        self.own.tell()
        return self.own.all()

    def committed_end(self) -> int:
        return self._broker.log.committed_end

    def peer_interest(
        self, peer: int, interest: Sequence[Interest], done: Callable[[], None], *, full: bool = False
    ) -> None:
        self.routes.wants(peer, interest, full=full)
        self._broker.groups.when_open(partial(self._acknowledge, done))

    def _acknowledge(self, done: Callable[[], None]) -> None:
        """When what is staged by now is committed."""
        store = self._broker.store
        if store.latest <= store.committed:
            done()
        else:
            self._acknowledging.append((store.latest, done))
            self._broker.turn.plan()

    def peer_knows(self, peer: int, version: int) -> None:
        for cursor in self._resting.pop(peer, ()):
            cursor.read_on()

    def peer_up(self, peer: int) -> None:
        self.routes.peer(peer).up = True
        self.logs.follow(peer)
        self._broker.groups.peer_up(peer)

    def peer_down(self, peer: int) -> None:
        self.routes.down(peer)
        self._broker.groups.peer_down(peer)
        self.peer_knows(peer, 0)

    # Node: what was published elsewhere.

    def received(self, peer: int, items: Sequence[Forwarded], end: int) -> None:
        for item in items:
            publication = Publication(item.run, item.topic, item.publisher, item.arrived, item.origin)
            publication.remote = True
            reference = item.reference
            if reference is not None:
                publication.logged = LogRun(reference, item.run, item.topic, item.publisher, item.arrived, item.origin)
                if reference.writer == peer:
                    self.logs.announce(peer, publication.logged.end)
            self._deliver(peer, publication, item)
        self.logs.announce(peer, end)
        self._grew(peer)
        self._broker.turn.plan()

    def _grew(self, number: int) -> None:
        self._broker.groups.grew(number)
        for cursor in self._short.pop(number, ()):
            cursor.read_on()

    def _deliver(self, peer: int, publication: Publication, item: Forwarded) -> None:
        broker = self._broker
        broker.counters.messages_from_peers += publication.count
        if item.plain:
            match = broker.routes.match(publication.topic)
            if match.plain:
                broker.publishing.fan_out.fan_out(publication, match, None)
        for group, client_id in item.members:
            if group.startswith("\0"):
                if item.reference is not None:
                    broker.groups.take(peer, publication, group, client_id, item.reference)
            elif not broker.publishing.fan_out.deliver_to_member(publication, group, broker.sessions.get(client_id)):
                broker.counters.messages_matched += publication.count
                broker.counters.dropped[Drop.NO_SHARED_MEMBER] += publication.count

    def stream_broken(self, peer: int) -> None:
        self._broker.elsewhere.stream_broken(peer)
        broker = self._broker
        if self._retained_current:
            self._retained_current = False
            broker.clock.call_later(0.0, self._catch_up)
        broker.groups.stream_broken(peer)

    def _catch_up(self) -> None:
        """Read the retained messages again; what breaks from now on makes it be done once more."""
        self._retained_current = True
        drive(self._broker.retention.catch_up(), done, self._not_caught_up)

    def _not_caught_up(self, error: BaseException) -> None:
        log.error("retained messages cannot be read, trying again: %s", error)
        self._retained_current = False
        self._broker.clock.call_later(RETRY_SECONDS, self._catch_up)

    def group_told(self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference]) -> None:
        self._broker.groups.told(peer, kind, name, client_id, references)
        self._broker.turn.plan()

    def retained(self, peer: int, topic: bytes, message: Message | None, version: int) -> None:
        self._broker.retention.heard(topic, message, version)

    # Node: who is at home where.

    def yields(self, client_id: str, owner: str) -> bool:
        return self._broker.owners.yields(client_id, owner)

    def release(self, client_id: str, done: Callable[[bool], None]) -> None:
        self.homes.release(client_id, done)

    def adopt(self, clients: Collection[str], done: Callable[[bool], None]) -> None:
        self.homes.adopt(clients, done)

    def node_gone(self, number: int) -> None:
        self.routes.down(number)
        self._broker.groups.node_gone(number)
        reader = self._broker.logs.of(number)
        if reader is None:
            self.logs.follow(number)
        else:
            self._broker.elsewhere.stream_broken(number)
            self._find_end(number, reader)

    def _find_end(self, number: int, reader: Followed) -> None:
        drive(reader.refresh(), partial(self._found_end, number), partial(self._not_found, number, reader))

    def _found_end(self, number: int, end: int) -> None:
        self._broker.elsewhere.grew(number)
        self._grew(number)
        self.peer_knows(number, 0)

    def _not_found(self, number: int, reader: Followed, error: BaseException) -> None:
        log.error("the end of node %d's log cannot be read, trying again: %s", number, error)
        self._broker.clock.call_later(RETRY_SECONDS, partial(self._find_end, number, reader))

    # Node: the logs of others.

    def follow(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.logs.follow(number)
