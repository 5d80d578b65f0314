"""Messaging among nodes of one process, with weather: delay, loss, repetition, disorder, partitions and pauses.

Everything that happens is chosen by the random numbers and the clock that are passed in, so that a run can be had
again by its seed.

::

    clock = ManualClock()
    network = Network(clock, random.Random(seed), Weather(delay=(0.001, 0.005), loss=0.1))
    one, two = network.join("one"), network.join("two")
    ...                                      # Links(one, one.clock, ...): a node's own clock stops when it is paused
    network.cut("one", "two")                # one way; network.part("one", "two") both ways; network.heal()
    network.weather["one", "two"] = Weather(loss=0.5)
    network.pause("two"); network.resume("two")          # as SIGSTOP does it
    network.kill("two"); two = network.join("two")       # another life of it
    one.break_flow(); one.restore_flow()                 # its connection to the messaging service
    one.stall(); one.release()                           # what it sends stays in the process
    clock.advance(1.0)
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.clock import Timer
from iot_mqtt.ports.messaging import Receive


@dataclass(frozen=True, slots=True)
class Weather:
    """How messages fare from one node to another; probabilities from 0 to 1."""

    delay: tuple[float, float] = (0.001, 0.001)
    loss: float = 0.0
    duplicate: float = 0.0
    #: This many may be overtaken, and come up to ``late`` seconds later.
    disorder: float = 0.0
    late: float = 0.1


FINE = Weather()
#: Seconds for which a busy node is held up, and from one time to the next.
HELD_UP = (0.05, 2.5)
BETWEEN = (0.2, 4.0)


class Network:
    """All nodes that hear each other."""

    def __init__(self, clock: ManualClock, rng: random.Random, weather: Weather = FINE) -> None:
        self.clock = clock
        self.rng = rng
        self.everywhere = weather
        #: (from, to) → where it differs.
        self.weather: dict[tuple[str, str], Weather] = {}
        self.nodes: dict[str, SimulatedMessaging] = {}
        #: Node → seconds by which its wall clock is wrong.
        self.skews: dict[str, float] = {}
        #: Nodes are held up now and then, each for a moment: their timers come late, and all together.
        self.busy = False
        self.delivered = self.lost = 0
        self._cuts: set[tuple[str, str]] = set()
        #: (from, to) → when the latest message that keeps its order comes.
        self._latest: dict[tuple[str, str], float] = {}

    def join(self, name: str) -> SimulatedMessaging:
        """A node, or another life of one that was killed."""
        if name in self.nodes:
            raise ValueError(f"{name} is alive")
        node = self.nodes[name] = SimulatedMessaging(self, name)
        if self.busy:
            self._hold_up_sometime(node.clock)
        return node

    def _hold_up_sometime(self, clock: NodeClock) -> None:
        """Something else has the node's processor, again and again, for less than others notice."""

        def hold_up() -> None:
            if self.busy and not clock.stopped:
                clock.hold_up(self.rng.uniform(*HELD_UP))
                self._hold_up_sometime(clock)

        self.clock.call_later(self.rng.uniform(*BETWEEN), hold_up)

    def kill(self, name: str) -> None:
        """No call of it happens any more, and it hears nothing; what it has sent is under way."""
        self.nodes.pop(name).clock.stop()

    @property
    def rough(self) -> bool:
        """Whether there are messages that do not come, or come late."""
        return bool(self._cuts or self.weather) or not all(node.flowing for node in self.nodes.values())

    def cut(self, sender: str, receiver: str) -> None:
        """Nothing gets from the one to the other any more."""
        self._cuts.add((sender, receiver))

    def part(self, one: str, other: str) -> None:
        self._cuts |= {(one, other), (other, one)}

    def heal(self) -> None:
        """No cuts any more; the weather stays."""
        self._cuts.clear()

    def pause(self, name: str) -> None:
        self.nodes[name].clock.pause()

    def resume(self, name: str) -> None:
        """It finds that time has passed: overdue timers come first, then what has arrived."""
        self.nodes[name].clock.resume()

    def carry(self, sender: SimulatedMessaging, topic: str, payload: bytes) -> None:
        """A message has left a node."""
        for receiver in list(self.nodes.values()):
            if topic in receiver.topics:
                self._carry(sender, receiver, topic, payload)

    def _carry(self, sender: SimulatedMessaging, receiver: SimulatedMessaging, topic: str, payload: bytes) -> None:
        way = sender.name, receiver.name
        weather = self.weather.get(way, self.everywhere)
        rng, now = self.rng, self.clock.monotonic()
        copies = 2 if weather.duplicate and rng.random() < weather.duplicate else 1
        for _ in range(copies):
            if weather.loss and rng.random() < weather.loss:
                self.lost += 1
                continue
            low, high = weather.delay
            at = now + low + (high - low) * rng.random()
            if weather.disorder and rng.random() < weather.disorder:
                at += weather.late * rng.random()
            else:
                at = self._latest[way] = max(at, self._latest.get(way, 0.0))
            self.clock.call_later(at - now, _Arrival(self, sender, receiver, topic, payload))

    def tell(self, topic: str, payload: bytes) -> None:
        """From the service itself, which no cut is before; that one is lost may happen."""
        for receiver in self.nodes.values():
            receive = receiver.topics.get(topic)
            if receive is not None and self.rng.random() < 0.9:
                self.clock.call_later(0.002, partial(receiver.clock.arrive, partial(receive, payload)))

    def arrived(self, way: tuple[str, str]) -> bool:
        """Whether a message that has come so far gets in."""
        if way in self._cuts:
            self.lost += 1
            return False
        self.delivered += 1
        return True


