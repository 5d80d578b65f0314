"""The events of all nodes, for who listens at one of them.

::

    this node    Events ──watch──▶ listener ──▶ stream
    any other    Events ◀─"events.after"─ listener: asked again and again, each answer waits until there is something

A listener's place is, for each node, the life and the number of the last event that he had of it. It goes with each
event as its id; who comes back with it gets what he missed, as far as it is kept.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.admin.event_resources import RATES
from iot_mqtt.admin.streams import Stream, Streams, event_bytes
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.broker.views.view import View
from iot_mqtt.devices import Accompanied
from iot_mqtt.metrics.alarms import AlarmBook
from iot_mqtt.pause import pause
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.events import ALARM_CLEARED, ALARM_RAISED, KEPT, Event, Events
from iot_mqtt.ports.questions import AskingLater

log = logging.getLogger(__name__)

QUESTION: Final = "events.after"
#: Seconds for which an answer waits for an event; until a node that did not answer is asked again.
WAIT: Final = 10.0
AGAIN: Final = 2.0
#: Events of one answer.
AT_ONCE: Final = 500
#: Questions that wait here at once.
MOST_WAITING: Final = 256
TICK: Final = 1.0
_PLACE: Final = re.compile(r"[0-9a-f]{1,16}\.[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a node that serves has to tell."""

    events: Events
    counters: Counters
    clients: Callable[[], int]
    alarms: Callable[[], tuple[Alarm, ...]]
    members: Callable[[], Iterable[MemberInfo]]
    asking: AskingLater | None = None


def sources_of(broker: Composition, view: View, devices: Accompanied, asking: AskingLater | None) -> Sources:
    """Of a broker with what is beside it."""
    devices.telling.events = broker.monitoring.events
    connections = broker.clients.connections
    return Sources(
        broker.monitoring.events,
        broker.counters,
        lambda: connections.clients,
        lambda: view.alarms,
        lambda: view.cluster.info().members,
        asking,
    )


class EventDesk:
    """Of one life of a node; before there is a broker nobody can listen, for the port is closed."""

    def __init__(self, node: str, clock: Clock) -> None:
        self.streams = Streams()
        self._node = node
        self._clock = clock
        self._of: Sources | None = None
        self._listeners: dict[Stream, _Listener] = {}
        self.alarms = AlarmBook()
        self._counted: tuple[int, ...] | None = None
        self._rates: dict[str, object] = {}
        #: Questions of other nodes that wait for an event; of them those that want the rates as well.
        self._waiting: dict[Deferred[None], bool] = {}

    def begin(self, of: Sources) -> tuple[float, Callable[[], None]]:
        """There is a broker: what is to be called from now on, after so many seconds each."""
        self._of = of
        of.events.watchers = (*of.events.watchers, self._happened)
        if of.asking is not None:
            of.asking.later[QUESTION] = self._answer
        return TICK, self.tick

    def listen(self, kinds: frozenset[str], node: str | None, place: str | None) -> Stream:
        """A stream of what happens from now on, or from a place on; ``node``: only there."""
        of, places = self._of, read_place(place)
        assert of is not None
        stream = self.streams.make(lambda: self._left(stream))
        self._listeners[stream] = listener = _Listener(self._node, stream, kinds, places)
        if node in (None, self._node):
            listener.take(self._node, **self._found(places.get(self._node), KEPT))
            listener.here = True
        for member in of.members():
            if member.state != "self" and not member.away and node in (None, member.node_id):
                self._follow(listener, member)
        listener.everywhere = node is None
        return stream

    def tick(self) -> None:
        """Once a second: alarms that are new or gone, the rates, nodes that are new."""
        of = self._of
        assert of is not None
        raised, over = self.alarms.look(of.alarms(), self._clock.wall())
        for alarm in raised:
            of.events.publish(ALARM_RAISED, {"text": alarm.text})
        for alarm in over:
            of.events.publish(ALARM_CLEARED, {"text": alarm.text})
        self._measure(of)
        for listener in tuple(self._listeners.values()):
            if listener.here:
                listener.rates(self._node, self._rates)
            if listener.everywhere:
                for member in of.members():
                    if member.state != "self" and not member.away and member.node_id not in listener.followed:
                        self._follow(listener, member)
        self._wake(rates=True)

    def close(self) -> None:
        """The node ends."""
        self.streams.close()
        self._wake(rates=True)
        self._wake(rates=False)

    def _measure(self, of: Sources) -> None:
        counters = of.counters
        now = (
            counters.messages_received,
            counters.messages_delivered,
            sum(counters.dropped.values()),
            counters.connects_accepted,
            sum(counters.disconnects.values()),
        )
        before, self._counted = self._counted or now, now
        names = ("received", "delivered", "dropped", "connects", "disconnects")
        rates = dict(zip(names, (one - other for one, other in zip(now, before, strict=True)), strict=True))
        self._rates = {"at": self._clock.wall(), "clients": of.clients(), **rates}

    # This node's.

    def _happened(self, event: Event) -> None:
        for listener in tuple(self._listeners.values()):
            if listener.here:
                assert self._of is not None
                listener.take(self._node, self._of.events.life, [event], 0)
        if self._waiting:
            self._wake(rates=False)

    def _left(self, stream: Stream) -> None:
        self._listeners.pop(stream, None)

    def _found(self, place: str | None, most: int = AT_ONCE) -> dict[str, Any]:
        """What came behind a place; none: nothing, from now on. A place of another life is before all of this one."""
        assert self._of is not None
        events = self._of.events
        if place is None:
            return {"life": events.life, "found": [], "lost": 0, "number": events.last}
        life, _, number = place.partition(".")
        found, lost = events.after(int(number) if life == events.life else 0, most)
        return {"life": events.life, "found": found, "lost": lost}

    # Other nodes ask.

    async def _answer(self, body: bytes) -> bytes:
        asked = json.loads(body)
        place, rates = asked["place"], bool(asked["rates"])
        if place is not None and not _PLACE.fullmatch(str(place)):
            raise ValueError("no place of ours")
        found = self._found(place)
        if place is not None and not found["found"] and not found["lost"]:
            await self._something(rates)
            found = self._found(place)
        found["found"] = [(event.number, event.at, event.kind, event.fields) for event in found["found"]]
        return json.dumps({**found, "rates": self._rates if rates else None}).encode()

    async def _something(self, rates: bool) -> None:
        if len(self._waiting) >= MOST_WAITING:
            raise ValueError("too many listen here")
        waiting: Deferred[None] = Deferred()
        self._waiting[waiting] = rates
        timer = self._clock.call_later(WAIT, lambda: self._woken(waiting))
        try:
            await waiting
        finally:
            timer.cancel()

    def _wake(self, *, rates: bool) -> None:
        """``rates``: only who wants these."""
        for waiting, wanted in tuple(self._waiting.items()):
            if wanted or not rates:
                self._woken(waiting)

    def _woken(self, waiting: Deferred[None]) -> None:
        if self._waiting.pop(waiting, None) is not None:
            # Later: whoever publishes is in the middle of something.
            self._clock.call_later(0, lambda: waiting.callback(None))

    # Other nodes are asked.

    def _follow(self, listener: _Listener, member: MemberInfo) -> None:
        listener.followed.add(member.node_id)
        following = ensureDeferred(self._following(listener, member))
        following.addErrback(lambda failure: log.error("events of %s: %s", member.node_id, failure.value))

    async def _following(self, listener: _Listener, member: MemberInfo) -> None:
        assert self._of is not None
        asking, heard = self._of.asking, True
        while asking is not None and not listener.stream.ended:
            question = {"place": listener.places.get(member.node_id), "rates": RATES in listener.kinds}
            answers = await asking.ask_all(QUESTION, json.dumps(question).encode(), WAIT + 5.0, (member.number,))
            answer = answers.get(member.number, "it is not there")
            if isinstance(answer, bytes):
                heard = True
                listener.take_answer(member.node_id, answer)
                continue
            if heard:
                listener.missing(member.node_id, answer)
            heard = False
            await pause(self._clock, AGAIN)


