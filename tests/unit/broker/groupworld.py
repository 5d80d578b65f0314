"""Durable groups over several nodes: a world whose members share a filter, and the account of what came to them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from iot_mqtt.codec import Ack, Connect, Decoder, Packet, Properties, Publish, Role, Suback
from iot_mqtt.ports.grid import CacheName
from tests.simulation.brokers import BrokerLife
from tests.simulation.clients import FOR_EVER, V5, Client, Line, Publisher, Subscriber, packets_of
from tests.simulation.ledger import Broken, Sent
from tests.simulation.world import World

FILTER = "$share/g/t/#"
TOPICS = ("t/a", "t/b")


class Member(Subscriber):
    """Confirms at once, or when it is told to."""

    def __init__(self, world: World, name: str, *, durable: bool = True, window: int = 20) -> None:
        super().__init__(world, name)
        self.durable = durable
        self.window = window
        #: Keeps its confirmations to itself.
        self.slow = False
        self.kept_back: list[Ack] = []
        self.in_group = False
        self.got: list[bytes] = []
        #: The same with packet id and DUP.
        self.sent: list[tuple[bytes, int, bool]] = []
        #: Of it what came at QoS 2.
        self.got_once: list[bytes] = []
        self._left: list[tuple[Line, Decoder]] = []
        self._unread: set[bytes] = set()

    def connect(self, node: BrokerLife, **_: Any) -> None:
        if not node.ready or node.ended:
            return
        self.leave()
        self.connections += 1
        self.line = Line(node)
        self._until = self.world.clock.monotonic() + 12.0
        self._decoder = Decoder(role=Role.CLIENT, version=V5)
        expiry = FOR_EVER if self.durable else 0
        properties = Properties(session_expiry_interval=expiry, receive_maximum=self.window)
        self.send(Connect(V5, self.name, not self.durable, 0, None, None, None, properties))
        self.world.trace(f"{self.name} connects to {node.name}")

    def opened(self, present: bool) -> None:
        if self.durable:
            super().opened(present)
        else:
            self._received.clear()
            self.join()

    def join(self, qos: int = 2) -> None:
        self.subscribe((FILTER, qos))

    def send(self, *packets: Packet) -> None:
        if self.slow:
            self.kept_back += [packet for packet in packets if isinstance(packet, Ack)]
            packets = tuple(packet for packet in packets if not isinstance(packet, Ack))
        if packets:
            super().send(*packets)

    def confirm(self) -> None:
        """All that was kept back."""
        self.slow = False
        kept, self.kept_back = self.kept_back, []
        if kept:
            self.send(*kept)

    def _subscribed(self, packet: Suback) -> None:
        self._asked.pop(packet.packet_id)
        self.in_group = True

    def _came(self, packet: Publish) -> None:
        if self.durable and packet.qos == 2:
            # Who has no session may get again what an earlier one of it had.
            super()._came(packet)
            self.got_once.append(packet.payload)
        else:
            self.world.trace(f"{self.name} gets {packet.payload.decode()} at QoS {packet.qos} dup {packet.dup}")
        self.got.append(packet.payload)
        self.sent.append((packet.payload, packet.packet_id, packet.dup))

    def _gone(self, politely: bool) -> None:
        if self.line is not None and not self.durable:
            self._left.append((self.line, self._decoder))
        super()._gone(politely)

    def unread(self) -> set[bytes]:
        """QoS 2 messages that were on their way to this member when it left and its session ended: no other member may
        get them [MQTT-4.8.2-5].
        """
        for line, decoder in self._left:
            if not line.over:
                # Its node has not seen that it left, and still writes; or it died, and has noted nothing.
                continue
            for packet in packets_of(decoder, line.take()):
                if isinstance(packet, Publish) and packet.qos == 2:
                    self._unread.add(packet.payload)
        return self._unread

    def over(self, was_connected: bool, politely: bool) -> None:
        super().over(was_connected, politely)
        self.kept_back.clear()
        if not self.durable:
            self.in_group = False
            self._received.clear()


class GroupWorld(World):
    """Nodes ``a``, ``b`` …, one publisher, some members."""

    def __init__(self, seed: int = 0, names: str = "abc", tell: Any = None) -> None:
        super().__init__(seed, tuple(names), tell)
        for name in names:
            self.start(name)
        assert self.until(lambda: len(self.running) == len(names), 20.0), self.failed_starts
        self.publisher = Publisher(self, "p")
        self.members: list[Member] = []
        self.clients = [self.publisher]

    def enter(self, name: str, node: str, *, durable: bool = True, window: int = 20, qos: int = 2) -> Member:
        """A member that is connected and in the group."""
        member = Member(self, name, durable=durable, window=window)
        self.members.append(member)
        self.clients.append(member)
        self.connect(member, node)
        if durable:
            member.join(qos)
        assert self.until(lambda: member.in_group, 10.0)
        self.wait(0.5)
        return member

    def connect(self, client: Client, node: str) -> None:
        client.connect(self.lives[node])
        assert self.until(lambda: client.connected, 15.0), f"{client.name} cannot connect to {node}"

    def publish(self, node: str, count: int, qos: int = 1, topic: str = "t/a") -> list[bytes]:
        """Acknowledged messages."""
        if self.publisher.idle or self.publisher.line is None or self.publisher.line.life.name != node:
            self.connect(self.publisher, node)
        before = set(self.ledger.sent)
        for _ in range(count):
            self.publisher.publish(topic, qos)
        sent = [one for name, one in self.ledger.sent.items() if name not in before]
        assert self.until(lambda: all(one.acknowledged for one in sent), 10.0)
        return [one.name for one in sent]

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.step(0.1)

    def came(self) -> Counter[bytes]:
        """How often each message came, to anybody."""
        return Counter(name for member in self.members for name in member.got)

    def missing(self) -> list[Sent]:
        came = self.came()
        for member in self.members:
            came.update(member.unread())
        return [sent for sent in self.ledger.sent.values() if sent.acknowledged and not came[sent.name]]

    def settle(self, within: float = 40.0) -> None:
        """Everybody confirms everything, and all that was acknowledged has come."""
        for member in self.members:
            member.confirm()
        if not self.until(lambda: not self.missing(), within):
            raise Broken(f"lost: {len(self.missing())} messages never came, the first: {self.missing()[0]}")

    def records(self, *caches: CacheName) -> dict[bytes, bytes]:
        return {key: value for cache in caches for key, value in self.entries(cache).items()}

    def givers(self, number: int) -> int:
        """How many nodes give out what is in a node's log."""
        return sum(life.broker is not None and life.broker.readers.groups.has_part(number) for life in self.running)

    def out(self) -> int:
        """Messages that are out on lease, by those who gave them out."""
        return sum(
            sum(cursor.leased.values())
            for life in self.running
            if life.broker is not None
            for cursor in life.broker.readers.groups.parts()
        )


