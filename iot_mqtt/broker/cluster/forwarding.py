"""What leaves for other nodes with this node's turns and commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.cluster import Interest, Peers
from iot_mqtt.ports.store import Store


class Forwarding:
    """To all peers."""

    def __init__(
        self, peers: Peers, own: OwnInterest, routes: PeerRoutes, groups: SharedGroups, store: Store, turn: Turn
    ) -> None:
        self._peers = peers
        self._own = own
        self._routes = routes
        self._groups = groups
        self._store = store
        self._turn = turn
        # Acknowledgements of interest that wait for a commit.
        self._acknowledging: list[tuple[int, Callable[[], None]]] = []

    def end_turn(self) -> None:
        """What was gathered for others leaves."""
        self._own.tell()
        latest = self._store.latest
        for peer in self._routes:
            peer.end_turn(latest)
        self._groups.end_turn(latest)
        # That commit may be over already.
        self._forward_committed()
        self._peers.flush()

    def committed(self) -> None:
        """A commit is over: what waited for it goes on."""
        self._forward_committed()
        if self._acknowledging:
            committed = self._store.committed
            waiting, self._acknowledging = self._acknowledging, []
            for ticket, call in waiting:
                if ticket <= committed:
                    call()
                else:
                    self._acknowledging.append((ticket, call))
        self._peers.flush()

    def _forward_committed(self) -> None:
        committed = self._store.committed
        for peer in self._routes:
            peer.committed(committed)
        self._groups.committed(committed)

    def peer_interest(
        self, peer: int, interest: Sequence[Interest], done: Callable[[], None], *, full: bool = False
    ) -> None:
        """See ``ports.cluster.Node``."""
        self._own.heard(interest)
        acknowledge = partial(self._acknowledge, done)
        self._routes.follow(peer, interest, partial(self._groups.when_open, acknowledge), full=full)

    def _acknowledge(self, done: Callable[[], None]) -> None:
        """When what is staged by now is committed."""
        store = self._store
        if store.latest <= store.committed:
            done()
        else:
            self._acknowledging.append((store.latest, done))
            self._turn.plan()
