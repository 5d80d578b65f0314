"""This node among the others: ``ports.cluster.Peers`` for its broker, over links, registry and grid.

::

    place = await enter(grid, node_id)               # number and boot; what earlier lives wrote is finished
    ...                                              # build the store, the log of that number, and the broker
    cluster = ClusterNode(place, ...)
    cluster.attach(broker.join(cluster, follow))
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
from dataclasses import replace
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster import links, translation
from iot_mqtt.cluster.adoption import Adoption
from iot_mqtt.cluster.channels import Channels
from iot_mqtt.cluster.fencing import Fences, SharedGrid
from iot_mqtt.cluster.interests import Ours, Theirs
from iot_mqtt.cluster.joining import Place, known_nodes
from iot_mqtt.cluster.links import LinkError, Links, Request, Routes, RoutesAck
from iot_mqtt.cluster.ownership import BUSY, RELEASED, Ownership
from iot_mqtt.cluster.questions import Questions
from iot_mqtt.cluster.roster import Life, Roster
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.status import ClusterStatus, PeerStatus
from iot_mqtt.errors import Malformed, Unavailable
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.cluster import Claim, Forwarded, Interest, Node
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Member, Registry, RegistryState
from iot_mqtt.values import Message

log = logging.getLogger(__name__)

#: Requests by name. "anew": the sender has dropped what it knew of our wishes, or has missed something.
RELEASE: Final = "release"
ANEW: Final = "anew"
CLEANED: Final = "cleaned"
#: Requests that nobody answers have this id.
_NO_ANSWER: Final = 0
#: Seconds between two looks at who has told what it wants, during the start.
_LOOK: Final = 0.02
#: Seconds until everything is asked for once more, if it did not come.
_ASK_AGAIN: Final = 2.0


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
        #: Why this life is over.
        self.over: str | None = None
        self._life = Life(place.number, place.boot)
        self._grid = grid
        self._registry = registry
        self._clock = clock
        self._node: Node | None = None
        self._is_loaded = False
        self._stopping = False
        self._suspended = False
        self._entry = Member(place.node_id, place.number, place.boot, version, addresses=addresses)
        self._shown = self._entry
        self._refreshing: Timer | None = None
        self._flushing: Timer | None = None
        self._end = 0
        #: Peers that the broker has been told are up.
        self._up: set[int] = set()
        #: How far each peer has announced its log.
        self._ends: dict[int, int] = {}
        self._theirs: dict[int, Theirs] = {}
        self.released = self.releases_refused = 0

        self._links = Links(messaging, clock, self, place.number, place.boot, self.settings.links)
        #: What nodes ask each other by name, for those above.
        self.questions = Questions(self._links, self._flush_soon)
        self._roster = Roster(place.number, clock, self.settings.unseen_grace)
        self._fences = Fences(grid)
        self._fences.on_fenced = self._fenced
        self._channels = Channels(grid, clock, self._life, self.settings.scan_page, self.settings.swaps_at_once)
        self._ours = Ours(clock, self.settings.known_within, lambda: self._links.peers)
        self._ownership = Ownership(
            self._channels,
            self._roster,
            self._fences,
            clock,
            self.settings,
            self._life,
            lambda: self._is_connected,
            self._ask_release,
        )
        self._adoption = Adoption(
            self,
            grid,
            registry,
            self._channels,
            self._ownership,
            self._fences,
            self._roster,
            clock,
            self.settings,
            self._life,
            rng or random.Random(),
        )

    # The life.

    def attach(self, node: Node) -> None:
        """The broker; before ``start``."""
        self._node = node

    @property
    def node(self) -> Node:
        assert self._node is not None, "attach the broker first"
        return self._node

    async def start(self) -> frozenset[str]:
        """Enter the list of members and take the sessions of earlier lives: the clients that are at home here.

        The node's log is open.
        """
        # What earlier lives have recorded was forwarded to nobody by this one, and everybody reads it: when we say that
        # we act on what a peer wants, we must not say less.
        self._end = self.node.committed_end()
        for known in await known_nodes(self._grid):
            if known.number != self.number:
                # What it keeps is recorded, and its log is read, whether or not it is there.
                self.node.peer_down(known.number)
        await self._links.open()
        self._registry.on_state = self._on_state
        self._registry.on_members = self._on_members
        await self._registry.register(self._entry)
        self._check()
        self._on_members()
        clients: set[str] = set()
        earlier = Life(self.number, self.place.boot - 1)
        async for portion in self._channels.take_over(earlier, self._ownership.loading):
            for client_id in portion.lost:
                self._ownership.loaded(client_id)
            if portion.failed:
                raise next(iter(portion.failed.values()))
            clients.update(portion.taken)
        await self._until_told()
        self._check()
        self._refresh_later()
        return frozenset(clients)

    async def _until_told(self) -> None:
        """Whoever publishes here will be told that it is recorded for everybody who wants it: know what all want. One
        that does not answer may be dead; what it keeps is known from the store.
        """
        until = self._clock.monotonic() + self.settings.known_within
        while not all(peer in self._theirs and self._theirs[peer].told for peer in self._links.peers):
            if self._clock.monotonic() >= until:
                return
            waiting: Deferred[None] = Deferred()
            self._clock.call_later(_LOOK, partial(waiting.callback, None))
            await waiting

    def loaded(self) -> None:
        """The broker has loaded what ``start`` returned."""
        self._check()
        self._is_loaded = True
        self._ownership.all_loaded()
        for peer in self._links.peers:
            self._tell_everything(peer)
        self._flush_soon()
        self._adoption.start()

    async def stop(self) -> None:
        """Leave: others take our sessions at once. The broker has committed everything before."""
        if self._stopping:
            return
        self._stopping = True
        self._end_quietly()
        await self._registry.close()

    def end_life(self, reason: str) -> None:
        """It is over: the grid has said that this life is fenced, or the registry has lost it."""
        if self.over is not None or self._stopping:
            return
        self.over = reason
        log.error("the life of this node is over: %s", reason, extra={"node": self.number, "boot": self.place.boot})
        self._end_quietly()
        self.on_life_over(reason)

    def _end_quietly(self) -> None:
        self._adoption.stop()
        self._links.close()
        for timer in (self._refreshing, self._flushing):
            if timer is not None:
                timer.cancel()
        self._refreshing = self._flushing = None
        self._ours.give_up()

    def _check(self) -> None:
        if self.over is not None:
            raise Unavailable(f"the life of this node is over: {self.over}")

    @property
    def _is_over(self) -> bool:
        return self.over is not None or self._stopping

    @property
    def _is_connected(self) -> bool:
        """Whether this life may come to own anything new."""
        return not self._is_over and self._registry.state is RegistryState.CONNECTED

    # The entry in the list.

    def show(self, *, load: float, clients: int) -> None:
        """How this node is, for the others; they see it some seconds later."""
        # Two digits are enough, and spare an update whenever nothing much changed.
        self._entry = replace(self._entry, load=round(load, 2), clients=clients)
        self._links.condition.load = load

    def reachable_at(self, addresses: Mapping[str, str]) -> None:
        """Where clients find this node, by listener; they are let in from now on."""
        self._entry = replace(self._entry, addresses=addresses)
        self._refresh()

    def drain(self, draining: bool = True) -> None:
        """This node wants no new clients."""
        self._entry = replace(self._entry, draining=draining)
        self._links.condition.draining = draining
        self._refresh()

    def _refresh_later(self) -> None:
        self._refreshing = self._clock.call_later(self.settings.refresh, self._refresh_regularly)

    def _refresh_regularly(self) -> None:
        self._refresh()
        self._refresh_later()

    def _refresh(self) -> None:
        if self._entry != self._shown and self._is_connected:
            self._shown = self._entry
            self._registry.update(self._entry)

    # Peers: what the broker asks.

    def forward(self, peer: int, item: Forwarded) -> None:
        """See ``ports.cluster.Peers``, as for all of these."""
        self._links.send(peer, translation.forwarded_out(item))

    def flush(self) -> None:
        if not self._is_over:
            self._flush(self.node.committed_end())

    def crowded(self, peer: int) -> bool:
        return self._links.crowded(peer)

    def changed(self, interest: Sequence[Interest]) -> int:
        delta = self._ours.changed(interest)
        if self._is_loaded and not self._is_over:
            for part in delta.parts(self.settings.links.datagram_bytes):
                self._links.broadcast(part)
            self._flush_soon()
        return self._ours.version

    def when_known(self, version: int, call: Callable[[], None]) -> None:
        if self._is_over:
            call()
        else:
            self._ours.when_known(version, call)

    def known_by(self, peer: int, version: int) -> bool:
        return peer not in self._links.peers or self._ours.known_by(peer, version)

    def tell_group(self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference]) -> None:
        if not self._is_over:
            self._tell(peer, translation.GROUP + kind, translation.group_out(name, client_id, references))

    def retain(self, topic: bytes, message: Message | None, version: int) -> None:
        if not self._is_over and self._links.peers:
            self._links.broadcast(translation.retained_out(topic, message, version, self._clock.wall()))
            self._flush_soon()

    def claim(
        self, client_id: str, done: Callable[[Claim, str], None], wanted: Callable[[], bool] | None = None
    ) -> None:
        claiming = Deferred.fromCoroutine(self._ownership.claim(client_id, wanted))
        claiming.addCallback(lambda result: done(*result))
        claiming.addErrback(_report, "a claim failed")

    # Sending.

    def _flush(self, end: int) -> None:
        """``end``: what is recorded before it has been given to the links, for whoever is to get it."""
        self._end = max(self._end, end)
        self._links.flush(self._end)
        if self._is_loaded:
            condition = self._links.condition
            condition.routes_version, condition.routes_digest = self._ours.version, self._ours.digest.value

    def _flush_soon(self) -> None:
        """Outside of the broker's turns; nothing is promised of the log that was not before."""
        if self._flushing is None and not self._is_over:
            self._flushing = self._clock.call_later(0.0, self._flush_now)

    def _flush_now(self) -> None:
        self._flushing = None
        self._flush(self._end)

    def _tell(self, peer: int, name: str, body: bytes = b"") -> None:
        self._links.send(peer, Request(_NO_ANSWER, name, body))
        self._flush_soon()

    def _tell_everything(self, peer: int) -> None:
        """All that we want; until it is acknowledged we rely on nothing from that peer."""
        self._ours.forgotten(peer)
        if not self._is_loaded:
            # An empty list would make it forget what our earlier life had kept.
            return
        for part in self._ours.everything(self.node.interest()).parts(self.settings.links.datagram_bytes):
            self._links.send(peer, part)
        self._flush_soon()

    def _ask_everything(self, peer: int) -> None:
        theirs = self._theirs[peer]
        now = self._clock.monotonic()
        if theirs.asked_at is None or now - theirs.asked_at >= _ASK_AGAIN:
            theirs.asked_at = now
            self._tell(peer, ANEW)

    # What the links tell.

    def started(self, peer: int) -> None:
        """A life of it begins for us, or it is in the list again: nothing it said holds, and nothing we said."""
        self._theirs[peer] = Theirs()
        self._ends[peer] = 0
        self._up.discard(peer)
        self.node.peer_down(peer)
        self.node.stream_broken(peer)
        self._tell_everything(peer)
        self._ours.look()
        if self._links.is_up(peer):
            self.up(peer)

    def up(self, peer: int) -> None:
        if peer not in self._up:
            self._up.add(peer)
            self.node.peer_up(peer)

    def down(self, peer: int) -> None:
        """It is not heard. What its clients want is not forwarded from now on: it must not believe that it was when
        it hears how far our log is, so it learns of this first, and tells what it wants anew.
        """
        self._up.discard(peer)
        if self._links.send(peer, Request(_NO_ANSWER, ANEW, b"")):
            self._flush(self._end)
        theirs = self._theirs[peer] = Theirs()
        theirs.asked_at = self._clock.monotonic()
        self.node.peer_down(peer)
        self._ours.look()

    def gap(self, peer: int, lost: int) -> None:
        """Anything may have been in it."""
        log.warning("something from node %d is lost: %d items or fewer", peer, lost)
        self.node.stream_broken(peer)
        self._tell_everything(peer)
        self._ask_everything(peer)

    def received(self, peer: int, items: Sequence[links.Item], end: int) -> None:
        node = self.node
        forwarded: list[Forwarded] = []
        acknowledged = -1
        for item in items:
            if item.__class__ is links.Forwarded:
                forwarded.append(translation.forwarded_in(item))
            elif isinstance(item, RoutesAck):
                acknowledged = max(acknowledged, item.version)
            elif isinstance(item, Request) and item.name == ANEW:
                # What comes behind is not all that we want: before anything else is told of it.
                if forwarded:
                    node.received(peer, forwarded, self._ends.get(peer, 0))
                    forwarded = []
                acknowledged = -1
                node.stream_broken(peer)
                self._tell_everything(peer)
            elif isinstance(item, Request) and item.name.startswith(translation.GROUP):
                # It may ask about what it has just forwarded.
                if forwarded:
                    node.received(peer, forwarded, self._ends.get(peer, 0))
                    forwarded = []
                self._take_group(peer, item)
            else:
                self._take(peer, item)
        self._ends[peer] = end
        node.received(peer, forwarded, end)
        if acknowledged >= 0:
            self._ours.acknowledged(peer, acknowledged)
            node.peer_knows(peer, acknowledged)
            self._ours.look()

    def _take(self, peer: int, item: links.Item) -> None:
        if isinstance(item, Routes):
            self._take_routes(peer, item)
        elif isinstance(item, links.Retained):
            self.node.retained(peer, item.topic, translation.retained_in(item), item.version)
        elif isinstance(item, Request):
            self._take_request(peer, item)

    def _take_routes(self, peer: int, item: Routes) -> None:
        theirs = self._theirs[peer]
        try:
            told = theirs.take(item)
        except Malformed as error:
            log.error("node %d says what it wants in a way that cannot be understood: %s", peer, error)
            return
        if told is not None:
            self.node.peer_interest(
                peer, told.interest, partial(self._acknowledge, peer, theirs, told.version), full=told.full
            )
        elif not item.more:
            self._ask_everything(peer)

    def _acknowledge(self, peer: int, theirs: Theirs, version: int) -> None:
        # Not if it has begun anew meanwhile, or we have dropped what it wants.
        if self._theirs.get(peer) is theirs:
            self._links.send(peer, RoutesAck(version))
            self._flush_soon()

    def heartbeat(self, peer: int, heartbeat: links.Heartbeat) -> None:
        theirs = self._theirs[peer]
        if theirs.agrees(heartbeat.routes_version, heartbeat.routes_digest):
            theirs.told = True
        else:
            self._ask_everything(peer)

    def relieved(self, peer: int) -> None:
        """Publishers ask ``crowded`` whenever it matters to them."""

    # Requests.

    def _take_request(self, peer: int, request: Request) -> None:
        if request.name == RELEASE:
            self._release(peer, request)
        elif request.name == CLEANED:
            self._cleaned(Life(request.body[0], int.from_bytes(request.body[1:9], "big")))
        elif not self.questions.take(peer, request):
            self._links.refuse(peer, request, f"this node does not know what {request.name!r} is")
            self._flush_soon()

    def _take_group(self, peer: int, request: Request) -> None:
        try:
            told = translation.group_in(request.body)
        except Malformed as error:
            log.error("node %d says something of a group that cannot be understood: %s", peer, error)
        else:
            self.node.group_told(peer, request.name.removeprefix(translation.GROUP), *told)

    def _release(self, peer: int, request: Request) -> None:
        client_id = request.body.decode(errors="replace")
        if not self._is_loaded or self._is_over or self._ownership.is_loading(client_id):
            self._answer_release(peer, request, released=False)
        else:
            self.node.release(client_id, lambda released: self._answer_release(peer, request, released=released))

    def _answer_release(self, peer: int, request: Request, *, released: bool) -> None:
        if released:
            self.released += 1
        else:
            self.releases_refused += 1
        self._links.reply(peer, request, RELEASED if released else BUSY)
        self._flush_soon()

    def _ask_release(self, number: int, client_id: str) -> Deferred[bytes | LinkError]:
        answer: Deferred[bytes | LinkError] = Deferred()
        self._links.request(number, RELEASE, client_id.encode(), self.settings.release_timeout, answer.callback)
        self._flush_soon()
        return answer

    # What the registry tells.

    def _on_state(self, state: RegistryState) -> None:
        if state is RegistryState.LOST:
            self.end_life("the registry has lost this node: others may have taken its place")
            return
        suspended = state is RegistryState.SUSPENDED
        if suspended != self._suspended and not self._is_over:
            self._suspended = suspended
            self.on_suspended(suspended)
        if not suspended:
            self._on_members()

    def _on_members(self) -> None:
        if self._is_over or self._registry.state is not RegistryState.CONNECTED:
            return
        members = self._registry.members.values()
        gone = self._roster.update(members)
        self._links.members(members)
        self._ours.look()
        for life in gone:
            self._bury(life)

    def _bury(self, life: Life) -> None:
        """It is dead, or will be: fence it, so that its log has an end, and look after its sessions."""
        if self._is_over or life.number in self._roster.members:
            return
        if not self._is_connected:
            self._clock.call_later(self.settings.fence_again, partial(self._bury, life))
            return
        fencing = Deferred.fromCoroutine(self._fences.fence(*life))
        fencing.addCallbacks(lambda _: self._adoption.died(life), partial(self._not_fenced, life))
        fencing.addErrback(_report, "a dead node cannot be looked after")

    def _not_fenced(self, life: Life, failure: Failure) -> None:
        log.warning("node %d cannot be fenced now, trying again: %s", life.number, failure.value)
        self._clock.call_later(self.settings.fence_again, partial(self._bury, life))

    def _fenced(self, number: int, boot: int) -> None:
        """From here; whoever wanted it."""
        if number != self.number and number not in self._roster.members and not self._is_over:
            self.node.node_gone(number)

    # What adoption needs.

    @property
    def connected(self) -> bool:
        """See ``adoption.Adopter``, as for all of these."""
        return self._is_loaded and self._is_connected

    def when_all_known(self, call: Callable[[], None]) -> None:
        self.when_known(self._ours.version, call)

    def found_dead(self, life: Life) -> None:
        self._bury(life)

    def tell_cleaned(self, life: Life) -> None:
        body = bytes((life.number,)) + life.boot.to_bytes(8, "big")
        self._links.broadcast(Request(_NO_ANSWER, CLEANED, body))
        self._flush_soon()
        self._cleaned(life)

    def _cleaned(self, life: Life) -> None:
        self._adoption.cleaned(life)
        if life.number != self.number and life.number not in self._roster.members:
            self.node.peer_interest(life.number, (), _nothing, full=True)

    # For people.

    def status(self) -> ClusterStatus:
        """How the cluster looks from here."""
        peers = tuple(self._peer_status(number) for number in sorted(self._links.links))
        return ClusterStatus(
            node_id=self.place.node_id,
            number=self.number,
            boot=self.place.boot,
            over=self.over,
            registry=self._registry.state.value,
            registry_trouble=self._registry.trouble,
            routes=len(self._ours.digest),
            routes_version=self._ours.version,
            draining=self._entry.draining,
            peers=peers,
            known_late=self._ours.late,
            claims_granted=dict(self._ownership.granted),
            claims_refused={str(reason): count for reason, count in self._ownership.refused.items()},
            released=self.released,
            releases_refused=self.releases_refused,
            fences=self._fences.asked,
            dead=dict(self._adoption.dead),
            adoptions=self._adoption.finished,
            adopted_clients=self._adoption.clients,
            adoption_failures=self._adoption.failures,
            unreadable_channels=self._channels.unreadable,
            incompatible=self._links.incompatible,
            strangers=self._links.strangers,
        )

    def _peer_status(self, number: int) -> PeerStatus:
        link = self._links.links[number]
        member = self._roster.members.get(number)
        theirs = self._theirs.get(number) or Theirs()
        heartbeat = link.heartbeat
        figures = link.figures
        return PeerStatus(
            number=number,
            node_id=member.node_id if member is not None else "",
            boot=link.peer_boot,
            version=member.version if member is not None else "",
            member=member is not None,
            up=link.up,
            hears_us=link.hears_us,
            draining=heartbeat.draining if heartbeat is not None else False,
            load=heartbeat.load if heartbeat is not None else 0.0,
            clients=member.clients if member is not None else 0,
            end=self._ends.get(number, 0),
            unconfirmed=link.ring.bytes,
            crowded=self._links.crowded(number),
            routes=len(theirs.digest),
            routes_version=theirs.version,
            routes_agree=heartbeat is not None and theirs.agrees(heartbeat.routes_version, heartbeat.routes_digest),
            acts_on=self._ours.acknowledged_by(number),
            repairs_asked=figures.repairs_asked,
            repairs_served=figures.repairs_served,
            gaps=figures.gaps,
            items_missed=figures.items_missed,
            datagrams_sent=figures.datagrams_sent,
            items_sent=figures.items_sent,
            bytes_sent=figures.bytes_sent,
            datagrams_received=figures.datagrams_received,
            items_received=figures.items_received,
            bytes_received=figures.bytes_received,
        )


def _report(failure: Failure, what: str) -> None:
    log.error(what, exc_info=failure.value)


def _ignore(_: object) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """Nobody is told."""
