"""One peer: what is sent to it and what comes from it, through losses, repetitions and restarts of either side.

A pure state machine. In go datagrams (``receive``), time (``tick``) and what the list of members says (``meet``,
``leave``); out come datagrams and events (``take``). Numbers of items begin at 1 with every pair of lives, so that
either side can tell what it missed from the very beginning:

    begin    our boot or the peer's is another one: both directions start at 1, ``Started``
    hole     a number is skipped, or a heartbeat knows of more: REPAIR after a moment, again with growing pauses;
             what came behind it waits
    repair   the peer sends again from its ring, or says LOST
    gap      LOST, or nothing filled for ``gap_after``: ``Gap``, and on behind the hole
    silence  nothing heard: ``Down``; what is sent meanwhile stays in the ring as long as there is room
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.links.arrivals import Arrivals
from iot_mqtt.cluster.links.events import CaughtUp, Down, Event, Gap, Items, Started, StoodStill, Up
from iot_mqtt.cluster.links.figures import LinkFigures
from iot_mqtt.cluster.links.peer_clock import PeerClock
from iot_mqtt.cluster.links.ring import Ring
from iot_mqtt.cluster.links.settings import LinkSettings
from iot_mqtt.cluster.links.values import Head, Heartbeat, Item, Lost, Repair
from iot_mqtt.errors import Malformed

#: Spans that one REPAIR names.
_SPANS: Final = 64
#: A tick so late says that this process was stopped.
_PAUSE: Final = 0.5


@dataclass(slots=True)
class Condition:
    """What this node tells others of itself with every heartbeat; one for all links."""

    #: All that is in our log below this position has been given to the links that need it.
    end: int = 0
    routes_version: int = 0
    #: Eight bytes, as an integer.
    routes_digest: int = 0
    load: float = 0.0
    draining: bool = False


class Link:
    """The link to one peer, for as long as this process lives: a peer that leaves the list may come back."""

    __slots__ = (
        "number",
        "boot",
        "peer",
        "peer_boot",
        "settings",
        "figures",
        "condition",
        "clock",
        "member",
        "up",
        "heard_at",
        "heartbeat",
        "ring",
        "_arrivals",
        "_wall",
        "takes_more",
        "_hears_us",
        "announced",
        "_ticked_at",
        "_heartbeat_at",
        "_unconfirmed",
        "_hole_since",
        "_ask_at",
        "_ask_pause",
        "_out",
        "_events",
    )

    def __init__(
        self,
        number: int,
        boot: int,
        peer: int,
        condition: Condition,
        settings: LinkSettings,
        wall: Callable[[], float],
    ) -> None:
        self.number = number
        self.boot = boot
        self.peer = peer
        #: 0: not known yet.
        self.peer_boot = 0
        self.settings = settings
        self.figures = LinkFigures()
        self.condition = condition
        self._wall = wall
        #: Whether it is on the list of members. If not, nothing is sent to it and nothing taken from it.
        self.member = False
        self.up = False
        #: When it was last heard, by the monotonic clock; None: never.
        self.heard_at: float | None = None
        #: The last one that ``CaughtUp`` told of.
        self.heartbeat: Heartbeat | None = None
        self._heartbeat_at = self._ticked_at = 0.0
        self._out: list[bytes] = []
        self._events: list[Event] = []
        self._reset()

    def _reset(self) -> None:
        settings = self.settings
        self.ring = Ring(settings.ring_bytes, settings.ring_count)
        self._arrivals = Arrivals(self._deliver, self._miss, settings.early_bytes, settings.early_count)
        #: The end that the datagrams so far have told, and that DATA may tell while more of this turn's items are to
        #: follow it.
        self.announced = 0
        self.heartbeat = None
        self.clock = PeerClock()
        self._hears_us = False
        #: The peer has said that it reads publications of several runs.
        self.takes_more = False
        #: Bytes that have come since the last heartbeat.
        self._unconfirmed = 0
        self._hole_since: float | None = None
        self._ask_at = self._ask_pause = 0.0

    @property
    def ahead(self) -> float | None:
        """Seconds that the peer's wall clock is ahead of ours; None: not known, or the peer is not heard."""
        return self.clock.ahead if self.up else None

    @property
    def hears_us(self) -> bool:
        """The peer's last heartbeat said so."""
        return self.up and self._hears_us

    def take(self) -> tuple[list[bytes], list[Event]]:
        """Datagrams to send and what has happened, since the last time; in order."""
        taken = self._out, self._events
        self._out, self._events = [], []
        return taken

    # -- the list of members ---------------------------------------------------------------------------

    def meet(self, boot: int, now: float) -> None:
        """The peer is on the list of members, with this boot."""
        back = not self.member
        self.member = True
        if back:
            self._ticked_at = now
        if boot > self.peer_boot:
            self._begin(boot, now)
        elif back:
            # It may have heard nothing of what happened meanwhile: a number that is nowhere makes that a gap.
            self.ring.add(b"", 1)
            self._events.append(Started(self.peer_boot))
            self._heartbeat_soon(now, 0.0)

    def leave(self) -> None:
        """The peer is not on the list any more."""
        self.member = False
        self.ring.clear()
        self._go_down()

    def _begin(self, boot: int, now: float) -> None:
        self.peer_boot = boot
        self._reset()
        self._events.append(Started(boot))
        self._heartbeat_soon(now, 0.0)

    # -- out -------------------------------------------------------------------------------------------

    def post(self, items: list[bytes], end: int, now: float) -> bytes:
        """The datagram for these written items, which is kept for repair; LOST if it is too long to be sent."""
        first, figures = self.ring.next, self.figures
        payload = proto_v1.write_data(self._head(), first, end, items)
        if len(payload) > self.settings.datagram_most:
            self.ring.add(b"", len(items))
            figures.unsendable += len(items)
            payload = proto_v1.write(self._head(), Lost(first, first + len(items) - 1))
        else:
            self.ring.add(payload, len(items))
            self.announced = end
            figures.datagrams_sent += 1
            figures.items_sent += len(items)
        self._heartbeat_soon(now, self.settings.active_heartbeat)
        return payload

    def beat(self, now: float) -> None:
        """Send a heartbeat now."""
        condition = self.condition
        self.announced = condition.end
        self._heartbeat_at = now + self.settings.heartbeat
        self._unconfirmed = 0
        heartbeat = Heartbeat(
            self.ring.next,
            condition.end,
            self._arrivals.expected,
            condition.routes_version,
            condition.routes_digest,
            condition.load,
            condition.draining,
            self.up,
            takes_more=True,
            clocks=(self._wall(), self.clock.seen),
        )
        self._out.append(proto_v1.write(self._head(), heartbeat))

    def _heartbeat_soon(self, now: float, delay: float) -> None:
        self._heartbeat_at = min(self._heartbeat_at, now + delay)

    def _head(self) -> Head:
        return Head(self.number, self.boot, self.peer, self.peer_boot)

    # -- time ------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """When ``tick`` has something to do, as things are; that nothing is heard it notices a little later."""
        if not self.member:
            return inf
        if self._hole_since is None:
            return self._heartbeat_at
        return min(self._heartbeat_at, self._ask_at, self._hole_since + self.settings.gap_after)

    def tick(self, now: float) -> None:
        """Heartbeats, silence, and holes that are asked for or given up."""
        if not self.member:
            return
        settings = self.settings
        late = now - self._ticked_at
        self._ticked_at = now
        if late > max(_PAUSE, 4 * settings.tick):
            self._excuse(late)
        if self.up and self.heard_at is not None and now - self.heard_at >= settings.silence:
            self._go_down()
        if self._hole_since is not None:
            if now - self._hole_since >= settings.gap_after:
                before = self._arrivals.expected
                self._arrivals.give_up()
                self._came(before, now)
            elif now >= self._ask_at:
                self._ask(now)
        if now >= self._heartbeat_at:
            self.beat(now)

    def _excuse(self, pause: float) -> None:
        """This process itself stood still: what it has not heard may be waiting to be read."""
        if self.up:
            self._events.append(StoodStill())
        if self.heard_at is not None:
            self.heard_at += pause
        if self._hole_since is not None:
            self._hole_since += pause

    def _go_down(self) -> None:
        if self.up:
            self.up = False
            self._events.append(Down())

    # -- in --------------------------------------------------------------------------------------------

    def receive(self, kind: int, head: Head, payload: bytes, now: float) -> None:
        """A datagram whose head was read, from this peer's number."""
        figures = self.figures
        figures.datagrams_received += 1
        figures.bytes_received += len(payload)
        if not self.member or head.sender_boot < self.peer_boot or not head.sender_boot:
            figures.foreign_boots += 1
            return
        if head.sender_boot > self.peer_boot:
            # Faster than the list of members. It is true even if the datagram was meant for an earlier life of ours.
            self._begin(head.sender_boot, now)
        if head.receiver_boot != self.boot:
            if head.receiver_boot or kind != proto_v1.HEARTBEAT:
                figures.foreign_boots += 1
            else:
                self._hear(now)  # It does not know our boot yet: a greeting.
            # Tell it who we are.
            self._heartbeat_soon(now, self.settings.active_heartbeat)
            return
        self._hear(now)
        try:
            self._read(kind, payload, now)
        except Malformed:
            figures.malformed += 1

    def _hear(self, now: float) -> None:
        self.heard_at = now
        if not self.up:
            self.up = True
            self._events.append(Up())
            # The other side waits for the word that it is heard.
            self._heartbeat_soon(now, 0.0)

    def _read(self, kind: int, payload: bytes, now: float) -> None:
        if kind == proto_v1.DATA:
            self._on_data(payload, now)
        elif kind == proto_v1.HEARTBEAT:
            self._on_heartbeat(proto_v1.read_heartbeat(payload), now)
        elif kind == proto_v1.REPAIR:
            self._on_repair(proto_v1.read_repair(payload))
        elif kind == proto_v1.LOST:
            lost = proto_v1.read_lost(payload)
            before = self._arrivals.expected
            self._arrivals.lost(lost.first, lost.last)
            self._came(before, now)
        else:
            self.figures.malformed += 1

    def _on_data(self, payload: bytes, now: float) -> None:
        arrivals, figures = self._arrivals, self.figures
        first, last, _ = proto_v1.read_span(payload)
        if arrivals.is_duplicate(first, last):
            figures.duplicates += 1
            return
        before = arrivals.expected
        if not arrivals.add(proto_v1.read_data(payload), len(payload)):
            figures.early_refused += 1
        self._came(before, now)
        self._unconfirmed += len(payload)
        if self._unconfirmed >= self.settings.confirm_bytes:
            self.beat(now)

    def _on_heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        if heartbeat.received <= self.ring.next:
            self.ring.confirmed(heartbeat.received)
        self._hears_us = heartbeat.hears
        self.takes_more = heartbeat.takes_more
        if heartbeat.clocks is not None:
            self.clock.heard(*heartbeat.clocks, self._wall(), now)
        arrivals = self._arrivals
        if heartbeat.next == arrivals.expected:
            self.heartbeat = heartbeat
            self._events.append(CaughtUp(heartbeat))
        elif heartbeat.next > arrivals.expected:
            # Never mind what else it says: the next one says it anew.
            arrivals.exists(heartbeat.next - 1)
            self._notice(now)

    def _on_repair(self, repair: Repair) -> None:
        ring, figures = self.ring, self.figures
        sent = 0
        for first, last in repair.spans[:_SPANS]:
            last = min(last, ring.next - 1)
            if first < ring.start and first <= last:
                self._out.append(proto_v1.write(self._head(), Lost(first, min(last, ring.start - 1))))
            for datagram in ring.between(first, last):
                if sent >= self.settings.repair_burst:
                    return
                payload = datagram.payload
                if not payload:
                    payload = proto_v1.write(self._head(), Lost(datagram.first, datagram.last))
                self._out.append(payload)
                sent += len(payload)
                figures.repairs_served += 1

    # -- holes -----------------------------------------------------------------------------------------

    def _notice(self, now: float) -> None:
        """Something is missing, and nothing has been filled just now."""
        if self._hole_since is None and self._arrivals.incomplete:
            self._hole_since = now
            self._ask_at = now + self.settings.repair_wait
            self._ask_pause = self.settings.repair_again

    def _came(self, before: int, now: float) -> None:
        """Something came; if the number that is expected has moved on with it, patience begins anew."""
        if self._arrivals.expected != before:
            self._hole_since = None
            self._heartbeat_soon(now, self.settings.active_heartbeat)
        self._notice(now)

    def _ask(self, now: float) -> None:
        spans = tuple(self._arrivals.holes(_SPANS))
        self._out.append(proto_v1.write(self._head(), Repair(spans)))
        self.figures.repairs_asked += 1
        self._ask_at = now + self._ask_pause
        self._ask_pause = min(self._ask_pause * 2, self.settings.repair_again_most)

    def _deliver(self, items: tuple[Item, ...], end: int) -> None:
        self.figures.items_received += len(items)
        self._events.append(Items(items, end))

    def _miss(self, first: int, last: int) -> None:
        self.figures.gaps += 1
        self.figures.items_missed += last - first + 1
        self._events.append(Gap(first, last))
