"""A node in this process: a broker on a memory grid, time by hand, clients that are bytes on both sides.

::

    node = Node()
    alice = node.connect("alice")                      # v5, clean; the CONNACK is alice.connack
    alice.subscribe("a/+", qos=1)
    node.connect("bob", version=V311).publish("a/b", b"1", qos=1)
    assert alice.payloads() == [b"1"]
    node.hold()                                        # commits wait, as if the disk were slow
    node.restart()                                     # killed: what was not committed is gone

After everything a test does the turn ends by itself. Nothing here looks into the broker; a test that has to
says so by going through ``node.broker``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from iot_mqtt.app.node.views import make_view
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.connection import Connection, Kind
from iot_mqtt.broker.connections.traffic import Rates
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import BudgetSettings, LogUse, MqttSettings
from iot_mqtt.codec import (
    NO_PROPERTIES,
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
    Unsuback,
    Unsubscribe,
    encode,
)
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.grid.log import FollowedLog, GridLog, LogSettings
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.store import GridStore
from iot_mqtt.pipeline import Layout, MqttCodecStage, OutboxSettings, TimingWheel
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.access import AuthenticationMethod, Authenticator, Authorizer, Principal
from iot_mqtt.ports.bans import Bans
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.endings import NODE_RESTARTED
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.limits import Limits
from iot_mqtt.ports.log import Breath
from iot_mqtt.values import ProtocolVersion
from tests.doubles.channel import EmbeddedChannel
from tests.unit.auth.allow_all import AllowAll

V31, V311, V5 = ProtocolVersion.V31, ProtocolVersion.V311, ProtocolVersion.V5
P = TypeVar("P")

#: What is kept for sessions; the log is kept for its own time.
OF_SESSIONS = tuple(cache for cache in CacheName if not cache.value.startswith("log"))

#: What a client answers to what it gets, step by step.
ANSWERS = {1: PacketType.PUBACK, 2: PacketType.PUBREC}
NEXT = {PacketType.PUBREC: PacketType.PUBREL, PacketType.PUBREL: PacketType.PUBCOMP}


class CrashingGrid(MemoryGrid):
    """A memory grid whose process can be killed."""

    def crash(self, *, written: bool) -> None:
        """Nobody hears of the commits that wait; ``written``: they reached the disk all the same."""
        for batch, _ in self._waiting:
            if written:
                self._apply(batch)
        self._waiting.clear()
        self._held = False
        self._failure = None


class Node:
    """One node; ``restart`` gives it another life on the same grid."""

    def __init__(
        self,
        settings: MqttSettings | None = None,
        *,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        methods: Mapping[str, AuthenticationMethod] | None = None,
        outbox: OutboxSettings | None = None,
        tick: float = 0.25,
        durable: bool = True,
        log_settings: LogSettings | None = None,
        log_use: LogUse | None = None,
        budget: BudgetSettings | None = None,
        disk: DiskMeter | None = None,
        clean_for_others: bool = False,
        bans: Bans | None = None,
        limits: Callable[[Principal], Limits | None] = lambda _: None,
        rates: Mapping[str, Rates] | None = None,
        grid: CrashingGrid | None = None,
        number: int = 0,
        follows: tuple[int, ...] = (),
        breathe: Breath | None = None,
        at_home: Callable[[str], bool] | None = None,
    ) -> None:
        self.settings = settings or MqttSettings()
        self.grid = grid or CrashingGrid()
        #: Of the log it appends to, and of those that it only reads.
        self.number = number
        self.follows = follows
        #: Whose sessions are loaded; None: everybody's.
        self.at_home = at_home
        #: How the connections of a life before this one ended.
        self.ended = NODE_RESTARTED
        #: When long lists go on; None: in the next turn.
        self.breathe = breathe
        self.clock = ManualClock()
        self.outbox = outbox
        self.durable = durable
        #: Whether whoever connects next is a gateway.
        self.patient = False
        self.log_settings = log_settings or LogSettings()
        self.log_use = log_use
        self.budget = budget
        self.disk = disk
        self.clean_for_others = clean_for_others
        self.bans = bans
        self.limits = limits
        self.rates = rates
        self._access = (authenticator or AllowAll(), authorizer or AllowAll())
        self._methods = methods
        self._tick = tick
        self._ids = 0
        run(self.grid.open())
        self._begin()

    def _begin(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.clients: list[Client] = []
        self.counters = Counters(self.clock.wall)
        self.wheel = TimingWheel(self.clock, self._tick)
        self.store = GridStore(self.grid, self.clock, self.counters)
        self.log = GridLog(self.grid, self.store, self.clock, self.log_settings, self.number)
        self.broker = Composition(
            settings=self.settings,
            store=self.store,
            log=self.log,
            log_use=self.log_use,
            budget=self.budget,
            disk=self.disk,
            counters=self.counters,
            clock=self.clock,
            wheel=self.wheel,
            authenticator=self._access[0],
            authorizer=self._access[1],
            methods=self._methods,
            limits=self._limits_of,
            rates=self.rates,
            clean_for_others=self.clean_for_others,
            bans=self.bans,
            call_soon=self._soon.append,
            new_id=self._new_id,
        )
        self.view = make_view(
            self.broker, node_id="n1", version="0", started_at=self.clock.wall(), breathe=self.breathe
        )
        settings, broker = self.settings, self.broker
        self.layout = Layout(
            [
                (
                    "mqtt",
                    lambda: MqttCodecStage(
                        settings.max_packet_size,
                        max_connect_size=settings.max_connect_size,
                        topic_alias_maximum=settings.topic_alias_maximum,
                        routes=broker.routing.routes.classes,
                    ),
                ),
                ("broker", lambda: Connection(broker.serving(Kind(self.durable, self.patient)))),
            ]
        )
        run(self.log.open())
        for number in self.follows:
            self.follow(number)
        self._starting()
        run(self.broker.lifecycle.loading.load(self.at_home, self.ended))
        self.broker.readers.census.begin()
        self.serve()
        self.turn()

    def _starting(self) -> None:
        """Nothing is loaded yet."""

    def serve(self) -> None:
        """Everything is loaded, and clients may come."""
        self.broker.lifecycle.deadlines.look()

    def _limits_of(self, who: Principal) -> Limits | None:
        """As the test says at the moment."""
        return self.limits(who)

    def follow(self, number: int) -> FollowedLog:
        """Read another node's log from now on."""
        reader = FollowedLog(self.grid, self.log_settings, number)
        run(reader.open())
        self.broker.readers.logs.add(reader)
        return reader

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    # Time and trouble.

    def turn(self) -> None:
        """Let turns of the reactor pass until nothing is left to do now."""
        self.clock.advance(0)
        while self._soon:
            self.one_turn()
            self.clock.advance(0)

    def one_turn(self) -> bool:
        """Let one end; False if there is nothing left to do in the next."""
        calls = self._soon[:]
        self._soon.clear()
        for call in calls:
            call()
        return bool(self._soon)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.turn()

    def hold(self) -> None:
        """Commits wait."""
        self.grid.hold()

    def release(self) -> None:
        """Commits that wait are done, and later ones at once."""
        self.grid.release()
        self.turn()

    def fail(self) -> None:
        """The grid refuses commits."""
        self.grid.fail(Unavailable("no space left on device"))

    def recover(self) -> None:
        """The grid takes commits again; time passes until the store has noticed."""
        self.grid.fail(None)
        self.advance(2.1)

    def restart(self, *, written: bool = False) -> None:
        """Killed and started again; ``written``: the commit under way had reached the disk."""
        self.grid.crash(written=written)
        # Timers of the old life must not fire in the new one.
        self.clock = ManualClock(self.clock.monotonic(), self.clock.wall())
        self._begin()

    # Clients.

    def open(self, version: ProtocolVersion = V5) -> Client:
        """A client that has not sent anything."""
        client = Client(self, version)
        self.clients.append(client)
        return client

    def connect(
        self,
        client_id: str = "c",
        version: ProtocolVersion = V5,
        *,
        clean: bool = True,
        expiry: int | None = None,
        keep_alive: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        will: ConnectWill | None = None,
        **properties: Any,
    ) -> Client:
        """A client that has sent CONNECT and read the answer."""
        client = self.open(version)
        if expiry is not None:
            properties["session_expiry_interval"] = expiry
        connect = Connect(version, client_id, clean, keep_alive, username, password, will, Properties(**properties))
        client.send(connect)
        client.connack = next(iter(client.take(Connack)), None)
        return client

    # What is the case.

    def session(self, client_id: str) -> Session:
        """The session of a client; there must be one."""
        session = self.broker.sessions.get(client_id)
        assert session is not None, f"{client_id} has no session"
        return session

    def kept_session(self, client_id: str) -> KeptSession:
        """The same, of the kind that outlives its connection."""
        session = self.session(client_id)
        assert isinstance(session, KeptSession)
        return session

    def records(self, *caches: CacheName) -> int:
        """Records in the grid."""
        return sum(len(self.grid._values[cache]) for cache in caches)

    def dropped(self) -> dict[str, int]:
        """Drops by reason, those that happened."""
        return {str(reason): count for reason, count in self.counters.dropped.items() if count}

    @property
    def waiting(self) -> int:
        """Messages that some session has and its client has not confirmed."""
        count = 0
        for session in self.broker.sessions:
            count += len(session.queue) + len(session.outbound) - session.outbound.released
            count += self._owed(session)
        return count + sum(self._count(cursor) for cursor in self.broker.readers.groups)

    def _owed(self, session: Session) -> int:
        return sum(self._count(cursor) for cursor in session.cursors())

    @staticmethod
    def _count(cursor: LogCursor) -> int:
        assert cursor.backlog is not None, "nobody has counted what is owed"
        return cursor.backlog