class Walk:
    """Members come, go and move at random, some of them slow; with ``troubled`` nodes do, too."""

    def __init__(self, seed: int, *, troubled: bool, steps: int = 60, tell: Any = None) -> None:
        self.world = world = GroupWorld(seed, tell=tell)
        self.rng = world.rng
        self.troubled = troubled
        self.steps = steps
        for number, node in enumerate("abcb"):
            world.enter(f"m{number}", node, window=self.rng.choice((1, 3, 10)), qos=self.rng.choice((1, 2, 2)))
        # Nobody keeps anything for this one.
        if troubled or seed % 2:
            world.enter("e", "a", durable=False, window=5)

    def run(self) -> None:
        world, rng = self.world, self.rng
        for _ in range(self.steps):
            self._publish()
            for member in world.members:
                self._member(member)
            if self.troubled and rng.random() < 0.15:
                world.disturb(kill=0.3, pause=0.1, part=0.2, heal=0.3)
            world.step(rng.uniform(0.01, 0.4))
        self._end()

    def _node(self) -> BrokerLife | None:
        return self.rng.choice(self.world.running) if self.world.running else None

    def _publish(self) -> None:
        publisher, rng = self.world.publisher, self.rng
        if publisher.idle or rng.random() < 0.1:
            node = self._node()
            if node is not None:
                publisher.connect(node)
        for _ in range(rng.randrange(5)):
            publisher.publish(rng.choice(TOPICS), rng.choice((1, 2)))

    def _member(self, member: Member) -> None:
        chance = self.rng.random()
        if (member.idle and chance < 0.3) or chance < 0.04:
            node = self._node()
            if node is not None:
                member.slow = False
                member.kept_back.clear()
                member.connect(node)
        elif chance < 0.08:
            member.leave(politely=self.rng.random() < 0.5)
        elif chance < 0.15:
            member.slow = True
        elif chance < 0.3:
            member.confirm()

    def _end(self) -> None:
        """Everybody is back and confirms everything."""
        world, rng = self.world, self.rng
        world.trace("---- the end begins")
        world.network.heal()
        world.publisher.leave()
        world.step(rng.choice((0.1, 2.0, 15.0)))
        for name in world.names:
            world.resume(name)
            world.again(name)

        def everybody() -> bool:
            if len(world.running) < len(world.names):
                return False
            for member in world.members:
                member.confirm()
                if member.idle:
                    member.connect(rng.choice(world.running))
            return all(member.connected for member in world.members)

        if not world.until(everybody, 60.0):
            raise Broken("not everybody comes back")
        world.until(lambda: everybody() and not world.missing(), 40.0)
        world.settle(1.0)
        for _ in range(12):
            world.wait(1.0)
            everybody()
        if world.out():
            raise Broken(f"{world.out()} messages are out for ever")
        left = world.records(CacheName.SHARES, CacheName.SEGMENTS)
        if left:
            raise Broken(f"{len(left)} records are left over: {list(left)[:3]}")
        once = Counter(name for member in world.members for name in member.got_once)
        twice = [name for name, count in once.items() if count > 1]
        if twice and not self.troubled and all(member.durable for member in world.members):
            raise Broken(f"{twice} came to two members at QoS 2")
