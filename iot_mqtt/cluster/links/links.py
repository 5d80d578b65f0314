"""The links of a node: one to every other member, over Messaging, by number.

What is sent in a turn is gathered for each peer, and ``flush`` at its end makes of it one datagram for each (more,
if it is much). What comes is told to the owner, for each peer in order and once.

The *end*: ``flush(end)`` promises that whatever our log has below that position has been given to ``send`` for
everyone who is to get it by link. So a receiver that has come to an ``end`` without a gap has missed nothing below
it, and need not read the log up to there. That holds from the moment on at which the sender knew the receiver's
routes, which ``RoutesAck`` tells: a cursor of a new route reads the log up to the position in it first.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from iot_mqtt.cluster.links import items_v1, proto_v1
from iot_mqtt.cluster.links.events import CaughtUp, Down, Event, Gap, Items, Started, StoodStill, Up
from iot_mqtt.cluster.links.link import Condition, Link
from iot_mqtt.cluster.links.settings import LinkSettings
from iot_mqtt.cluster.links.values import Heartbeat, Item, LinkError, Reply, Request, RequestRefused, Unknown, halves
from iot_mqtt.errors import Malformed
from iot_mqtt.ports.clock import Clock, Timer, until_beat
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.cluster_status import node_words
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Member

log = logging.getLogger(__name__)

#: What a request comes to: the body of its answer, or why there is none.
Done = Callable[[bytes | LinkError], None]

_REQUEST_IDS: Final = 1 << 32
#: From where one life counts them to where the next one does: as far from all the lives before as can be.
_LIFE_TO_LIFE: Final = 0x9E37_79B1
#: Different kinds of nonsense that are told; a bound, not a tuning knob.
_MOST_COMPLAINTS: Final = 20


def topic_of(number: int) -> str:
    """Where the node with this number listens."""
    return f"iot.node.{number}"


class LinkEvents(Protocol):
    """Who is told what comes. It may send, flush, and change the members while it is told."""

    def started(self, peer: int) -> None:
        """A life of the peer begins for us (the first one, or after a restart), or it is on the list of members
        again. It has nothing of what was sent before: send it all it has to know. Nothing it said before holds.
        """
        ...

    def up(self, peer: int) -> None:
        """It is heard, for the first time or again."""
        ...

    def down(self, peer: int) -> None:
        """It is not heard any more, or has left the list. What is sent to it is kept as long as there is room."""
        ...

    def stood_still(self, peer: int) -> None:
        """This process did. What is read now may have been sent long ago, and say little of how the peer is."""
        ...

    def received(self, peer: int, items: Sequence[Item], end: int) -> None:
        """The next items, maybe none, and how far the peer's log need not be read; an ``end`` may be repeated."""
        ...

    def gap(self, peer: int, lost: int) -> None:
        """So many items, or fewer, are missing here."""
        ...

    def heartbeat(self, peer: int, heartbeat: Heartbeat) -> None:
        """How the peer is; all that it sent before this has been told."""
        ...

    def relieved(self, peer: int) -> None:
        """It was said to be crowded, and is not any more."""
        ...


class _Peer:
    """A link with what is gathered for it and what is asked of it."""

    __slots__ = ("link", "topic", "pending", "pending_bytes", "asked", "last_id", "told_end")

    def __init__(self, link: Link, last_id: int) -> None:
        self.link = link
        self.topic = topic_of(link.peer)
        #: Written items.
        self.pending: list[bytes] = []
        self.pending_bytes = 0
        #: Id of a request → when it is too late, and who waits.
        self.asked: dict[int, tuple[float, Done]] = {}
        #: A peer may answer what an earlier life of this node has asked, and find this one.
        self.last_id = last_id
        self.told_end = 0