class Client:
    """One connection from the client's side. What came is in ``inbox`` until it is taken."""

    def __init__(self, node: Node, version: ProtocolVersion) -> None:
        self.node = node
        self.version = version
        self.wire = EmbeddedChannel(node.layout, clock=node.clock, wheel=node.wheel, outbox=node.outbox)
        self.inbox: list[Packet] = []
        self.connack: Connack | None = None
        self._decoder = Decoder(role=Role.CLIENT, version=version)
        self._packet_id = 0

    @property
    def closed(self) -> bool:
        """The broker closed the connection."""
        self.read()
        return self.wire.closed

    @property
    def farewell(self) -> ReasonCode | None:
        """The reason of the DISCONNECT that came, if one did."""
        packet = next(iter(self.take(Disconnect)), None)
        return None if packet is None else packet.reason

    # Sending.

    def send(self, *packets: Packet) -> None:
        """These packets in one piece; then the turn ends."""
        self.feed(b"".join(encode(packet, self.version) for packet in packets))

    def feed(self, data: bytes) -> None:
        """These bytes; then the turn ends."""
        self.wire.feed(data)
        self.node.turn()

    def next_id(self) -> int:
        """Another packet id."""
        self._packet_id = self._packet_id % 65_535 + 1
        return self._packet_id

    def publish(
        self,
        topic: str,
        *payloads: bytes,
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        packet_id: int | None = None,
        **properties: Any,
    ) -> list[Packet]:
        """Publish in one piece, and what came back for it."""
        packets = [
            Publish(
                topic.encode(),
                payload,
                qos,
                retain,
                dup,
                0 if not qos else (packet_id or self.next_id()),
                Properties(**properties),
            )
            for payload in payloads or (b"",)
        ]
        self.send(*packets)
        return self.acks(PacketType.PUBACK if qos == 1 else PacketType.PUBREC)

    def subscribe(self, *filters: str | Request, qos: int = 0, identifier: int | None = None, **options: Any) -> Suback:
        """Subscribe in one packet, and its SUBACK."""
        self.send(subscribe(self.next_id(), *filters, qos=qos, identifier=identifier, **options))
        (suback,) = self.take(Suback)
        return suback

    def unsubscribe(self, *filters: str) -> Unsuback:
        """Unsubscribe in one packet, and its UNSUBACK."""
        self.send(Unsubscribe(self.next_id(), filters))
        (unsuback,) = self.take(Unsuback)
        return unsuback

    def ack(self, type: PacketType, *ids: int, reason: ReasonCode = ReasonCode.SUCCESS) -> None:
        """Acknowledgements in one piece."""
        self.send(*(Ack(type, packet_id, reason) for packet_id in ids))

    def disconnect(self, reason: ReasonCode = ReasonCode.SUCCESS, **properties: Any) -> None:
        """Say goodbye."""
        self.send(Disconnect(reason, Properties(**properties)))

    def lose(self) -> None:
        """The connection breaks."""
        self.wire.peer_closes()
        self.node.turn()

    # Receiving.

    def read(self) -> list[Packet]:
        """Decode what came; everything that is in the inbox now."""
        data = self.wire.take()
        if data:
            for item in self._decoder.feed(data):
                assert not isinstance(item, Exception), f"the broker sent something wrong: {item!r}"
                if isinstance(item, PublishRun | AckRun):
                    self.inbox += item.packets()
                else:
                    assert not isinstance(item, PublishBatch)
                    self.inbox.append(item)
        return self.inbox

    def take(self, kind: type[P]) -> list[P]:
        """All packets of one kind, out of the inbox."""
        taken: list[P] = [packet for packet in self.read() if isinstance(packet, kind)]
        self.inbox = [packet for packet in self.inbox if not isinstance(packet, kind)]
        return taken

    def take_all(self) -> list[Packet]:
        """Everything, out of the inbox."""
        taken, self.inbox = self.read(), []
        return taken

    def acks(self, type: PacketType) -> list[Packet]:
        """All acknowledgements of one type, out of the inbox."""
        taken = [packet for packet in self.read() if packet.type is type]
        self.inbox = [packet for packet in self.inbox if packet.type is not type]
        return taken

    def messages(self) -> list[Publish]:
        """All PUBLISH packets, out of the inbox."""
        return self.take(Publish)

    def payloads(self) -> list[bytes]:
        """Their payloads."""
        return [message.payload for message in self.messages()]

    def drain(self) -> list[bytes]:
        """Confirm everything, both halves of QoS 2, until nothing more comes; the payloads that did."""
        payloads: list[bytes] = []
        while True:
            answers: list[Packet] = []
            for packet in self.take_all():
                if isinstance(packet, Publish):
                    payloads.append(packet.payload)
                    if packet.qos:
                        answers.append(Ack(ANSWERS[packet.qos], packet.packet_id))
                elif isinstance(packet, Ack) and packet.type in NEXT:
                    answers.append(Ack(NEXT[packet.type], packet.packet_id))
            if not answers:
                return payloads
            self.send(*answers)


def subscribe(
    packet_id: int, *filters: str | Request, qos: int = 0, identifier: int | None = None, **options: Any
) -> Subscribe:
    """A SUBSCRIBE packet."""
    requests = tuple(one if isinstance(one, Request) else Request(one, qos, **options) for one in filters)
    properties = NO_PROPERTIES if identifier is None else Properties(subscription_identifiers=(identifier,))
    return Subscribe(packet_id, requests, properties)


def run(coroutine: Coroutine[Any, Any, P]) -> P:
    """Run a coroutine that waits for nothing."""
    results: list[P] = []

    def failed(error: BaseException) -> None:
        raise error

    drive(coroutine, results.append, failed)
    assert results, "it waits for something"
    return results[0]
