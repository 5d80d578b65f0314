"""The broker's sessions against the reference model: random lives of a few clients, and of the node.

Clients behave as real ones do: they keep QoS 2 ids until PUBREL, send again what is unfinished when they come
back, answer late and in any number at once, and sometimes break, vanish or refuse. The node's disk is slow, full
or lost. After every step what came must be what the model allows; at the end everything owed must have come and
nothing may be left in the grid.

``SESSION_STEPS`` sets how many steps are taken and ``SESSION_SEED`` which ones; a seed is a case. With an odd one the
node writes late what QoS 1 changes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from iot_mqtt.broker import claims
from iot_mqtt.broker.readers import progress
from iot_mqtt.broker.sending import repeating
from iot_mqtt.broker.settings import LogUse, MqttSettings
from iot_mqtt.codec import (
    Ack,
    Connack,
    Disconnect,
    Packet,
    PacketType,
    Properties,
    Publish,
    Suback,
    Unsuback,
    Unsubscribe,
)
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session import outbound
from iot_mqtt.values import ProtocolVersion
from tests.property.lives import Action, Life, often
from tests.property.reference_model import INTERVAL, Model
from tests.seeds import seed_of
from tests.unit.broker.harness import V5, V311, Client, Node, subscribe

#: Packet ids that a device uses.
IDS = 20
STEPS = int(os.environ.get("SESSION_STEPS", "16000"))
SEED = int(os.environ.get("SESSION_SEED") or seed_of("sessions"))
STEPS_OF_A_LIFE = 100
#: Hypothesis remembers every life it has seen: a fresh start keeps memory and time even.
STEPS_OF_A_ROUND = 20_000
#: Shorter than any wait.
DELAY = 0.5

SETTINGS = MqttSettings(
    session_expiry_interval=int(INTERVAL), max_inflight=4, receive_maximum=12, topic_alias_maximum_outbound=2
)
PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
LEFT_OVER = (CacheName.QUEUE, CacheName.DUP, CacheName.PUBREL, CacheName.RECEIVED)


class Way(NamedTuple):
    """How to connect; a session is durable when it is to outlive the connection."""

    version: ProtocolVersion
    clean: bool
    durable: bool
    window: int
    aliases: int = 0


WAYS = [
    Way(V311, clean=False, durable=True, window=4),
    Way(V5, clean=False, durable=True, window=2),
    Way(V5, clean=False, durable=True, window=1),
    Way(V5, clean=False, durable=True, window=3, aliases=1),
    Way(V5, clean=True, durable=True, window=4),
    Way(V5, clean=False, durable=False, window=2),
    Way(V5, clean=True, durable=False, window=1),
    Way(V311, clean=True, durable=False, window=4),
]
TOPICS = ("t/a", "t/b")
FILTERS = ("t/a", "t/b", "t/+", "#")


WHO = range(4)
#: Drawn from evenly, so that how often each comes is decided here. Hypothesis shrinks towards the first.
ACTIONS = [
    *often(23, "publish", TOPICS, (1, 2, 0), (1, 4), WHO),
    *often(28, "acknowledge", (8, 3, 1), (False, False, False, True), WHO),
    *often(12, "connect", WAYS, WHO),
    *often(8, "subscribe", FILTERS, (2, 1, 0), WHO),
    *often(3, "unsubscribe", FILTERS, WHO),
    *often(5, "lose", WHO),
    *often(2, "leave", (False, True), WHO),
    *often(3, "repeat", range(3), WHO),
    *often(4, "wait", (1.0, 1.0, 1.0, INTERVAL * 0.7, INTERVAL * 1.1)),
    *often(5, "hold"),
    *often(4, "release"),
    *often(1.5, "fail"),
    *often(3, "recover"),
    *often(5, "crash", (False, False, True)),
]


@dataclass(slots=True)
class Unfinished:
    """A QoS 1 or 2 publish of a client that is not over."""

    number: int
    topic: str
    qos: int
    released: bool = False


@dataclass(slots=True)
class Answer:
    """An acknowledgement that a client owes; ``number`` is the message it is for."""

    type: PacketType
    packet_id: int
    number: int


@dataclass
class Device:
    """A client with the memory that a real one has. What is in the second part lasts as long as a connection."""

    name: str
    version: ProtocolVersion = V5
    inflight: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    unfinished: dict[int, Unfinished] = field(default_factory=dict)
    last_id: int = 0
    #: Packet id → when PUBREC was sent, as a running number.
    arrived: dict[int, int] = field(default_factory=dict)
    count: int = 0

    client: Client | None = None
    welcomed: bool = False
    resending: bool = False
    window: int = 0
    aliases: dict[int, bytes] = field(default_factory=dict)
    here: set[int] = field(default_factory=set)
    owes: deque[Answer] = field(default_factory=deque)
    awaits: dict[PacketType, deque[int]] = field(default_factory=dict)
    subscribing: deque[int] = field(default_factory=deque)
    resumed: int = 0

    def forget(self) -> None:
        """The node has no session: neither has the client [MQTT-3.2.2-5]."""
        self.inflight.clear()
        self.received.clear()
        self.unfinished.clear()

    def begin(self, client: Client, way: Way) -> None:
        """A new connection."""
        self.end()
        self.client, self.version, self.window = client, way.version, way.window
        self.aliases.clear()
        self.here.clear()
        self.owes.clear()
        self.subscribing.clear()
        self.awaits = {type: deque() for type in (PUBACK, PUBREC, PUBREL, PUBCOMP)}
        self.resumed = 0

    def end(self) -> None:
        """The connection is over."""
        self.client, self.welcomed, self.resending = None, False, False

    @property
    def has_id(self) -> bool:
        """Whether one is free: a node that cannot commit answers nothing."""
        return len({*self.unfinished, *self.subscribing}) < IDS

    def next_id(self) -> int:
        """An id that is free; few of them, so that they come round."""
        while True:
            self.last_id = self.last_id % IDS + 1
            if self.last_id not in self.unfinished and self.last_id not in self.subscribing:
                return self.last_id

    def packet(self, packet_id: int, *, dup: bool) -> Packet:
        """What is to be sent for an unfinished publish."""
        one = self.unfinished[packet_id]
        if one.released:
            self.awaits[PUBCOMP].append(packet_id)
            return Ack(PUBREL, packet_id)
        self.awaits[PUBACK if one.qos == 1 else PUBREC].append(packet_id)
        return Publish(one.topic.encode(), b"%d" % one.number, one.qos, dup=dup, packet_id=packet_id)


class SessionMachine(Life):
    """One node, four clients."""

    steps = 0
    late = False

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(SETTINGS, tick=1.0, log_use=LogUse(progress_delay=DELAY if self.late else 0.0))
        self.model = Model()
        self.devices = [Device(name) for name in "abcd"]
        self.number = 0
        for device, way in zip(self.devices, WAYS, strict=False):
            self._connect(device, way)
            self.subscribe("t/+" if way.version is V311 else "t/a", 2, self.devices.index(device))

    @rule(action=st.sampled_from(ACTIONS))
    def step(self, action: Action) -> None:
        """One thing happens."""
        getattr(self, action.name)(*action.arguments)

    # Connections.

    def connect(self, way: Way, who: int) -> None:
        """Come, come back, or take over."""
        device = self.devices[who]
        if self.model.is_doubtful(device.name):
            # A clean session of 3.1.1 is never durable.
            way = way._replace(clean=True, durable=way.durable and way.version is V5)
        self._connect(device, way)

    def _connect(self, device: Device, way: Way) -> None:
        old, welcomed = device.client, device.welcomed
        options: dict[str, Any] = {}
        if way.version is V5:
            options = {"receive_maximum": way.window, "topic_alias_maximum": way.aliases}
            if way.durable:
                options["expiry"] = int(INTERVAL)
        if self.model.connects(device.name, clean=way.clean, durable=way.durable, now=self.now):
            device.forget()
        client = self.node.connect(device.name, way.version, clean=way.clean, **options)
        if old is not None:
            assert old.closed  # [MQTT-3.1.4-3]
            if welcomed:
                assert old.farewell is (ReasonCode.SESSION_TAKEN_OVER if old.version is V5 else None)
        device.begin(client, way)
        if client.connack is not None:
            self._on_connack(device, client.connack)
        self._read_all()

    def lose(self, who: int) -> None:
        """The connection breaks, be it before CONNACK."""
        device = self.devices[who]
        if device.client is not None:
            device.client.lose()
            self._left(device)

    def leave(self, for_good: bool, who: int) -> None:
        """DISCONNECT, which can end a session."""
        device = self._online(who)
        if device is None:
            return
        assert device.client is not None
        for_good = for_good and device.version is V5
        properties = Properties(session_expiry_interval=0) if for_good else Properties()
        device.client.send(Disconnect(properties=properties))
        self._left(device, for_good=for_good)

    def _left(self, device: Device, *, for_good: bool = False) -> None:
        self.model.leaves(device.name, now=self.now, for_good=for_good)
        device.end()

    # Messages.

    def publish(self, topic: str, qos: int, count: int, who: int) -> None:
        """One message or a run of them."""
        device = self._online(who)
        if device is None:
            return
        packets: list[Packet] = []
        first = self.number + 1
        for _ in range(count):
            if qos and (len(device.unfinished) >= SETTINGS.receive_maximum or not device.has_id):
                break
            self.number += 1
            self.model.publishes(device.name, topic, qos, self.number, now=self.now)
            if qos:
                packet_id = device.next_id()
                device.unfinished[packet_id] = Unfinished(self.number, topic, qos)
                packets.append(device.packet(packet_id, dup=False))
            else:
                packets.append(Publish(topic.encode(), b"%d" % self.number))
        self._send(device, packets)
        self._read_all()
        # QoS 0 is now or never.
        for other in self.devices:
            if other.welcomed:
                late = [one for one in self.model.missing(other.name, at_qos=frozenset({0})) if one >= first]
                assert not late, f"{late} did not come to {other.name}"

    def acknowledge(self, count: int, refusing: bool, who: int) -> None:
        """Some of what is owed, in order; now and then it is refused."""
        device = self._owing(who)
        if device is None:
            return
        packets: list[Packet] = []
        while count and device.owes:
            count -= 1
            answer = device.owes.popleft()
            refused = refusing and device.version is V5 and answer.type in (PUBACK, PUBREC)
            packets.append(self._answer(device, answer, refused=refused))
        self._send(device, packets)

    def _answer(self, device: Device, answer: Answer, *, refused: bool) -> Packet:
        packet_id = answer.packet_id
        if answer.type is PUBREL:
            device.unfinished[packet_id].released = True
            return device.packet(packet_id, dup=False)
        if refused:
            self.model.refuses(device.name, answer.number)
            device.received.pop(packet_id, None)
        elif answer.type is PUBREC:
            device.count += 1
            device.arrived[packet_id] = device.count
            device.awaits[PUBREL].append(packet_id)
        if refused or answer.type in (PUBACK, PUBCOMP):
            device.inflight.pop(packet_id, None)
            device.here.discard(packet_id)
        return Ack(answer.type, packet_id, ReasonCode.UNSPECIFIED_ERROR if refused else ReasonCode.SUCCESS)

    def repeat(self, which: int, who: int) -> None:
        """A client of 3.1.1 grows impatient and sends something again."""
        device = self._online(who)
        if device is None or not device.unfinished or device.version is V5:
            return
        packet_id = list(device.unfinished)[which % len(device.unfinished)]
        if not device.unfinished[packet_id].released:
            self.model.publishes_again(device.unfinished[packet_id].number, now=self.now)
        self._send(device, [device.packet(packet_id, dup=True)])

    # Subscriptions.

    def subscribe(self, filter: str, qos: int, who: int) -> None:
        """Subscribe, or change the QoS."""
        device = self._online(who)
        if device is not None and device.has_id:
            packet_id = device.next_id()
            device.subscribing.append(packet_id)
            self.model.subscribes(device.name, filter, qos)
            self._send(device, [subscribe(packet_id, filter, qos=qos)])

    def unsubscribe(self, filter: str, who: int) -> None:
        """Unsubscribe, whether there is something or not."""
        device = self._online(who)
        if device is not None and device.has_id:
            packet_id = device.next_id()
            device.subscribing.append(packet_id)
            self.model.subscribes(device.name, filter, None)
            self._send(device, [Unsubscribe(packet_id, (filter,))])

    # The node and its disk.

    def wait(self, seconds: float) -> None:
        """Time passes; sometimes so much that sessions end."""
        self.node.advance(seconds)

    def crash(self, written: bool) -> None:
        """The node is killed and started again."""
        # A disk that is full has written nothing.
        self.node.restart(written=written and not self.failing)
        self.held = self.failing = False
        self.model.crashes(self.now)
        for device in self.devices:
            device.end()
        self.counted_before = self.node.waiting

    # What must be so.

    @invariant()
    def everything_that_came_was_allowed(self) -> None:
        """After every step."""
        SessionMachine.steps += 1
        self._read_all()
        store = self.node.store
        if store.latest == store.committed:
            self.model.settles()
            for device in self.devices:
                if device.client is not None:
                    # Nothing is unsafe, so nothing is left unanswered.
                    assert device.welcomed
                    assert not any(device.awaits.values())
                    assert not device.subscribing
        counters = self.node.counters
        out = counters.messages_delivered + sum(counters.dropped.values()) + self.node.waiting
        assert counters.messages_matched + self.counted_before == out, "the drop identity"

    def teardown(self) -> None:
        """Everybody comes back and takes what is left."""
        self.node.grid.fail(None)
        self.node.release()
        self.node.advance(2.1)
        self.everything_that_came_was_allowed()
        for device in self.devices:
            known = device.name in self.model.sessions and not self.model.is_doubtful(device.name)
            self._connect(device, Way(V5, clean=not known, durable=True, window=2))
        for _ in range(1000):
            self._read_all()
            if not any(device.owes for device in self.devices):
                break
            for device in self.devices:
                self._send(device, [self._answer(device, answer, refused=False) for answer in device.owes])
                device.owes.clear()
        for device in self.devices:
            missing = list(self.model.missing(device.name))
            assert not missing, f"{missing} never came to {device.name}"
            assert not device.unfinished
            assert not device.inflight
            session = self.node.session(device.name)
            assert not session.queue and not session.outbound.entries and not session.inbound.received
        assert self.node.records(*LEFT_OVER) == 0

    # The clients.

    @property
    def now(self) -> float:
        return self.node.clock.monotonic()

    def _online(self, who: int) -> Device | None:
        """The device asked for, or the next one that is connected."""
        for offset in range(4):
            device = self.devices[(who + offset) % 4]
            if device.welcomed:
                return device
        return None

    def _owing(self, who: int) -> Device | None:
        for offset in range(4):
            device = self.devices[(who + offset) % 4]
            if device.owes and device.welcomed:
                return device
        return None

    def _send(self, device: Device, packets: list[Packet]) -> None:
        if packets:
            assert device.client is not None
            device.client.send(*packets)

    def _read_all(self) -> None:
        for device in self.devices:
            if device.client is not None:
                self._read(device)
        if any(device.resending for device in self.devices):
            for device in self.devices:
                if device.resending:
                    self._resend(device)
            self._read_all()

    def _resend(self, device: Device) -> None:
        """[MQTT-4.4.0-1] what is unfinished, in its order."""
        device.resending = False
        for one in device.unfinished.values():
            if not one.released:
                self.model.publishes_again(one.number, now=self.now)
        self._send(device, [device.packet(packet_id, dup=True) for packet_id in device.unfinished])

    def _on_connack(self, device: Device, packet: Connack) -> None:
        assert packet.reason is ReasonCode.SUCCESS
        self.model.welcomed(device.name, present=packet.session_present)
        device.welcomed = True
        if packet.session_present:
            device.resending = bool(device.unfinished)
        else:
            device.forget()

    def _read(self, device: Device) -> None:
        assert device.client is not None
        for packet in device.client.take_all():
            if isinstance(packet, Publish):
                self._on_publish(device, packet)
            elif isinstance(packet, Ack):
                self._on_ack(device, packet)
            elif isinstance(packet, Connack):
                self._on_connack(device, packet)
            elif isinstance(packet, Suback | Unsuback):
                assert device.subscribing.popleft() == packet.packet_id
                self.model.answers(device.name, 1)
            else:
                pytest.fail(f"{device.name} got {packet}")
        assert not device.client.closed

    def _on_publish(self, device: Device, packet: Publish) -> None:
        topic = packet.topic
        if packet.properties.topic_alias is not None:
            topic = topic or device.aliases[packet.properties.topic_alias]
            device.aliases[packet.properties.topic_alias] = topic
        number, packet_id = int(packet.payload), packet.packet_id
        if packet.qos:
            if packet_id in device.inflight:
                # [MQTT-2.2.1-4] in use: the same message again, once on each later connection.
                assert device.inflight[packet_id] == number, "a packet id is used twice"
                assert packet.dup
                assert packet_id not in device.here, "sent again on the same connection"  # [MQTT-4.4.0-1]
            device.inflight[packet_id] = number
            device.here.add(packet_id)
            assert len(device.here) <= device.window, "more than Receive Maximum"  # [MQTT-3.3.4-9]
        self.model.comes(device.name, number, topic.decode(), packet.qos, dup=packet.dup)
        if packet.qos == 1:
            device.owes.append(Answer(PUBACK, packet_id, number))
        elif packet.qos == 2:
            known = device.received.setdefault(packet_id, 0)
            assert known in (0, number), "a packet id is used twice"
            if not known:
                device.received[packet_id] = number
                self.model.delivers(device.name, number)
            device.owes.append(Answer(PUBREC, packet_id, number))

    def _in_order(self, device: Device, packet_id: int) -> None:
        """[MQTT-4.6.0-4] PUBREL in the order of the PUBRECs, those of earlier connections first."""
        awaited = device.awaits[PUBREL]
        if packet_id in awaited:
            assert awaited.popleft() == packet_id
            return
        when = device.arrived[packet_id]
        assert when > device.resumed, "PUBREL in another order than PUBREC"
        device.resumed = when

    def _on_ack(self, device: Device, packet: Ack) -> None:
        packet_id = packet.packet_id
        if packet.type is PUBREL:
            self._in_order(device, packet_id)
            number = device.received.pop(packet_id, 0)
            device.owes.append(Answer(PUBCOMP, packet_id, number))
            return
        # [MQTT-4.6.0-2] [MQTT-4.6.0-3] in the order of what they answer.
        assert device.awaits[packet.type].popleft() == packet_id
        one = device.unfinished.get(packet_id)
        if one is None:
            return
        if packet.type is PUBREC:
            self.model.acknowledges(one.number)
            if not one.released and not any(owed.packet_id == packet_id for owed in device.owes if owed.type is PUBREL):
                device.owes.append(Answer(PUBREL, packet_id, one.number))
        elif (packet.type is PUBACK and one.qos == 1) or (packet.type is PUBCOMP and one.released):
            if packet.type is PUBACK:
                self.model.acknowledges(one.number)
            del device.unfinished[packet_id]


@pytest.fixture
def _few_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few packet ids that they come round all the time."""
    monkeypatch.setattr(outbound, "MAX_PACKET_ID", 9)
    monkeypatch.setattr(progress, "MAX_PACKET_ID", 9)
    for module in (progress, claims, repeating):
        monkeypatch.setattr(module, "IDS_AHEAD", 4)


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("_quiet", "_few_ids")
def test_sessions_do_what_the_model_allows() -> None:
    """As many steps as asked for, in lives of a hundred."""
    SessionMachine.steps = 0
    number, began = SEED, time.monotonic()
    while SessionMachine.steps < STEPS:
        steps = min(STEPS_OF_A_ROUND, STEPS - SessionMachine.steps)
        machine = seed(number)(type("SessionMachine", (SessionMachine,), {"late": number % 2 == 1}))
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=steps // STEPS_OF_A_LIFE + 1,
                stateful_step_count=STEPS_OF_A_LIFE,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
                print_blob=False,
                report_multiple_bugs=False,
            ),
        )
        number += 1
    print(f"{SessionMachine.steps} steps, {SessionMachine.steps / (time.monotonic() - began):.0f} a second")