class _Arrival:
    """A message under way; it gets lost if either end's connection breaks before it is there."""

    __slots__ = ("network", "sender", "receiver", "topic", "payload", "connections")

    def __init__(
        self,
        network: Network,
        sender: SimulatedMessaging,
        receiver: SimulatedMessaging,
        topic: str,
        payload: bytes,
    ) -> None:
        self.network = network
        self.sender = sender
        self.receiver = receiver
        self.topic = topic
        self.payload = payload
        self.connections = sender.connection, receiver.connection

    def __call__(self) -> None:
        sender, receiver = self.sender, self.receiver
        if self.connections != (sender.connection, receiver.connection) or not self.network.arrived(
            (sender.name, receiver.name)
        ):
            return
        receive = receiver.topics.get(self.topic)
        if receive is not None:
            receiver.clock.arrive(lambda: receive(self.payload))


class SimulatedMessaging:
    """One node's end (``ports.messaging.Messaging``)."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self.clock = NodeClock(network.clock, lambda: network.skews.get(name, 0.0))
        self.on_flow: Callable[[bool], None] = lambda _: None
        self.topics: dict[str, Receive] = {}
        #: Another number after every break.
        self.connection = 0
        self._network = network
        self._flowing = True
        self._held: list[tuple[str, bytes]] | None = None

    @property
    def flowing(self) -> bool:
        return self._flowing

    @property
    def waiting(self) -> int:
        return sum(len(payload) for _, payload in self._held or ())

    async def listen(self, topic: str, receive: Receive) -> None:
        self.topics[topic] = receive

    def send(self, topic: str, payload: bytes) -> bool:
        if not self._flowing:
            return False
        if self._held is not None:
            self._held.append((topic, payload))
        else:
            self._network.carry(self, topic, payload)
        return True

    def break_flow(self) -> None:
        """The connection is gone, and what is under way from here and to here with it."""
        self.connection += 1
        self._flowing = False
        if self._held is not None:
            self._held = []
        self.on_flow(False)

    def restore_flow(self) -> None:
        self._flowing = True
        self.on_flow(True)

    def stall(self) -> None:
        """What is sent is taken and does not leave."""
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for topic, payload in held:
            self._network.carry(self, topic, payload)


class NodeClock:
    """A node's own view of the time (``ports.clock.Clock``): while it is paused or held up nothing is called."""

    def __init__(self, clock: ManualClock, skew: Callable[[], float] = float) -> None:
        self._clock = clock
        # Asked with every event, so nothing stands in between.
        self.monotonic: Callable[[], float] = clock.monotonic
        self.skew = skew
        self.stopped = False
        self._paused = False
        self._held_up = False
        #: Either of them.
        self.still = False
        self.overdue: list[_NodeTimer] = []
        self._arrived: list[Callable[[], None]] = []

    def wall(self) -> float:
        return self._clock.wall() + self.skew()

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        timer = _NodeTimer(self, call)
        timer.timer = self._clock.call_later(delay, timer.due)
        return timer

    def arrive(self, call: Callable[[], None]) -> None:
        """Something came from outside."""
        if self.still:
            self._arrived.append(call)
        elif not self.stopped:
            call()

    def pause(self) -> None:
        self._paused = self.still = True

    def resume(self) -> None:
        self._paused = False
        self._catch_up()

    def hold_up(self, seconds: float) -> None:
        """Nothing is called for so long."""
        self._held_up = self.still = True
        self._clock.call_later(seconds, self._let_go)

    def _let_go(self) -> None:
        self._held_up = False
        self._catch_up()

    def _catch_up(self) -> None:
        self.still = self._paused or self._held_up
        if self.still:
            return
        overdue, self.overdue = self.overdue, []
        arrived, self._arrived = self._arrived, []
        for timer in overdue:
            timer.fire()
        for call in arrived:
            self.arrive(call)

    def stop(self) -> None:
        """Nothing is called any more."""
        self.stopped = True
        self._paused = self._held_up = self.still = False
        self.overdue, self._arrived = [], []

    def leave(self) -> None:
        """Stop, and refer to nothing: native objects of a story hold its clocks, and no collector sees that."""
        self.stop()
        self._clock, self.skew = ManualClock(self.monotonic()), float
        self.monotonic = self._clock.monotonic


class _NodeTimer:
    __slots__ = ("timer", "_clock", "_call")

    def __init__(self, clock: NodeClock, call: Callable[[], None]) -> None:
        self.timer: Timer | None = None
        self._clock = clock
        self._call: Callable[[], None] | None = call

    def due(self) -> None:
        clock = self._clock
        if clock.still:
            clock.overdue.append(self)
        elif not clock.stopped:
            self.fire()

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    def cancel(self) -> None:
        self._call = None
        if self.timer is not None:
            self.timer.cancel()
