"""A durable shared group and replays, in random lives of their clients and of the node.

Members of the group come, vanish, leave, end their sessions; one of them is never kept. Replays begin at the first
message or at the present, again and again. The disk is slow, full or lost. Whatever happens, a message that was
acknowledged to its publisher comes to a member, and one of QoS 2 to one member once; a replay has neither a gap nor a
double, in the order of publishing.

``GROUP_STEPS`` sets how many steps are taken and ``GROUP_SEED`` which ones.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from iot_mqtt.broker.settings import LogUse, MqttSettings
from iot_mqtt.codec import Ack, Connack, Packet, PacketType, Publish, Suback, Unsuback
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session import outbound
from tests.property.lives import Action, Life, often
from tests.seeds import seed_of
from tests.unit.broker.harness import Client, Node, subscribe

STEPS = int(os.environ.get("GROUP_STEPS", "5000"))
SEED = int(os.environ.get("GROUP_SEED") or seed_of("groups"))
STEPS_OF_A_LIFE = 100

PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
ANSWERS = {1: PUBACK, 2: PUBREC}
FILTER = "$share/g/t/+"
TOPICS = ("t/a", "t/b")
#: "a" is a member for ever, "b" leaves the group, "c" ends its session, "d" has none; the others replay.
STAYS, LEAVES, ENDS, EPHEMERAL = MEMBERS = "abcd"
REPLAYERS = "rs"
CLIENTS = MEMBERS + REPLAYERS
LEFT_OVER = (CacheName.QUEUE, CacheName.DUP, CacheName.PUBREL, CacheName.RECEIVED, CacheName.SEGMENTS, CacheName.SHARES)
POLICIES = ("round_robin", "least_inflight", "hash_topic", "sticky")


ACTIONS = [
    *often(22, "publish", TOPICS, (1, 2), (1, 4)),
    *often(32, "acknowledge", CLIENTS, (8, 3, 1)),
    *often(14, "connect", CLIENTS, (1, 2, 4)),
    *often(8, "lose", CLIENTS),
    *often(3, "toggle"),
    *often(2, "end"),
    *often(3, "replay", REPLAYERS, (True, False)),
    *often(4, "hold"),
    *often(4, "release"),
    *often(1, "fail"),
    *often(2, "recover"),
    *often(5, "crash", (False, False, True)),
]


@dataclass(slots=True)
class Replay:
    """One replay subscription, and what has come for it."""

    begin: int
    fresh: Counter[int] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)
    done: Counter[int] = field(default_factory=Counter)
    #: (topic, QoS) → the newest message that came.
    newest: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class Device:
    """A client with the memory that a real one has."""

    name: str
    client: Client | None = None
    welcomed: bool = False
    #: QoS 2 packet ids that wait for PUBREL.
    received: dict[int, int] = field(default_factory=dict)
    #: (type, packet id, message, the replay it came for)
    owes: deque[tuple[PacketType, int, int, Replay | None]] = field(default_factory=deque)


class GroupMachine(Life):
    """One node, a publisher, four members, two replays."""

    steps = 0
    policy = POLICIES[0]

    def __init__(self) -> None:
        super().__init__()
        limits = MqttSettings(max_inflight=4, receive_maximum=12, shared_policy=self.policy)
        self.node = Node(limits, log_use=LogUse(batch_size=3, record=("t/#",)))
        self.number = 0
        self.published: dict[int, tuple[str, int]] = {}
        self.acknowledged: set[int] = set()
        #: Of the group: message → how often a member had it for good.
        self.came: Counter[int] = Counter()
        #: Had by the member that is not kept, and whether it is done with it; not safely over yet.
        self.loose: dict[int, bool] = {}
        self.twice: set[int] = set()
        self.replays: list[Replay] = []
        self.current: dict[str, int] = {}
        self.in_group = True
        self.publisher: Client | None = None
        self.unfinished: dict[int, int] = {}
        self.devices = {name: Device(name) for name in CLIENTS}
        for name in CLIENTS:
            self.connect(name, 2)
        for name in REPLAYERS:
            self.replay(name, True)

    @rule(action=st.sampled_from(ACTIONS))
    def step(self, action: Action) -> None:
        """One thing happens."""
        getattr(self, action.name)(*action.arguments)

    # What clients do.

    def publish(self, topic: str, qos: int, count: int) -> None:
        """One message or a run of them, by a client that forgets what a crash interrupts."""
        if self.publisher is None:
            self.publisher = self.node.connect("p")
        packets = []
        for _ in range(min(count, 12 - len(self.unfinished))):
            self.number += 1
            packet_id = self.publisher.next_id()
            self.unfinished[packet_id] = self.number
            self.published[self.number] = topic, qos
            packets.append(Publish(topic.encode(), b"%d" % self.number, qos, packet_id=packet_id))
        if packets:
            self.publisher.send(*packets)

    def acknowledge(self, name: str, count: int) -> None:
        """Some of what it owes."""
        device = self.devices[name]
        if device.client is None or not device.owes:
            return
        packets: list[Packet] = []
        while count and device.owes:
            count -= 1
            kind, packet_id, number, replay = device.owes.popleft()
            if kind is PUBACK:
                # Until now it may vanish with its message, which must come again then.
                self._done(replay, number)
            if kind is PUBREC and name == EPHEMERAL:
                self.loose[number] = True
            if kind is PUBCOMP:
                device.received.pop(packet_id, None)
            packets.append(Ack(kind, packet_id))
        device.client.send(*packets)

    def connect(self, name: str, window: int) -> None:
        """Come back, or take over."""
        device = self.devices[name]
        # What has come has come.
        self._read_all()
        self._gone(device)
        kept = name != EPHEMERAL
        device.client = self.node.connect(
            name, clean=not kept, expiry=600 if kept else None, receive_maximum=window, topic_alias_maximum=0
        )
        if device.client.connack is not None:
            self._welcome(device, device.client.connack)

    def lose(self, name: str) -> None:
        """The connection breaks."""
        device = self.devices[name]
        if device.client is not None:
            device.client.lose()
            self._gone(device)

    def toggle(self) -> None:
        """A member leaves the group with what it has under way, or comes back to it."""
        device = self.devices[LEAVES]
        if self._safe(device):
            assert device.client is not None
            self.in_group = not self.in_group
            if self.in_group:
                device.client.send(subscribe(device.client.next_id(), FILTER, qos=2))
            else:
                device.client.unsubscribe(FILTER)

    def end(self) -> None:
        """A member's session ends."""
        device = self.devices[ENDS]
        if self._safe(device):
            assert device.client is not None
            device.client.disconnect(session_expiry_interval=0)
            self._gone(device)

    def replay(self, name: str, first: bool) -> None:
        """Begin again, with the first message or with the present."""
        device = self.devices[name]
        if not self._safe(device):
            return
        assert device.client is not None
        device.client.unsubscribe("t/+")
        self.replays.append(Replay(0 if first else self.number))
        self.current[name] = len(self.replays)
        request = subscribe(device.client.next_id(), "t/+", qos=2, identifier=len(self.replays))
        begin = "0" if first else str(self.node.log.end)
        properties = request.properties.__class__(
            subscription_identifiers=request.properties.subscription_identifiers, user_properties=(("replay", begin),)
        )
        device.client.send(request.__class__(request.packet_id, request.filters, properties))

    def _safe(self, device: Device) -> bool:
        return device.welcomed and not self.held and not self.failing

    # The node and its disk.

    def crash(self, written: bool) -> None:
        """The node is killed and started again."""
        self._read_all()
        self.node.restart(written=written and not self.failing)
        self.held = self.failing = False
        # The group has again what its member that is not kept had not safely finished.
        self.twice |= self.loose.keys()
        self.publisher = None
        self.unfinished.clear()
        for device in self.devices.values():
            self._gone(device)
        self.counted_before = self.node.waiting

    # What comes.

    def _welcome(self, device: Device, packet: Connack) -> None:
        assert device.client is not None
        device.welcomed = True
        if packet.session_present:
            return
        assert device.name in (ENDS, EPHEMERAL) or not self.replays, "a session that was kept is not there"
        device.received.clear()
        if device.name in MEMBERS:
            device.client.send(subscribe(device.client.next_id(), FILTER, qos=2))

    def _gone(self, device: Device) -> None:
        device.client, device.welcomed = None, False
        device.owes.clear()
        if device.name == EPHEMERAL:
            self.loose = dict.fromkeys(self.loose, True)

    def _read_all(self) -> None:
        self._read_publisher()
        for device in self.devices.values():
            while device.client is not None and (packets := device.client.take_all()):
                for packet in packets:
                    self._read(device, packet)

    def _read_publisher(self) -> None:
        while self.publisher is not None and (packets := self.publisher.take_all()):
            for packet in packets:
                if isinstance(packet, Ack):
                    if packet.type is not PUBCOMP:
                        self.acknowledged.add(self.unfinished[packet.packet_id])
                    if packet.type is PUBREC:
                        self.publisher.send(Ack(PUBREL, packet.packet_id))
                    else:
                        del self.unfinished[packet.packet_id]

    def _read(self, device: Device, packet: Packet) -> None:
        if isinstance(packet, Connack):
            self._welcome(device, packet)
        elif isinstance(packet, Ack):
            assert packet.type is PUBREL
            device.owes.append((PUBCOMP, packet.packet_id, 0, None))
        elif isinstance(packet, Publish):
            number = int(packet.payload)
            assert (packet.topic.decode(), packet.qos) == self.published[number]
            replay = None
            if device.name in REPLAYERS:
                replay = self.replays[packet.properties.subscription_identifiers[0] - 1]
                self._in_order(replay, packet, number)
            if packet.qos == 2 and self._is_new(device, packet, number):
                self._deliver(device, replay, number)
            device.owes.append((ANSWERS[packet.qos], packet.packet_id, number, replay))
        else:
            assert isinstance(packet, Suback | Unsuback)

    @staticmethod
    def _is_new(device: Device, packet: Publish, number: int) -> bool:
        """[MQTT-4.3.3-10]"""
        if packet.packet_id in device.received:
            assert device.received[packet.packet_id] == number, "a packet id is used twice"
            assert packet.dup
            return False
        device.received[packet.packet_id] = number
        return True

    @staticmethod
    def _in_order(replay: Replay, packet: Publish, number: int) -> None:
        assert number > replay.begin, "from before its beginning"
        key = packet.topic.decode(), packet.qos
        if not packet.dup:
            replay.fresh[number] += 1
            assert replay.fresh[number] == 1, "it came twice as new"
        if number not in replay.seen:
            assert replay.newest.get(key, 0) < number, "overtaken by a later message"
            replay.newest[key] = number
            replay.seen.add(number)

    def _deliver(self, device: Device, replay: Replay | None, number: int) -> None:
        """A QoS 2 message is handed to an application [MQTT-4.3.3-1]."""
        self._done(replay, number)
        if replay is not None:
            assert replay.done[number] == 1, "a replay brought it twice at QoS 2"
            return
        assert self.came[number] == 1 or number in self.twice, "two members had it at QoS 2"
        if device.name == EPHEMERAL:
            self.loose[number] = False

    def _done(self, replay: Replay | None, number: int) -> None:
        done = self.came if replay is None else replay.done
        done[number] += 1

    # What must be so.

    @invariant()
    def nothing_comes_that_must_not(self) -> None:
        """After every step."""
        GroupMachine.steps += 1
        self._read_all()
        store, counters = self.node.store, self.node.counters
        if store.latest == store.committed:
            self.loose = {number: over for number, over in self.loose.items() if not over}
            assert not self.unfinished, "nothing is unsafe, and something is left unanswered"
        out = counters.messages_delivered + sum(counters.dropped.values()) + self.node.waiting
        assert counters.messages_matched + self.counted_before == out, "the drop identity"
        assert not counters.dropped[Drop.RETENTION]
        assert not counters.dropped[Drop.NO_SHARED_MEMBER]

    def teardown(self) -> None:
        """Everybody comes back and takes what is left."""
        self.node.grid.fail(None)
        self.node.release()
        self.node.advance(2.1)
        self.failing = self.held = False
        self._read_all()
        for name in CLIENTS:
            self.connect(name, 4)
        self._read_all()
        while any(device.owes for device in self.devices.values()):
            for name in CLIENTS:
                self.acknowledge(name, 1000)
            self._read_all()
        missing = [number for number in self.acknowledged if not self.came[number]]
        assert not missing, f"{missing} came to no member"
        for name in REPLAYERS:
            replay = self.replays[self.current[name] - 1]
            lacking = [n for n in self.acknowledged if n > replay.begin and not replay.done[n]]
            assert not lacking, f"{lacking} never came to {name}"
        self.nothing_comes_that_must_not()
        assert self.node.waiting == 0
        assert self.node.records(*LEFT_OVER) == 0


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("_quiet")
def test_groups_and_replays_keep_their_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps as asked for, in lives of a hundred, under every policy that differs in what waits for whom."""
    # So few packet ids that they come round all the time.
    monkeypatch.setattr(outbound, "MAX_PACKET_ID", 9)
    GroupMachine.steps = 0
    for number, policy in enumerate(POLICIES, SEED):
        machine = seed(number)(type("GroupMachine", (GroupMachine,), {"policy": policy}))
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=STEPS // STEPS_OF_A_LIFE // len(POLICIES) + 1,
                stateful_step_count=STEPS_OF_A_LIFE,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
                print_blob=False,
                report_multiple_bugs=False,
            ),
        )
    print(f"{GroupMachine.steps} steps")