class Links:
    """Everything in the reactor's thread. ``open`` first, then ``members`` whenever the list has changed."""

    def __init__(
        self,
        messaging: Messaging,
        clock: Clock,
        owner: LinkEvents,
        number: int,
        boot: int,
        settings: LinkSettings | None = None,
        words: Callable[[int], str] = node_words,
    ) -> None:
        """``words``: a node by its number, for people."""
        self._words = words
        self.number = number
        self.boot = boot
        self.settings = settings or LinkSettings()
        #: Set routes, load and draining here; ``end`` is set by ``flush``.
        self.condition = Condition()
        #: Datagrams from numbers that were never on the list, and for other numbers than ours.
        self.strangers = 0
        #: Datagrams that do not even say who sent them.
        self.malformed = 0
        self._complained: set[str] = set()
        #: Members that speak no version of the protocol that we do, by node id.
        self.incompatible: tuple[str, ...] = ()
        self._messaging = messaging
        self._clock = clock
        self._owner = owner
        self._peers: dict[int, _Peer] = {}
        self._events: deque[tuple[_Peer, Event]] = deque()
        self._telling = False
        #: Those that the owner was told are crowded.
        self._crowded: set[int] = set()
        self._timer: Timer | None = None
        self._tick_at = 0.0
        self._closed = False

    async def open(self) -> None:
        """Listen; from now on time is looked at."""
        self._messaging.on_flow = self._on_flow
        await self._messaging.listen(topic_of(self.number), self._receive)
        self._later()

    def close(self) -> None:
        """Nothing is sent or told any more but the end of what was asked."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for peer in self._peers.values():
            self._fail(peer, "the links are closed")

    # -- who is there ----------------------------------------------------------------------------------

    def members(self, members: Iterable[Member]) -> None:
        """The list of members, this node among them or not."""
        now = self._clock.monotonic()
        there: dict[int, Member] = {}
        incompatible = []
        for member in members:
            if member.number == self.number:
                continue
            if proto_v1.VERSION in member.protocols:
                there[member.number] = member
            else:
                incompatible.append(member.node_id)
        self.incompatible = tuple(incompatible)
        for number, peer in list(self._peers.items()):
            if number not in there and peer.link.member:
                peer.link.leave()
                self._forget(peer, "the node has left")
                self._take(peer)
        for number, member in there.items():
            known = self._peers.get(number)
            if known is None:
                link = Link(self.number, self.boot, number, self.condition, self.settings, self._clock.wall)
                known = self._peers[number] = _Peer(link, self.boot * _LIFE_TO_LIFE % _REQUEST_IDS)
            known.link.meet(member.boot, now)
            self._take(known)
            self._sooner(known)
        self._tell()

    @property
    def peers(self) -> tuple[int, ...]:
        """The other members that can be spoken to, up or not."""
        return tuple(number for number, peer in self._peers.items() if peer.link.member)

    @property
    def links(self) -> Mapping[int, Link]:
        """Every link that there ever was, for its state and figures."""
        return {number: peer.link for number, peer in self._peers.items()}

    def is_up(self, peer: int) -> bool:
        """It is a member and is heard."""
        found = self._peers.get(peer)
        return found is not None and found.link.up

    def heard_at(self, peer: int) -> float | None:
        """When it was last heard, by the monotonic clock; None: never."""
        found = self._peers.get(peer)
        return None if found is None else found.link.heard_at

    def ahead(self, members: Mapping[int, Member]) -> dict[str, float]:
        """By node id: seconds that the wall clocks of these are ahead of ours, as far as that is known."""
        found = {members[number].node_id: peer.link.ahead for number, peer in self._peers.items() if number in members}
        return {name: ahead for name, ahead in found.items() if ahead is not None}

    def clocks_settled(self, members: Mapping[int, Member]) -> bool:
        """No clock of those that are heard is being measured anew."""
        links = [peer.link for number, peer in self._peers.items() if number in members]
        return all(link.clock.settled for link in links if link.up)

    def takes_more(self, peer: int) -> bool:
        """Whether it has said that it reads publications of several runs."""
        found = self._peers.get(peer)
        return found is not None and found.link.takes_more

    def crowded(self, peer: int) -> bool:
        """Too much is under way to it: send no more than must be, until ``relieved``.

        One that is down is never crowded: it slows nobody, and reads the log when it is back.
        """
        found = self._peers.get(peer)
        if found is None:
            return False
        crowded = self._is_crowded(found)
        if crowded:
            self._crowded.add(peer)
        return crowded

    def _is_crowded(self, peer: _Peer) -> bool:
        link = peer.link
        return link.up and (
            link.ring.bytes + peer.pending_bytes > self.settings.crowded_bytes
            or self._messaging.waiting > self.settings.waiting_bytes
        )

    # -- out -------------------------------------------------------------------------------------------

    def send(self, peer: int, item: Item) -> bool:
        """Gather an item for one peer; False if it is no member."""
        found = self._peers.get(peer)
        if found is None or not found.link.member:
            return False
        self._gather((found,), item)
        return True

    def send_to(self, peers: Iterable[int], item: Item) -> None:
        """The same item for several; it is written once. Those that are no members are left out."""
        found = [self._peers[peer] for peer in peers if peer in self._peers]
        self._gather([peer for peer in found if peer.link.member], item)

    def broadcast(self, item: Item) -> None:
        """For every member."""
        self.send_to(tuple(self._peers), item)

    def _gather(self, peers: Sequence[_Peer], item: Item) -> None:
        if not peers:
            return
        if isinstance(item, Forwarded) and (item.more or item.run.count > 1):
            size = len(item.run.wire) + sum([len(run.wire) for run in item.more])
            if size > self.settings.datagram_bytes:
                for half in halves(item):
                    self._gather(peers, half)
                return
        written = items_v1.write_item(item)
        for peer in peers:
            peer.pending.append(written)
            peer.pending_bytes += len(written)

    def flush(self, end: int) -> None:
        """The turn is over: send what was gathered. For ``end`` see the top of this file."""
        if self._closed:
            return
        now = self._clock.monotonic()
        for peer in self._peers.values():
            if peer.pending:
                self._post(peer, end, now)
                self._sooner(peer)
        # Heartbeats tell it from now on, not earlier.
        self.condition.end = end

    def _post(self, peer: _Peer, end: int, now: float) -> None:
        pending, peer.pending, peer.pending_bytes = peer.pending, [], 0
        link, limit = peer.link, self.settings.datagram_bytes
        begin = size = 0
        for index, item in enumerate(pending):
            if size and size + len(item) > limit:
                # More of what is below the end is still to come.
                self._post_one(peer, link.post(pending[begin:index], link.announced, now))
                begin, size = index, 0
            size += len(item)
        self._post_one(peer, link.post(pending[begin:] if begin else pending, end, now))

    def _post_one(self, peer: _Peer, payload: bytes) -> None:
        if self._messaging.waiting > self.settings.waiting_most:
            peer.link.figures.withheld += 1
        else:
            self._send(peer, payload)

    def _send(self, peer: _Peer, payload: bytes) -> None:
        figures = peer.link.figures
        if self._messaging.send(peer.topic, payload):
            figures.bytes_sent += len(payload)
        else:
            figures.unsent += 1

    # -- requests --------------------------------------------------------------------------------------

    def request(self, peer: int, name: str, body: bytes, timeout: float, done: Done) -> None:
        """Ask a peer; the question leaves with the next flush. ``done`` is called once, at once if it is no member."""
        if self._closed:
            # Nobody looks at the time any more: it would be waited for without end.
            done(LinkError("the links are closed"))
            return
        found = self._peers.get(peer)
        if found is None or not found.link.member:
            done(LinkError(f"{self._words(peer)} is not a member"))
            return
        id = found.last_id = (found.last_id + 1) % _REQUEST_IDS
        found.asked[id] = (self._clock.monotonic() + timeout, done)
        self._gather((found,), Request(id, name, body))

    def reply(self, peer: int, request: Request, body: bytes) -> None:
        """Answer a request. If the peer has begun another life since, that one knows nothing of it."""
        self.send(peer, Reply(request.id, body))

    def refuse(self, peer: int, request: Request, reason: str) -> None:
        """Answer that it will not be done."""
        self.send(peer, Reply(request.id, reason.encode(), refused=True))

    def _answered(self, peer: _Peer, reply: Reply) -> None:
        found = peer.asked.pop(reply.id, None)
        if found is not None:
            _, done = found
            done(RequestRefused(reply.body.decode(errors="replace")) if reply.refused else reply.body)

    def _forget(self, peer: _Peer, reason: str) -> None:
        """Nobody will read what was gathered, nor answer what was asked."""
        peer.pending, peer.pending_bytes = [], 0
        self._fail(peer, reason)

    def _fail(self, peer: _Peer, reason: str) -> None:
        asked, peer.asked = peer.asked, {}
        for _, done in asked.values():
            done(LinkError(f"{self._words(peer.link.peer)} gave no answer: {reason}"))

    def _expire(self, peer: _Peer, now: float) -> None:
        late = [id for id, (until, _) in peer.asked.items() if until <= now]
        for id in late:
            # Another one's ``done`` may have ended it.
            found = peer.asked.pop(id, None)
            if found is not None:
                found[1](LinkError(f"{self._words(peer.link.peer)} gave no answer in time"))

    # -- in --------------------------------------------------------------------------------------------

    def _receive(self, payload: bytes) -> None:
        if self._closed:
            return
        try:
            kind, head = proto_v1.read_head(payload)
        except Malformed as error:
            self.malformed += 1
            if str(error) not in self._complained and len(self._complained) < _MOST_COMPLAINTS:
                self._complained.add(str(error))
                log.error("another node says what this one does not understand: %s", error)
            return
        peer = self._peers.get(head.sender)
        if peer is None or head.receiver != self.number:
            self.strangers += 1
            return
        peer.link.receive(kind, head, payload, self._clock.monotonic())
        self._take(peer)
        self._tell()
        self._sooner(peer)

    def _on_flow(self, flows: bool) -> None:
        if not flows or self._closed:
            return
        now = self._clock.monotonic()
        for peer in self._peers.values():
            if peer.link.member:
                # What was under way is lost, and the sooner it is known the better.
                peer.link.beat(now)
                self._take(peer)
        self._tell()

    def _later(self) -> None:
        if not self._closed:
            now = self._clock.monotonic()
            self._tick_at = now + self._pause(now)
            self._timer = self._clock.call_later(self._tick_at - now, self._tick)

    def _pause(self, now: float) -> float:
        """Until time is looked at again: until something is due, for as long as a tick at least, and to the next beat
        at most.
        """
        tick, rest, peers = self.settings.tick, self.settings.rest, self._peers.values()
        if self._crowded or rest < tick or any(peer.asked for peer in peers):
            return tick
        due = min((peer.link.due for peer in peers), default=now + rest)
        return min(max(due - now, tick), until_beat(now, rest))

    def _sooner(self, peer: _Peer) -> None:
        """Something may be due before time would be looked at."""
        if self._timer is not None and (peer.asked or peer.link.due < self._tick_at - self.settings.tick):
            now = self._clock.monotonic()
            if self._tick_at - now > self.settings.tick:
                self._timer.cancel()
                self._later()

    def _tick(self) -> None:
        self._timer = None
        try:
            now = self._clock.monotonic()
            for peer in list(self._peers.values()):
                peer.link.tick(now)
                if peer.asked:
                    self._expire(peer, now)
                self._take(peer)
            self._tell()
        finally:
            self._later()

    def _take(self, peer: _Peer) -> None:
        """Send what the link has to send, and put what has happened in line."""
        payloads, events = peer.link.take()
        for payload in payloads:
            self._send(peer, payload)
        for event in events:
            if isinstance(event, Started):
                # At once: what is gathered from now on is for the new life.
                self._forget(peer, "it has started anew")
            self._events.append((peer, event))

    def _tell(self) -> None:
        """Tell the owner, in order, even if it brings about more while it is told."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._events:
                self._tell_one(*self._events.popleft())
            for number in tuple(self._crowded):
                if not self._is_crowded(self._peers[number]):
                    self._crowded.discard(number)
                    self._owner.relieved(number)
        finally:
            self._telling = False

    def _tell_one(self, peer: _Peer, event: Event) -> None:
        number, owner = peer.link.peer, self._owner
        match event:
            case Items(items, end):
                self._tell_items(peer, items, end)
            case CaughtUp(heartbeat):
                peer.told_end = max(peer.told_end, heartbeat.end)
                owner.received(number, (), peer.told_end)
                owner.heartbeat(number, heartbeat)
            case Gap(first, last):
                owner.gap(number, last - first + 1)
            case Started():
                peer.told_end = 0
                owner.started(number)
            case Up():
                owner.up(number)
            case Down():
                owner.down(number)
            case StoodStill():
                owner.stood_still(number)

    def _tell_items(self, peer: _Peer, items: tuple[Item, ...], end: int) -> None:
        """Together and with the end that stands behind the last of them; then answers go to who asked."""
        answers: list[Reply] = []
        if any(item.__class__ is Reply or item.__class__ is Unknown for item in items):
            answers = [item for item in items if isinstance(item, Reply)]
            others = tuple(item for item in items if item.__class__ is not Reply and item.__class__ is not Unknown)
            peer.link.figures.unknown_items += len(items) - len(answers) - len(others)
            items = others
        peer.told_end = max(peer.told_end, end)
        self._owner.received(peer.link.peer, items, peer.told_end)
        for answer in answers:
            self._answered(peer, answer)