#: Ids come round. One was stepped over, for a QoS 2 exchange had it; it is free before what came behind it is repeated.
ROUND = (
    Action("publish", ("t/b", 2, 1, 0)),
    *[Action("publish", ("t/a", 1, 1, 0))] * 9,
    Action("acknowledge", (8, False, 0)),
    Action("acknowledge", (3, False, 0)),
    Action("crash", (False,)),
    Action("connect", (Way(version=ProtocolVersion.V311, clean=False, durable=True, window=4, aliases=0), 0)),
    Action("acknowledge", (8, False, 0)),
)


#: The session has expired, or just not; its client comes twice before it hears which.
TWICE = (
    Action("publish", ("t/a", 1, 1, 0)),
    Action("crash", (False,)),
    Action("wait", (110.00000000000001,)),
    Action("crash", (False,)),
    Action("hold", ()),
    Action("connect", (Way(version=ProtocolVersion.V5, clean=False, durable=True, window=2, aliases=0), 0)),
    Action("connect", (Way(version=ProtocolVersion.V311, clean=False, durable=True, window=4, aliases=0), 0)),
)


#: The same, but it is the node that is killed before its client hears which.
UNHEARD = (
    Action("wait", (1.0,)),
    Action("crash", (False,)),
    Action("wait", (110.00000000000001,)),
    Action("crash", (False,)),
    Action("hold", ()),
    Action("connect", (Way(version=ProtocolVersion.V311, clean=False, durable=True, window=4, aliases=0), 3)),
    Action("crash", (True,)),
    Action("connect", (Way(version=ProtocolVersion.V5, clean=False, durable=False, window=2, aliases=0), 3)),
    Action("publish", ("t/a", 0, 1, 3)),
)