class _Listener:
    """One stream, and what it has had of each node."""

    def __init__(self, node: str, stream: Stream, kinds: frozenset[str], places: dict[str, str]) -> None:
        self.stream = stream
        self.kinds = kinds
        self.places = places
        #: Whether this node's events are for it, those of nodes that come later, and whose are.
        self.here = self.everywhere = False
        self.followed = {node}

    def take(self, node: str, life: str, found: Iterable[Event], lost: int, number: int | None = None) -> None:
        """Events of a node; ``number``: there are none, and it is there."""
        if lost:
            self.stream.lost += lost
            self.stream.put(event_bytes("lost", {"node": node, "events": lost}))
        if number is not None:
            self.places[node] = f"{life}.{number}"
        for event in found:
            self.places[node] = f"{life}.{event.number}"
            if event.kind in self.kinds:
                told = {"node": node, "at": event.at, "kind": event.kind, **event.fields}
                self.stream.put(event_bytes(event.kind, told, urlencode(self.places)))

    def take_answer(self, node: str, answer: bytes) -> None:
        """The same as another node tells it."""
        said = json.loads(answer)
        found = [
            Event(number, at, kind, tuple(fields), tuple(fields.values())) for number, at, kind, fields in said["found"]
        ]
        self.take(node, str(said["life"]), found, int(said["lost"]), said.get("number"))
        if said["rates"]:
            self.rates(node, said["rates"])

    def rates(self, node: str, rates: Mapping[str, object]) -> None:
        """What a node did in the last second."""
        if RATES in self.kinds and rates:
            self.stream.put(event_bytes(RATES, {"node": node, "kind": RATES, **rates}))

    def missing(self, node: str, reason: str) -> None:
        """A node does not answer; what happens there comes when it does."""
        self.stream.put(event_bytes("missing", {"node": node, "reason": reason}))


def read_place(place: str | None) -> dict[str, str]:
    """Of an event's id; ``ValueError`` for none of ours."""
    if not place:
        return {}
    pairs = parse_qsl(place, keep_blank_values=True, strict_parsing=True, max_num_fields=1000)
    if not all(_PLACE.fullmatch(one) for _, one in pairs):
        raise ValueError("Last-Event-ID must be what an event had as its id")
    return dict(pairs)
