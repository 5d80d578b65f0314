"""Other nodes come, go and die, and links with them break: who here has to know."""

from __future__ import annotations

from functools import partial

from iot_mqtt.broker.cluster.links import Links
from iot_mqtt.broker.cluster.other_logs import OtherLogs
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.cluster.retained_sync import RetainedSync
from iot_mqtt.broker.cluster.unheard import KeptForUnheard
from iot_mqtt.broker.readers.elsewhere import Elsewhere
from iot_mqtt.broker.shared_groups import SharedGroups


class Presence:
    """Of all peers; see ``ports.cluster.Node``."""

    def __init__(
        self,
        routes: PeerRoutes,
        groups: SharedGroups,
        logs: OtherLogs,
        readers: Elsewhere,
        links: Links,
        retained: RetainedSync,
        unheard: KeptForUnheard,
    ) -> None:
        self._routes = routes
        self._groups = groups
        self._logs = logs
        self._readers = readers
        self._links = links
        self._retained = retained
        self._unheard = unheard
        #: What the node has been told last, and what has been passed on.
        self._doubted = self._in_doubt = False

    def peer_up(self, peer: int) -> None:
        self._routes.peer(peer).up = True
        self._logs.follow(peer)
        self._groups.peer_up(peer)

    def peer_down(self, peer: int) -> None:
        self._routes.down(peer)
        self._groups.peer_down(peer)
        self._links.acts(peer)

    def peer_left(self, peer: int) -> None:
        self._links.ends(peer)
        self._readers.stream_broken(peer)

    def peer_started(self, peer: int) -> None:
        self.peer_down(peer)
        which = self._links.ends(peer)
        self.stream_broken(peer)
        self._look_for_end(peer, which)

    def stream_broken(self, peer: int) -> None:
        self._readers.stream_broken(peer)
        self._retained.begins_anew()
        self._groups.stream_broken(peer)

    def doubt(self, some: bool) -> None:
        self._doubted = some
        if not some:
            # What all of them want is known, and may not be acted on yet.
            self._routes.when_followed(self._no_doubt)
        elif self._in_doubt:
            self._routes.doubt(some)
        else:
            self._pass_on(some)

    def _no_doubt(self) -> None:
        if self._in_doubt and not self._doubted:
            self._pass_on(some=False)

    def _pass_on(self, some: bool) -> None:
        self._in_doubt = some
        self._unheard.doubt(some)
        self._groups.doubt(some)
        self._routes.doubt(some)

    def unheard(self, some: bool) -> None:
        self._groups.unheard(some)

    def node_gone(self, number: int) -> None:
        self._routes.down(number)
        self._groups.node_gone(number)
        which = self._links.ends(number)
        self._readers.stream_broken(number)
        self._retained.missed()
        self._look_for_end(number, which)

    def _look_for_end(self, number: int, which: int) -> None:
        self._logs.ended(number, partial(self._found_end, which))

    def _found_end(self, which: int, number: int) -> None:
        self._links.ended(number, which)
        self._readers.grew(number)
        self._groups.grew(number)
        self._links.grew(number)
        self._links.acts(number)
