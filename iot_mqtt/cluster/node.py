"""One life of this node among the others, from the list of members to its end: ``ports.cluster.Peers`` for its broker.
What it says to peers is in ``conversation``; this is what holds that, the registry, ownership and adoption together.

::

    place = await enter(grid, node_id)               # number and boot; what earlier lives wrote is finished
    ...                                              # build the store, the log of that number, and the broker
    cluster = ClusterNode(place, ...)
    cluster.attach(broker.join(cluster, follow).node)
    clients = await cluster.start()                  # in the list; who is at home here
    await load(broker, clients.__contains__)
    cluster.loaded()                                 # others are told what we want, and may ask for clients
    ...
    await cluster.stop()

A life ends when it was fenced, when the registry has lost it, or with ``stop``. There is no way back: whoever wants to
go on enters again and builds everything anew.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.adoption import Adoption
from iot_mqtt.cluster.bulk_takeover import BulkTakeover
from iot_mqtt.cluster.channels import Channels
from iot_mqtt.cluster.conversation import Conversation
from iot_mqtt.cluster.departures import Departures, Evictions
from iot_mqtt.cluster.fencing import Fences, SharedGrid
from iot_mqtt.cluster.joining import Place
from iot_mqtt.cluster.known_nodes import KnownNodes
from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.ownership import Ownership
from iot_mqtt.cluster.registration import Registration
from iot_mqtt.cluster.releases import Releases
from iot_mqtt.cluster.roster import Life, Roster
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.strays import Strays
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Claim, Forwarded, Interest, Node
from iot_mqtt.ports.cluster_status import ClusterStatus
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Member, Registry, RegistryState
from iot_mqtt.values import Message

log = logging.getLogger(__name__)


class ClusterNode:
    """One life of a node. Everything is called in the reactor's thread."""

    def __init__(
        self,
        place: Place,
        *,
        version: str,
        grid: SharedGrid,
        registry: Registry,
        messaging: Messaging,
        clock: Clock,
        settings: ClusterSettings | None = None,
        addresses: Mapping[str, str] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``place`` as ``joining.enter`` returned it; ``addresses``: listener name → "host:port" for clients."""
        self.settings = settings or ClusterSettings()
        self.place = place
        self.number = place.number
        #: Told once, with the reason. Nothing that this life still wants to write will be written: the broker is to
        #: drop its clients, and whoever wants to go on begins a new life.
        self.on_life_over: Callable[[str], None] = _ignore
        #: Told True when the registry cannot be reached, False when it can again.
        self.on_suspended: Callable[[bool], None] = _ignore
        self._grid = grid
        self._registry = registry
        self._suspended = False
        self._conversation = Conversation(place, messaging, clock, self.settings)
        self._links = self._conversation.links
        #: What nodes ask each other by name, for those above.
        self.questions = self._conversation.questions
        own = Life(place.number, place.boot)
        roster = Roster(place.number, clock, self.settings.unseen_grace)
        self._membership = Membership(own, registry, roster)
        protocols = (proto_v1.VERSION,)
        entry = Member(place.node_id, place.number, place.boot, version, protocols, addresses=addresses)
        self._registration = Registration(
            entry, self._membership, registry, self._links.condition, clock, self.settings.refresh
        )
        ended = Evictions(self._membership, grid, registry).ended
        self._departures = Departures(
            place.number, messaging, clock, self.settings.departed_grace, self._links.heard_at, ended
        )
        self._known = KnownNodes(grid, self._membership)
        self._fences = Fences(grid)
        self._channels = Channels(grid, clock, own, self.settings.scan_page, self.settings.swaps_at_once)
        self._loading = Loading(self._conversation, clock, self.settings.fence_again)
        self._strays = Strays(self._channels, self._loading, clock, self.settings)
        self._releases = Releases(
            self._membership, self._conversation, self._loading, self._strays, self.settings.release_timeout
        )
        self._ownership = Ownership(
            self._membership,
            self._channels,
            self._loading,
            self._strays,
            self._fences,
            clock,
            self.settings,
            self._releases.ask,
        )
        self._takeover = BulkTakeover(self._channels, self._loading, self._strays, self.settings.adopt_chunk)
        self._adoption = Adoption(
            self._membership,
            self._conversation,
            self._known,
            self._fences,
            self._takeover,
            clock,
            self.settings,
            rng or random.Random(),
        )

    # The life.

    def attach(self, node: Node) -> None:
        """The broker; before ``start``."""
        self._conversation.broker = node

    @property
    def node(self) -> Node:
        return self._conversation.node

    async def start(self) -> frozenset[str]:
        """Enter the list of members and take the sessions of earlier lives: the clients that are at home here.

        The node's log is open.
        """
        others = list(await self.numbers())
        for number in others:
            # What it keeps is recorded, and its log is read, whether or not it is there.
            self.node.peer_down(number)
        self.node.follow(others)
        await self._conversation.open()
        await self._departures.open()
        self._registry.on_state = self._on_state
        self._registry.on_members = self._on_members
        await self._registration.enter()
        self._membership.check()
        self._on_members()
        clients = await self._takeover.inherit(Life(self.number, self.place.boot - 1))
        await self._conversation.until_told()
        self._membership.check()
        self._registration.start()
        return clients

    def loaded(self) -> None:
        """The broker has loaded what ``start`` returned."""
        self._membership.check()
        self._conversation.loaded = True
        self._loading.end_all()
        self._conversation.tell_interest()
        self._adoption.start()

    async def stop(self) -> None:
        """Leave: others take our sessions at once. The broker has committed everything before."""
        if not self._membership.stop():
            return
        self._end_quietly()
        await self._registry.close()

    def end_life(self, reason: str) -> None:
        """It is over: the grid has said that this life is fenced, or the registry has lost it."""
        if not self._membership.end(reason):
            return
        log.error("the life of this node is over: %s", reason, extra={"node": self.number, "boot": self.place.boot})
        self._end_quietly()
        self.on_life_over(reason)

    def _end_quietly(self) -> None:
        self._adoption.stop()
        self._loading.stop()
        self._strays.stop()
        self._departures.close()
        self._conversation.close()
        self._registration.stop()

    # The entry in the list.

    def show(self, *, load: float, clients: int) -> None:
        """How this node is, for the others; they see it some seconds later."""
        self._registration.show(load=load, clients=clients)

    def reachable_at(self, addresses: Mapping[str, str]) -> None:
        """Where clients find this node, by listener; they are let in from now on."""
        self._registration.reachable_at(addresses)

    def drain(self, draining: bool = True) -> None:
        """This node wants no new clients."""
        self._registration.drain(draining)

    # Peers: what the broker asks.

    async def numbers(self) -> Mapping[int, int | None]:
        """See ``ports.cluster.Peers``, as for all of these."""
        return await self._known.numbers()

    def forward(self, peer: int, item: Forwarded) -> None:
        self._conversation.forward(peer, item)

    def takes_more(self, peer: int) -> bool:
        return self._links.takes_more(peer)

    def flush(self) -> None:
        self._conversation.flush()

    def crowded(self, peer: int) -> bool:
        return self._links.crowded(peer)

    def changed(self, interest: Sequence[Interest]) -> int:
        return self._conversation.changed(interest)

    def when_known(self, version: int, call: Callable[[], None]) -> None:
        self._conversation.when_known(version, call)

    def known_by(self, peer: int, version: int) -> bool:
        return self._conversation.known_by(peer, version)

    def tell_group(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        self._conversation.tell_group(peer, kind, name, client_id, references, question)

    def retain(self, topic: bytes, message: Message | None, version: int) -> None:
        self._conversation.retain(topic, message, version)

    def claim(
        self,
        client_id: str,
        done: Callable[[Claim, str], None],
        wanted: Callable[[], bool] | None = None,
        owner: str | None = None,
    ) -> None:
        claiming = Deferred.fromCoroutine(self._ownership.claim(client_id, wanted, owner))
        claiming.addCallback(lambda result: done(*result))
        claiming.addErrback(_report, "a claim failed")

    def stray(self, client_id: str) -> None:
        self._strays.add(client_id)

    async def let_go(self, client_id: str, unused: Callable[[], bool]) -> None:
        if not self._membership.is_over:
            await self._channels.let_go(client_id, unused)

    async def remove(self, node_id: str) -> bool:
        """See ``KnownNodes``."""
        return await self._known.remove(node_id)

    # What the registry tells.

    def _on_state(self, state: RegistryState) -> None:
        if state is RegistryState.LOST:
            self.end_life("the registry has lost this node: others may have taken its place")
            return
        suspended = state is RegistryState.SUSPENDED
        if suspended != self._suspended and not self._membership.is_over:
            self._suspended = suspended
            self.on_suspended(suspended)
        if not suspended:
            self._on_members()

    def _on_members(self) -> None:
        if not self._membership.connected():
            return
        members = self._registry.members.values()
        gone = self._membership.update(members)
        self._links.members(members)
        self._conversation.look()
        for life in gone:
            self._adoption.gone(life)

    # For people.

    def status(self) -> ClusterStatus:
        """How the cluster looks from here."""
        ours = self._conversation.ours
        members = self._membership.members
        peers = tuple(
            self._conversation.peer_status(number, members.get(number)) for number in sorted(self._links.links)
        )
        return ClusterStatus(
            node_id=self.place.node_id,
            number=self.number,
            boot=self.place.boot,
            over=self._membership.over,
            registry=self._registry.state.value,
            registry_trouble=self._registry.trouble,
            copies_missing=self._grid.copies_missing,
            grid_servers=self._grid.servers,
            routes=len(ours.digest),
            routes_version=ours.version,
            draining=self._registration.draining,
            peers=peers,
            known_late=ours.late,
            claims_granted=dict(self._ownership.granted),
            claims_refused={str(reason): count for reason, count in self._ownership.refused.items()},
            released=self._releases.released,
            releases_refused=self._releases.refused,
            fences=self._fences.asked,
            dead=dict(self._adoption.dead),
            adoptions=self._adoption.finished,
            adopted_clients=self._takeover.adopted,
            adoption_failures=self._adoption.failures + self._loading.failures,
            unreadable_channels=self._channels.unreadable,
            incompatible=self._links.incompatible,
            strangers=self._links.strangers,
        )


def _report(failure: Failure, what: str) -> None:
    log.error(what, exc_info=failure.value)


def _ignore(_: object) -> None:
    """Nobody wants to know."""
