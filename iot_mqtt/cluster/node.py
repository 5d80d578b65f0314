"""One life of this node among the others, from the list of members to its end: ``ports.cluster.Peers`` for its broker.
What it consists of is made in ``composition``; this begins and ends that, and gives it what the registry tells.

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

from iot_mqtt.cluster.composition import compose
from iot_mqtt.cluster.fencing import SharedGrid
from iot_mqtt.cluster.joining import Place
from iot_mqtt.cluster.roster import Life
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Claim, Forwarded, Interest, Node
from iot_mqtt.ports.cluster_status import ClusterStatus
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Registry, RegistryState
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
        self.place = place
        self.number = place.number
        #: Told once, with the reason. Nothing that this life still wants to write will be written: the broker is to
        #: drop its clients, and whoever wants to go on begins a new life.
        self.on_life_over: Callable[[str], None] = _ignore
        #: Told True when the registry cannot be reached, False when it can again.
        self.on_suspended: Callable[[bool], None] = _ignore
        self._suspended = False
        self._registry = registry
        self._grid = grid
        parts = self._parts = compose(
            place,
            version=version,
            grid=grid,
            registry=registry,
            messaging=messaging,
            clock=clock,
            settings=settings or ClusterSettings(),
            addresses=addresses,
            rng=rng or random.Random(),
        )
        self._membership = parts.membership
        self._registration = parts.registration
        self._conversation = parts.conversation
        self._links = parts.conversation.links
        #: What nodes ask each other by name, for those above.
        self.questions = parts.conversation.questions
        self._known = parts.known
        self._departures = parts.departures
        self._adoption = parts.adoption
        self._ownership = parts.ownership
        #: Whose clocks are wrong; to be looked at again and again.
        self.clocks = parts.clocks

    # The life.

    def attach(self, node: Node) -> None:
        """The broker; before ``start``."""
        self._conversation.broker = node

    async def start(self) -> frozenset[str]:
        """Enter the list of members and take the sessions of earlier lives: the clients that are at home here.

        The node's log is open.
        """
        broker = self._conversation.node
        others = list(await self._known.numbers())
        for number in others:
            # What it keeps is recorded, and its log is read, whether or not it is there.
            broker.peer_down(number)
        broker.follow(others)
        await self._conversation.open()
        await self._departures.open()
        self._registry.on_state = self._on_state
        self._registry.on_members = self._on_members
        await self._registration.enter()
        self._membership.check()
        self._on_members()
        clients = await self._parts.takeover.inherit(Life(self.number, self.place.boot - 1))
        await self._conversation.until_told()
        self._membership.check()
        self._registration.start()
        return clients

    def loaded(self) -> None:
        """The broker has loaded what ``start`` returned."""
        self._membership.check()
        self._conversation.loaded = True
        self._ownership.loaded()
        self._conversation.tell_interest()
        self._adoption.start()

    async def note_stopped(self) -> None:
        """Others will know that this node was stopped in order; before ``stop``."""
        await self._known.stops()

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
        log.error(
            "the life of this node is over: %s", reason, extra={"node": self.place.node_id, "boot": self.place.boot}
        )
        self._end_quietly()
        self.on_life_over(reason)

    def _end_quietly(self) -> None:
        self._adoption.stop()
        self._ownership.stop()
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
        self._ownership.stray(client_id)

    async def let_go(self, client_id: str, unused: Callable[[], bool]) -> None:
        await self._ownership.let_go(client_id, unused)

    async def remove(self, node_id: str) -> bool:
        """See ``KnownNodes``."""
        return await self._known.remove(node_id)

    async def look(self) -> None:
        """Which nodes are known and lacking, as the grid has it now; every few seconds."""
        await self._known.look()

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
        self._conversation.members(members, gone)
        for life in gone:
            self._adoption.gone(life)

    # For people.

    def status(self) -> ClusterStatus:
        """How the cluster looks from here."""
        parts = self._parts
        conversation, members = parts.conversation, parts.membership.members
        links, ours, dead = conversation.links, conversation.ours, parts.adoption.dead
        return ClusterStatus(
            node_id=self.place.node_id,
            number=self.place.number,
            boot=self.place.boot,
            over=parts.membership.over,
            registry=self._registry.state.value,
            registry_trouble=self._registry.trouble,
            copies_missing=self._grid.copies_missing,
            read_trouble=self._grid.read_trouble,
            read_failures=self._grid.read_failures,
            grid_servers=self._grid.servers,
            routes=len(ours.digest),
            routes_version=ours.version,
            draining=parts.registration.draining,
            peers=tuple(
                conversation.peer_status(number, parts.known.name(number), members.get(number))
                for number in sorted(links.links)
            ),
            absent=parts.known.absent,
            known_late=ours.late,
            claims_granted=dict(parts.ownership.granted),
            claims_refused={str(reason): count for reason, count in parts.ownership.refused.items()},
            released=parts.releases.released,
            releases_refused=parts.releases.refused,
            fences=parts.fences.asked,
            dead=dead,
            adoptions=parts.adoption.finished,
            adopted_clients=parts.takeover.adopted,
            adoption_failures=parts.adoption.failures + parts.loading.failures,
            unreadable_channels=parts.channels.unreadable,
            incompatible=links.incompatible,
            strangers=links.strangers,
            clocks_wrong=parts.clocks.wrong,
        )


def _report(failure: Failure, what: str) -> None:
    log.error(what, exc_info=failure.value)


def _ignore(_: object) -> None:
    """Nobody wants to know."""