#: What a clean start ended is on the disk still, twice: a crash came before the first end was written, and the second
#: one met a full disk.
ENDED_TWICE = (
    Action("hold", ()),
    Action("connect", (Way(version=ProtocolVersion.V311, clean=True, durable=False, window=4, aliases=0), 3)),
    Action("crash", (False,)),
    Action("fail", ()),
    Action("wait", (110.00000000000001,)),
    Action("connect", (Way(version=ProtocolVersion.V5, clean=True, durable=False, window=1, aliases=0), 3)),
    Action("crash", (False,)),
    Action("connect", (Way(version=ProtocolVersion.V5, clean=False, durable=False, window=2, aliases=0), 3)),
)

STORIES = {"round": ROUND, "twice": TWICE, "unheard": UNHEARD, "ended twice": ENDED_TWICE}


@pytest.mark.usefixtures("_quiet", "_few_ids")
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
@pytest.mark.parametrize("late", [False, True])
def test_stories_that_failed_once(late: bool, story: tuple[Action, ...]) -> None:
    """What is sent once more has the id that it had; and what was too much to ask."""
    machine = type("SessionMachine", (SessionMachine,), {"late": late})()
    for action in story:
        machine.step(action=action)
        machine.everything_that_came_was_allowed()
    machine.teardown()
