"""What this node and its peers tell each other over the links: what is forwarded and retained, what each of them wants,
and what has become of the messages of durable groups.

What is sent waits for ``flush`` at the end of the broker's turn, which also says how far this node's log is safe; what
is said outside of a turn leaves soon, and promises nothing of the log that was not promised before. What comes is given
to the broker in the order of sending. Requests go by their names to whoever has entered himself in ``requests``, else
to ``questions``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from iot_mqtt.cluster import links, translation
from iot_mqtt.cluster.interests import Ours, Theirs
from iot_mqtt.cluster.joining import Place
from iot_mqtt.cluster.links import Links, Request, Routes, RoutesAck
from iot_mqtt.cluster.questions import Questions
from iot_mqtt.cluster.roster import Life
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.untold import Noted, Untold
from iot_mqtt.errors import Malformed
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.cluster import Forwarded, Interest, Node
from iot_mqtt.ports.cluster_status import PeerStatus
from iot_mqtt.ports.fields import made_of
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Member
from iot_mqtt.values import Message

log = logging.getLogger(__name__)

#: A request: the sender has dropped what it knew of our wishes, or has missed something.
ANEW: Final = "anew"
#: Requests that nobody answers have this id.
_NO_ANSWER: Final = 0
#: Seconds between two looks at who has told what it wants, during the start.
_LOOK: Final = 0.02
#: Seconds in which a node that stood still has read what was waiting for it.
_READ_BY_THEN: Final = 0.25
#: Seconds until everything is asked for once more, if it did not come.
_ASK_AGAIN: Final = 2.0


class Conversation:
    """Of one life of a node."""

    def __init__(
        self, place: Place, messaging: Messaging, clock: Clock, settings: ClusterSettings, words: Callable[[int], str]
    ) -> None:
        """``words``: a node by its number, for people."""
        self._words = words
        self._settings = settings
        self._clock = clock
        #: The broker, before anything is sent or comes.
        self.broker: Node | None = None
        #: The broker has loaded what is at home here: what it wants is complete.
        self.loaded = False
        self._closed = False
        self._flushing: Timer | None = None
        #: How far our log was given to the links.
        self._end = 0
        #: Peers that the broker has been told are up.
        self._up: set[int] = set()
        #: It has been told that what some member wants is not known; that some member is not heard.
        self._doubted = self._unheard = False
        #: How far each peer has announced its log.
        self._ends: dict[int, int] = {}
        self._theirs: dict[int, Theirs] = {}
        self.links = Links(messaging, clock, self, place.number, place.boot, settings.links, words)
        self.ours = Ours(clock, settings.known_within, lambda: self.links.peers)
        #: What nodes ask each other by name, for those above.
        self.questions = Questions(self.links, self.flush_soon, lambda: not self._doubted, words)
        #: Those that are off the list; ``look`` when they are fenced, and when they are cleaned up after.
        self.untold = Untold(self._read_noted, self.keeps, self.look, clock, settings.fence_again, words)
        #: Other requests: what takes them, by name.
        self.requests: dict[str, Callable[[int, Request], None]] = {}

    @property
    def node(self) -> Node:
        assert self.broker is not None, "attach the broker first"
        return self.broker

    async def open(self) -> None:
        """Listen. The broker is there, and its log is open."""
        # What earlier lives have recorded was forwarded to nobody by this one, and everybody reads it: when we say that
        # we act on what a peer wants, we must not say less.
        self._end = self.node.committed_end()
        await self.links.open()

    async def until_told(self) -> None:
        """Whoever publishes here will be told that it is recorded for everybody who wants it: know what all want. One
        that does not answer may be dead; what it keeps is known from the store.
        """
        until = self._clock.monotonic() + self._settings.told_within
        while not self._all_told():
            if self._clock.monotonic() >= until:
                return
            await pause(self._clock, _LOOK)

    def _has_told(self, peer: int) -> bool:
        return peer in self._theirs and self._theirs[peer].told

    def _is_heard(self, peer: int) -> bool:
        return peer in self._theirs and self._theirs[peer].heard

    def _all_told(self) -> bool:
        """Whether it is known what all members want."""
        return all(self._has_told(peer) for peer in self.links.peers)

    def members(self, members: Collection[Member], gone: Collection[Life]) -> None:
        """The list as it is now; ``gone``: the lives that are not there any more."""
        for life in gone:
            if not self._has_told(life.number):
                self.untold.left(life.number)
        self.untold.are_back([member.number for member in members])
        self.links.members(members)
        for life in gone:
            self.node.peer_left(life.number)
        self.look()

    def _read_noted(self, number: int, noted: Noted) -> None:
        self.node.recall(number, noted)

    def keeps(self, number: int, interest: Sequence[Interest], *, full: bool = False) -> None:
        """What a node that is gone keeps; it is told nothing. ``full``: and nothing else."""
        self.node.peer_interest(number, interest, _nothing, full=full)

    def look(self) -> None:
        """Somebody came or went, or has told what it wants, or what it told does not hold any more."""
        doubted = bool(self.untold) or not self._all_told()
        if doubted is not self._doubted:
            self._doubted = doubted
            self.node.doubt(doubted)
        unheard = bool(self.untold) or not all(map(self._is_heard, self.links.peers))
        if unheard is not self._unheard:
            self._unheard = unheard
            self.node.unheard(unheard)
        self.ours.look()

    def close(self) -> None:
        """Nothing more is said, and nobody waits for an answer any more."""
        self._closed = True
        self.links.close()
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self.ours.give_up()
        self.untold.stop()

    # What the broker tells the others: see ``ports.cluster.Peers``.

    def forward(self, peer: int, item: Forwarded) -> None:
        self.links.send(peer, item)

    def flush(self) -> None:
        if not self._closed:
            self._flush(self.node.committed_end())

    def changed(self, interest: Sequence[Interest]) -> int:
        delta = self.ours.changed(interest)
        if self.loaded and not self._closed:
            for part in delta.parts(self._settings.links.datagram_bytes):
                self.links.broadcast(part)
            self.flush_soon()
        return self.ours.version

    def when_known(self, version: int, call: Callable[[], None]) -> None:
        if self._closed:
            call()
        else:
            self.ours.when_known(version, call)

    def known_by(self, peer: int, version: int) -> bool:
        return peer not in self.links.peers or self.ours.known_by(peer, version)

    def tell_group(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        if not self._closed:
            body = translation.group_out(name, client_id, references)
            # What comes for an answer are words, too. Earlier releases pass over the number of a word.
            self._tell(peer, translation.GROUP + kind, body, question)

    def retain(self, topic: bytes, message: Message | None, version: int) -> None:
        if not self._closed and self.links.peers:
            self.links.broadcast(translation.retained_out(topic, message, version, self._clock.wall()))
            self.flush_soon()

    # Sending.

    def _flush(self, end: int) -> None:
        """``end``: what is recorded before it has been given to the links, for whoever is to get it."""
        self._end = max(self._end, end)
        self.links.flush(self._end)
        if self.loaded:
            condition = self.links.condition
            condition.routes_version, condition.routes_digest = self.ours.version, self.ours.digest.value

    def flush_soon(self) -> None:
        """Outside of the broker's turns; nothing is promised of the log that was not before."""
        if self._flushing is None and not self._closed:
            self._flushing = self._clock.call_later(0.0, self._flush_now)

    def _flush_now(self) -> None:
        self._flushing = None
        self._flush(self._end)

    def _tell(self, peer: int, name: str, body: bytes = b"", id: int = _NO_ANSWER) -> None:
        self.links.send(peer, Request(id, name, body))
        self.flush_soon()

    def tell_all(self, name: str, body: bytes) -> None:
        """A request that nobody answers, to every peer."""
        self.links.broadcast(Request(_NO_ANSWER, name, body))
        self.flush_soon()

    def tell_interest(self) -> None:
        """All that we want, to every peer."""
        for peer in self.links.peers:
            self._tell_everything(peer)
        self.flush_soon()

    def _tell_everything(self, peer: int) -> None:
        """All that we want; until it is acknowledged we rely on nothing from that peer."""
        self.ours.forgotten(peer)
        if not self.loaded:
            # An empty list would make it forget what our earlier life had kept.
            return
        for part in self.ours.everything(self.node.interest()).parts(self._settings.links.datagram_bytes):
            self.links.send(peer, part)
        self.flush_soon()

    def _ask_everything(self, peer: int) -> None:
        theirs = self._theirs[peer]
        now = self._clock.monotonic()
        if theirs.asked_at is None or now - theirs.asked_at >= _ASK_AGAIN:
            theirs.asked_at = now
            self._tell(peer, ANEW)

    # What the links tell: see ``links.LinkEvents``.

    def started(self, peer: int) -> None:
        """A life of it begins for us, or it is in the list again: nothing it said holds, and nothing we said."""
        self._theirs[peer] = Theirs()
        self._ends[peer] = 0
        self._up.discard(peer)
        self.node.peer_started(peer)
        self._tell_everything(peer)
        self.look()
        if self.links.is_up(peer):
            self.up(peer)

    def up(self, peer: int) -> None:
        if peer not in self._up:
            self._up.add(peer)
            self.node.peer_up(peer)
            if self._theirs[peer].told or self._theirs[peer].version:
                self._act_on(peer, ())

    def down(self, peer: int) -> None:
        """It is not heard. What its clients want is not forwarded from now on: it must not believe that it was when
        it hears how far our log is, so it learns of this first, and tells what it wants anew.
        """
        self._up.discard(peer)
        if self.links.send(peer, Request(_NO_ANSWER, ANEW, b"")):
            self._flush(self._end)
        theirs = self._theirs[peer] = Theirs()
        theirs.asked_at = self._clock.monotonic()
        self.node.peer_down(peer)
        self.look()

    def stood_still(self, peer: int) -> None:
        """Whoever told it something meanwhile may have stopped waiting for the word that it is known."""
        self._theirs[peer].stale(self._clock.monotonic() + _READ_BY_THEN)
        self.look()

    def gap(self, peer: int, lost: int) -> None:
        """Anything may have been in it."""
        log.warning("something from %s is lost: %d items or fewer", self._words(peer), lost)
        self.node.stream_broken(peer)
        self._tell_everything(peer)
        self._ask_everything(peer)

    def received(self, peer: int, items: Sequence[links.Item], end: int) -> None:
        node = self.node
        forwarded: list[Forwarded] = []
        acknowledged = -1
        for item in items:
            if isinstance(item, Forwarded):
                forwarded.append(item)
            elif isinstance(item, RoutesAck):
                acknowledged = max(acknowledged, item.version)
            else:
                if forwarded and _says_something_of_what_was_forwarded(item):
                    node.received(peer, forwarded, self._ends.get(peer, 0))
                    forwarded = []
                if isinstance(item, Request) and item.name == ANEW:
                    # What comes behind is not all that we want: before anything else is told of it.
                    acknowledged = -1
                    node.stream_broken(peer)
                    self._tell_everything(peer)
                else:
                    self._take(peer, item)
        self._ends[peer] = end
        node.received(peer, forwarded, end)
        if acknowledged >= 0:
            self.ours.acknowledged(peer, acknowledged)
            node.peer_knows(peer, acknowledged)
            self.ours.look()

    def heartbeat(self, peer: int, heartbeat: links.Heartbeat) -> None:
        theirs = self._theirs[peer]
        before, now = (theirs.told, theirs.heard), self._clock.monotonic()
        if not theirs.compare(heartbeat.routes_version, heartbeat.routes_digest, now, self._settings.behind):
            self._ask_everything(peer)
        if (theirs.told, theirs.heard) != before:
            self.look()

    def relieved(self, peer: int) -> None:
        """Publishers ask ``crowded`` whenever it matters to them."""

    # One item.

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
            log.error("%s says what it wants in a way that cannot be understood: %s", self._words(peer), error)
            return
        if told is not None:
            self._act_on(peer, told.interest, full=told.full)
            self.look()
        elif not item.more:
            self._ask_everything(peer)

    def _act_on(self, peer: int, interest: Sequence[Interest], *, full: bool = False) -> None:
        """Forward it what it wants from now on, and tell it so once what is staged is committed."""
        theirs = self._theirs[peer]
        version, heard = theirs.version, peer in self._up

        def acted_on() -> None:
            # Not if it has begun anew meanwhile, or we have dropped what it wants. Nothing is forwarded to one that is
            # not heard, although something may come that it had said before: it is told when it is.
            if heard and self._theirs.get(peer) is theirs:
                self.links.send(peer, RoutesAck(version))
                self.flush_soon()

        self.node.peer_interest(peer, interest, acted_on, full=full)

    def _take_request(self, peer: int, request: Request) -> None:
        if request.name.startswith(translation.GROUP):
            self._take_group(peer, request)
            return
        take = self.requests.get(request.name)
        if take is not None:
            take(peer, request)
        elif not self.questions.take(peer, request):
            self.links.refuse(peer, request, f"this node does not know what {request.name!r} is")
            self.flush_soon()

    def _take_group(self, peer: int, request: Request) -> None:
        try:
            told = translation.group_in(request.body)
        except Malformed as error:
            log.error("%s says something of a group that cannot be understood: %s", self._words(peer), error)
        else:
            self.node.group_told(peer, request.name.removeprefix(translation.GROUP), *told, request.id)

    # For people.

    def peer_status(self, number: int, name: str, member: Member | None) -> PeerStatus:
        """How a node looks that there is a link to; ``member``: as it is in the list."""
        link = self.links.links[number]
        theirs = self._theirs.get(number) or Theirs()
        heartbeat = link.heartbeat
        return made_of(
            PeerStatus,
            link.figures,
            number=number,
            node_id=name,
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
            crowded=self.links.crowded(number),
            routes=len(theirs.digest),
            routes_version=theirs.version,
            routes_agree=heartbeat is not None and theirs.agrees(heartbeat.routes_version, heartbeat.routes_digest),
            acts_on=self.ours.acknowledged_by(number),
            clock_offset=link.ahead,
        )


def _nothing() -> None:
    """Nobody is told."""


def _says_something_of_what_was_forwarded(item: links.Item) -> bool:
    """The broker must have all that came before it: a group may be asked about it, and "anew" breaks the stream."""
    return isinstance(item, Request) and (item.name == ANEW or item.name.startswith(translation.GROUP))
