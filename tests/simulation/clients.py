"""Clients of a simulated world: they keep to MQTT, remember what a client has to remember, and tell the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iot_mqtt.codec import (
    Ack,
    AckRun,
    Connack,
    Connect,
    ConnectWill,
    Decoder,
    Disconnect,
    Packet,
    PacketType,
    Properties,
    Publish,
    PublishBatch,
    PublishRun,
    Request,
    Role,
    Suback,
    Subscribe,
    encode,
)
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.doubles.channel import EmbeddedChannel
from tests.simulation.ledger import Broken, Sent, Wish
from tests.simulation.platform import ONLY

if TYPE_CHECKING:
    from tests.simulation.brokers import BrokerLife
    from tests.simulation.world import World

V5 = ProtocolVersion.V5
FOR_EVER = 0xFFFF_FFFF
#: What a subscriber takes at once, where it is to be behind.
FEW = 2
#: Seconds that a client waits for CONNACK.
PATIENCE = 12.0
#: Topics of retained messages.
STATES = b"state/"


class Line:
    """One TCP connection; what is sent reaches the process when it runs."""

    def __init__(self, life: BrokerLife) -> None:
        self.life = life
        self.wire: EmbeddedChannel | None = None
        self._lost = False
        #: The node has seen that the client left.
        self.over = False
        life.clock.arrive(self._begin)

    def _begin(self) -> None:
        life = self.life
        if not self._lost:
            self.wire = EmbeddedChannel(life.layout, clock=life.channel_clock, wheel=life.wheel)  # type: ignore[arg-type]

    def send(self, data: bytes) -> None:
        self.life.clock.arrive(lambda: self._feed(data))

    def _feed(self, data: bytes) -> None:
        if self.wire is not None and not self.wire.closed:
            self.wire.feed(data)

    def lose(self) -> None:
        self._lost = True
        self.life.clock.arrive(self._end)

    def _end(self) -> None:
        self.over = True
        if self.wire is not None and not self.wire.closed:
            self.wire.peer_closes()

    def take(self) -> bytes:
        return b"" if self.wire is None else self.wire.take()

    @property
    def closed(self) -> bool:
        return self.life.ended or (self.wire is not None and self.wire.closed)


class Client:
    """One client id."""

    durable = False
    #: Seconds that its session outlives a connection, in MQTT 5.
    expiry = 0
    keep_alive = 0
    #: Messages that it takes at once, in MQTT 5.
    window: int | None = None

    def __init__(self, world: World, name: str, version: ProtocolVersion = V5) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.line: Line | None = None
        self.connected = False
        self.connections = 0
        self._decoder = Decoder(role=Role.CLIENT, version=version)
        self._packet_id = 0
        self._until = 0.0

    @property
    def idle(self) -> bool:
        return self.line is None

    @property
    def life(self) -> str:
        return f"{self.name}/{self.connections}"

    def connect(self, node: BrokerLife, *, will: ConnectWill | None = None) -> None:
        if not node.ready or node.ended:
            return
        self.leave()
        self.connections += 1
        self.line = Line(node)
        self._until = self.world.clock.monotonic() + PATIENCE
        self._decoder = Decoder(role=Role.CLIENT, version=self.version)
        properties = Properties()
        if self.version is V5:
            properties = Properties(session_expiry_interval=self.expiry, receive_maximum=self.window)
        self.send(Connect(self.version, self.name, not self.durable, self.keep_alive, None, None, will, properties))
        self.world.trace(f"{self.name} connects to {node.name}")

    def send(self, *packets: Packet) -> None:
        if self.line is not None:
            self.line.send(b"".join(encode(packet, self.version) for packet in packets))

    def leave(self, *, politely: bool = False) -> None:
        """The connection ends from this side."""
        line = self.line
        if line is None:
            return
        if politely:
            self.send(Disconnect(ReasonCode.SUCCESS, Properties()))
        line.lose()
        self._gone(politely)

    def _gone(self, politely: bool) -> None:
        self.line = None
        was, self.connected = self.connected, False
        self.world.trace(f"{self.name} is gone{' politely' if politely else ''}")
        self.over(was, politely)

    def poll(self) -> None:
        """Read what has come, and answer it."""
        line = self.line
        if line is None:
            return
        data = line.take() if not line.life.ended else b""
        for packet in packets_of(self._decoder, data):
            self._take(packet)
            if self.line is not line:
                return
        if line.closed or (not self.connected and self.world.clock.monotonic() > self._until):
            line.lose()
            self._gone(politely=False)

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            if packet.reason == 0:
                self.connected = True
                self.world.trace(f"{self.name} is connected, session present: {packet.session_present}")
                self.opened(packet.session_present)
            else:
                self.world.trace(f"{self.name} is refused: {packet.reason.name}")
                assert self.line is not None
                self.line.lose()
                self._gone(politely=False)
        else:
            self.take(packet)

    def next_id(self) -> int:
        self._packet_id = self._packet_id % 65_535 + 1
        return self._packet_id

    # What a kind of client does.

    def opened(self, present: bool) -> None:
        """CONNACK came."""

    def take(self, packet: Packet) -> None:
        """Anything else came."""

    def over(self, was_connected: bool, politely: bool) -> None:
        """The connection has ended."""


class Publisher(Client):
    """Sends messages with names of their own. What is not acknowledged when its connection ends may come or not."""

    def __init__(self, world: World, name: str, version: ProtocolVersion = V5) -> None:
        super().__init__(world, name, version)
        self._under_way: dict[int, Sent] = {}
        self._count = 0

    def publish(self, topic: str, qos: int, expiry: int | None = None) -> None:
        """``expiry`` is of MQTT 5."""
        line = self.line
        if not self.connected or line is None or len(self._under_way) > 50:
            return
        self._count += 1
        world = self.world
        name = f"{self.name}-{self._count}".encode()
        sent = Sent(name, topic, qos, self.life, world.ledger.tick(), world.clock.monotonic(), line.life.name)
        if self.version is V5:
            sent.expiry = expiry
        sent.only_up = topic == ONLY
        # What a node that stands still has not read yet begins to expire when it does.
        sent.held = line.life.paused
        world.ledger.sent[name] = sent
        packet_id = self.next_id() if qos else 0
        if qos:
            self._under_way[packet_id] = sent
        world.trace(f"{self.name} publishes {name.decode()} to {topic} at QoS {qos} on {line.life.name}")
        self.send(packet_of(sent, packet_id))

    def take(self, packet: Packet) -> None:
        if not isinstance(packet, Ack):
            return
        sent = self._under_way.get(packet.packet_id)
        if packet.type in (PacketType.PUBACK, PacketType.PUBREC) and sent is not None and packet.reason < 0x80:
            self.world.acknowledged(sent)
            self.world.trace(f"{sent.name.decode()} is acknowledged")
        if packet.type is PacketType.PUBREC and packet.reason < 0x80:
            self.send(Ack(PacketType.PUBREL, packet.packet_id))
        else:
            self._under_way.pop(packet.packet_id, None)

    def over(self, was_connected: bool, politely: bool) -> None:
        self._under_way.clear()


class Persistent(Publisher):
    """Durable: what is not acknowledged when the connection ends is sent again on the next one, in its order."""

    durable = True
    expiry = FOR_EVER

    def __init__(self, world: World, name: str, version: ProtocolVersion = V5) -> None:
        super().__init__(world, name, version)
        self._known = False
        #: Packet ids whose PUBREC came, and whose PUBCOMP did not.
        self._releasing: list[int] = []

    def opened(self, present: bool) -> None:
        if self._known and not present:
            raise Broken(f"session: that of {self.name} is lost")
        self._known = True
        for packet_id, sent in self._under_way.items():
            sent.again = True
            if packet_id in self._releasing:
                self.send(Ack(PacketType.PUBREL, packet_id))
            else:
                self.send(packet_of(sent, packet_id, dup=True))

    def take(self, packet: Packet) -> None:
        super().take(packet)
        if isinstance(packet, Ack):
            if packet.type is PacketType.PUBREC and packet.packet_id not in self._releasing:
                self._releasing.append(packet.packet_id)
            elif packet.type is PacketType.PUBCOMP and packet.packet_id in self._releasing:
                self._releasing.remove(packet.packet_id)

    def over(self, was_connected: bool, politely: bool) -> None:
        """What is under way stays."""


class Subscriber(Client):
    """Durable; remembers the packet ids of QoS 2 as long as its session lives."""

    durable = True
    expiry = FOR_EVER

    def __init__(self, world: World, name: str, version: ProtocolVersion = V5) -> None:
        super().__init__(world, name, version)
        self.window = FEW if world.hopping else None
        self._known = False
        self._received: set[int] = set()
        self._asked: dict[int, tuple[tuple[str, int], ...]] = {}
        self.subscribed: set[str] = set()

    def opened(self, present: bool) -> None:
        if self._known and not present:
            raise Broken(f"session: that of {self.name} is lost")
        if not present:
            self._received.clear()
        self._known = True

    def subscribe(self, *filters: tuple[str, int]) -> None:
        if not self.connected or self.line is None:
            return
        for filter, _ in filters:
            self.world.ledger.asks(self.name, filter)
        packet_id = self.next_id()
        self._asked[packet_id] = filters
        self.send(Subscribe(packet_id, tuple(Request(filter, qos) for filter, qos in filters)))
        self.world.trace(f"{self.name} subscribes to {filters}")

    def take(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self._subscribed(packet)
        elif isinstance(packet, Publish):
            self._publish(packet)
        elif isinstance(packet, Ack) and packet.type is PacketType.PUBREL:
            self._received.discard(packet.packet_id)
            self.send(Ack(PacketType.PUBCOMP, packet.packet_id))

    def _subscribed(self, packet: Suback) -> None:
        filters = self._asked.pop(packet.packet_id)
        self.subscribed.update(filter for filter, _ in filters)
        tick = self.world.ledger.tick()
        self.world.trace(f"{self.name} has its SUBACK for {filters}")
        for filter, qos in filters:
            self.world.ledger.subscribed(self.name, Wish(filter, qos, tick))

    def _publish(self, packet: Publish) -> None:
        if packet.qos == 2:
            if packet.packet_id not in self._received:
                self._received.add(packet.packet_id)
                self._came(packet)
            self.send(Ack(PacketType.PUBREC, packet.packet_id))
        else:
            self._came(packet)
            if packet.qos:
                self.send(Ack(PacketType.PUBACK, packet.packet_id))

    def _came(self, packet: Publish) -> None:
        if packet.topic.startswith(STATES):
            # Whoever asks for everything gets these, too; see Reader.
            return
        self.world.trace(f"{self.name} gets {packet.payload.decode()} at QoS {packet.qos} dup {packet.dup}")
        now, node = self.world.clock.monotonic(), self.line.life.name if self.line is not None else ""
        self.world.ledger.came(self.name, packet.payload, now, self.life, node, again=packet.dup)

    def over(self, was_connected: bool, politely: bool) -> None:
        self._asked.clear()


class Keeper(Client):
    """Publishes retained messages with growing numbers, each when the one before is acknowledged or given up."""

    def __init__(self, world: World, name: str, version: ProtocolVersion = V5) -> None:
        super().__init__(world, name, version)
        self._count = 0
        self._under_way: tuple[int, str, int] | None = None

    def publish(self, topic: str) -> None:
        if self.connected and self._under_way is None:
            self._count += 1
            packet_id = self.next_id()
            self._under_way = packet_id, topic, self._count
            self.world.ledger.keeps(topic, self._count)
            self.world.trace(f"{self.name} publishes state {self._count} to {topic}")
            self.send(Publish(topic.encode(), b"%d" % self._count, 1, retain=True, packet_id=packet_id))

    def take(self, packet: Packet) -> None:
        under_way = self._under_way
        if isinstance(packet, Ack) and under_way is not None and packet.packet_id == under_way[0]:
            self._under_way = None
            if packet.reason < 0x80:
                self.world.trace(f"state {under_way[2]} is acknowledged")
                self.world.ledger.kept(*under_way[1:], self.world.clock.monotonic())

    def over(self, was_connected: bool, politely: bool) -> None:
        self._under_way = None


class Reader(Client):
    """Comes at the end, and is told what is retained."""

    def __init__(self, world: World, name: str, version: ProtocolVersion = V5) -> None:
        super().__init__(world, name, version)
        self.found: dict[str, int] = {}
        #: It has its SUBACK.
        self.answered = False

    def opened(self, present: bool) -> None:
        self.send(Subscribe(self.next_id(), (Request("state/#", 1),)))

    def take(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self.answered = True
        elif isinstance(packet, Publish):
            self.world.trace(f"{self.name} finds {packet.payload.decode()} in {packet.topic.decode()}")
            self.found[packet.topic.decode()] = int(packet.payload)
            if packet.qos:
                self.send(Ack(PacketType.PUBACK, packet.packet_id))


def packets_of(decoder: Decoder, data: bytes) -> Iterator[Packet]:
    """What a client reads."""
    for item in decoder.feed(data) if data else ():
        if isinstance(item, Exception):
            raise Broken(f"a client cannot read what came: {item!r}")
        assert not isinstance(item, PublishBatch)
        yield from item.packets() if isinstance(item, PublishRun | AckRun) else (item,)


def packet_of(sent: Sent, packet_id: int, *, dup: bool = False) -> Publish:
    """The packet of a message."""
    properties = Properties() if sent.expiry is None else Properties(message_expiry_interval=sent.expiry)
    return Publish(sent.topic.encode(), sent.name, sent.qos, dup=dup, packet_id=packet_id, properties=properties)


class Mortal(Client):
    """Has a will of its own for every connection."""

    def live(self, node: BrokerLife) -> None:
        name = f"will-{self.name}-{self.connections + 1}".encode()
        self._will = name
        before = self.connections
        self.connect(node, will=ConnectWill(b"wills/" + self.name.encode(), name, 2))
        if self.connections > before:
            self.world.ledger.wills[name] = False

    def over(self, was_connected: bool, politely: bool) -> None:
        # A polite goodbye may not have arrived, if the node died over it.
        if was_connected and not politely:
            self.world.ledger.wills[self._will] = True
