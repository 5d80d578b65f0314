"""Commands in a simulated world: nodes with what accompanies commands, senders, devices, and the account of it all.

What is held against the account is what ``docs/commands.md`` promises: what was acknowledged comes to an end, a command
that may not be repeated reaches its device once at most, and a state that was told is true.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from iot_mqtt.app.node.parts import make_accompanied
from iot_mqtt.codec import Ack, Packet, PacketType, Properties, Publish
from iot_mqtt.devices import COMMAND_ID, SWEEP_SECONDS, DevicesSettings
from iot_mqtt.grid.devices import GridDeviceStore, decode_command
from iot_mqtt.grid.records.keys import client_prefix
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.ports.grid import CacheName
from tests.simulation.brokers import BrokerLife
from tests.simulation.clients import Client, Subscriber
from tests.simulation.ledger import Broken
from tests.simulation.world import World

#: Of what was told in the same millisecond the later.
ORDER = [state.value for state in (State.QUEUED, State.SENT, State.UNCERTAIN, State.EXPIRED, State.FAILED, State.ACKED)]
WAITING = (State.QUEUED.value, State.SENT.value)
SETTLED = {State.ACKED.value, State.FAILED.value, State.EXPIRED.value}
#: What a device may have, and what it cannot have.
REACHED = (State.ACKED.value, State.UNCERTAIN.value)
#: Has no session at any time.
NOBODY = "nobody"
#: From the end of all trouble until every command is over: what nobody told of is looked for each 30 s, and what was
#: sent over a connection that is gone is uncertain 10 s after that.
OVER_WITHIN = 60.0


class Everybody:
    """May do everything, and stays."""

    def lets(self, user: str, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        return True

    def allows(self, who: Principal, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        return True

    def may_come(self, who: Principal) -> bool:
        return True

    def named(self, user: str) -> Principal:
        return Principal("", user)


class CommandLife(BrokerLife):
    """Commands are accompanied, as ``app.node.service`` has it."""

    async def go_beside(self) -> None:
        broker, cluster = self.broker, self.cluster
        assert broker is not None and cluster is not None
        store = GridDeviceStore(self.door.grid)
        self.accompanied = make_accompanied(broker, store, DevicesSettings(), Everybody())
        self.accompanied.join(cluster.questions)
        await self.accompanied.load(broker.routing.accompany)
        self._sweep()

    def _sweep(self) -> None:
        self.accompanied.sweep()
        self.clock.call_later(SWEEP_SECONDS, self._sweep)

    async def stop(self) -> None:
        self.accompanied.stopping()
        await super().stop()


@dataclass
class Ordered:
    """A command, and what is known of it from outside."""

    name: str
    target: str
    retry: bool
    expires_in: int | None
    accepted: bool = False
    #: How often its device got it, and confirmed it.
    came: int = 0
    confirmed: int = 0
    #: The states that were told, with their times, each as often as it was. One that another node told may be late.
    told: list[tuple[int, str]] = field(default_factory=list)

    @property
    def last_told(self) -> str | None:
        return max(self.told, key=lambda one: (one[0], ORDER.index(one[1])))[1] if self.told else None

    def packet(self, packet_id: int) -> Publish:
        pairs = ((COMMAND_ID, self.name), *((("retry", "yes"),) if self.retry else ()))
        properties = Properties(user_properties=pairs, message_expiry_interval=self.expires_in)
        return Publish(
            f"down/{self.target}".encode(), self.name.encode(), 1, packet_id=packet_id, properties=properties
        )


class Sender(Client):
    """What has no PUBACK when its connection ends it sends again, wherever it is then: the id is the same."""

    def __init__(self, world: CommandWorld, name: str) -> None:
        super().__init__(world, name)
        self._orders = world.orders
        self._count = 0
        self._under_way: dict[int, Ordered] = {}

    def order(self, target: str, *, retry: bool = False, expires_in: int | None = None) -> None:
        if not self.connected or len(self._under_way) > 20:
            return
        self._count += 1
        order = Ordered(f"{self.name}-{self._count}", target, retry, expires_in)
        self._orders[order.name] = order
        self._send(order)

    @property
    def waits(self) -> bool:
        """Whether it has no answer to something."""
        return bool(self._under_way)

    def _send(self, order: Ordered) -> None:
        packet_id = self.next_id()
        self._under_way[packet_id] = order
        assert self.line is not None
        self.world.trace(f"{self.name} orders {order.name} for {order.target} on {self.line.life.name}")
        self.send(order.packet(packet_id))

    def opened(self, present: bool) -> None:
        again, self._under_way = self._under_way, {}
        for order in again.values():
            self._send(order)

    def take(self, packet: Packet) -> None:
        if isinstance(packet, Ack) and packet.type is PacketType.PUBACK:
            order = self._under_way.pop(packet.packet_id)
            if packet.reason < 0x80:
                order.accepted = True
                self.world.trace(f"{order.name} is accepted")
            else:
                self.world.trace(f"{order.name} is refused: {packet.reason}")


class Device(Subscriber):
    """Gets what is for it, and confirms it at once or when it is told to."""

    def __init__(self, world: CommandWorld, name: str) -> None:
        super().__init__(world, name)
        self._orders = world.orders
        #: Keeps its confirmations to itself.
        self.slow = False
        self._kept_back: list[tuple[Publish, Ack]] = []

    def listen(self, qos: int) -> None:
        self.subscribe((f"down/{self.name}/#", qos))

    def take(self, packet: Packet) -> None:
        if not isinstance(packet, Publish):
            super().take(packet)
            return
        if packet.qos == 1 or packet.packet_id not in self._received:
            self._order_of(packet).came += 1
            self.world.trace(f"{self.name} gets {packet.payload.decode()} at QoS {packet.qos} dup {packet.dup}")
        if packet.qos == 2:
            self._received.add(packet.packet_id)
        kind = PacketType.PUBREC if packet.qos == 2 else PacketType.PUBACK
        self._kept_back.append((packet, Ack(kind, packet.packet_id)))
        if not self.slow:
            self.confirm()

    def _order_of(self, packet: Publish) -> Ordered:
        (name,) = (value for key, value in packet.properties.user_properties if key == COMMAND_ID)
        return self._orders[name]

    def confirm(self) -> None:
        """All that was kept back."""
        self.slow = False
        kept, self._kept_back = self._kept_back, []
        for packet, ack in kept:
            self._order_of(packet).confirmed += 1
            self.send(ack)

    def over(self, was_connected: bool, politely: bool) -> None:
        super().over(was_connected, politely)
        self._kept_back.clear()


class Watcher(Subscriber):
    """Is told all states."""

    def __init__(self, world: CommandWorld, name: str) -> None:
        super().__init__(world, name)
        self._orders = world.orders

    def _came(self, packet: Publish) -> None:
        said: dict[str, Any] = json.loads(packet.payload)
        self.world.trace(f"{said['id']} is {said['state']}: {said['detail']}")
        self._orders[said["id"]].told.append((said["at"], said["state"]))


class CommandWorld(World):
    """Three nodes, senders, devices, and one who is told what becomes of all."""

    life_of: ClassVar[type[BrokerLife]] = CommandLife

    def __init__(self, seed: int, tell: Any = None, *, served: bool = False) -> None:
        super().__init__(seed, ("a", "b", "c"), tell, served=served)
        for name in self.names:
            self.start(name)
        assert self.until(lambda: len(self.running) == len(self.names), 20.0), self.failed_starts
        self.orders: dict[str, Ordered] = {}
        self.senders = [Sender(self, f"s{number}") for number in range(2)]
        self.devices = [Device(self, f"d{number}") for number in range(4)]
        self.watcher = Watcher(self, "w")
        self.clients = [*self.senders, *self.devices, self.watcher]
        for client in self.clients:
            client.connect(self.rng.choice(self.running))
        assert self.until(lambda: all(client.connected for client in self.clients), 10.0)
        for device in self.devices:
            device.listen(self.rng.choice((1, 2)))
        self.watcher.subscribe(("status/#", 2))
        assert self.until(lambda: all(one.subscribed for one in (*self.devices, self.watcher)), 10.0)
        self.wait(1.0)

    def records(self) -> dict[str, StoredCommand]:
        """What the grid has of commands, by id."""
        entries = self.entries(CacheName.COMMANDS)
        owners = [client_prefix(name) for name in (NOBODY, *(device.name for device in self.devices))]
        keys = (owner + b"c" + name.encode() for name in self.orders for owner in owners)
        return {record.id: record for record in (decode_command(entries[key]) for key in keys if key in entries)}

    # The end.

    def close(self) -> None:
        """Nothing is under way: what was promised is so."""
        records = self.records()
        for order in self.orders.values():
            self._check(order, records.get(order.name))

    def _check(self, order: Ordered, record: StoredCommand | None) -> None:
        if order.came > 1 and not order.retry:
            raise Broken(f"twice: {order}, {record}")
        if record is None:
            if order.accepted or order.came or order.told:
                raise Broken(f"lost: {order} is in no record")
            return
        state = record.state.value
        if state in WAITING:
            raise Broken(f"waits: {order}, {record}")
        if state == State.ACKED.value and not order.confirmed:
            raise Broken(f"acked: {order} was never confirmed: {record}")
        if state not in REACHED and order.came:
            raise Broken(f"{state}: {order} came: {record}")
        if state not in REACHED and order.expires_in is None and order.target != f"{NOBODY}/x":
            raise Broken(f"{state}: {order} has no deadline: {record}")
        if order.last_told != state:
            raise Broken(f"told: {order}, and it is {record}")
        if len({told for _, told in order.told} & SETTLED) > 1:
            raise Broken(f"told: {order} was settled twice: {record}")

    def all_over(self) -> bool:
        """Whether nothing waits any more, and nothing that was sent is still to be answered."""
        records = self.records()
        return not any(sender.waits for sender in self.senders) and all(
            order.name in records and records[order.name].state.final and order.last_told == records[order.name].state
            for order in self.orders.values()
            if order.accepted
        )


class CommandWalk:
    """Commands are sent, devices come, go and move at random, and so do nodes and links."""

    def __init__(self, seed: int, *, served: bool = False, steps: int = 80, tell: Any = None) -> None:
        self.world = CommandWorld(seed, tell, served=served)
        self.rng = self.world.rng
        self.steps = steps

    def run(self) -> None:
        world, rng = self.world, self.rng
        for _ in range(self.steps):
            for sender in world.senders:
                self._move(sender, 0.05)
                for _ in range(rng.randrange(3)):
                    target = NOBODY if rng.random() < 0.05 else rng.choice(world.devices).name
                    expires_in = rng.choice((None, None, 1, 4, 20))
                    sender.order(f"{target}/x", retry=rng.random() < 0.2, expires_in=expires_in)
            for device in world.devices:
                self._device(device)
            self._move(world.watcher, 0.02)
            if rng.random() < 0.12:
                world.disturb(kill=0.3, stop=0.1, pause=0.1, part=0.2, heal=0.2)
            world.step(rng.uniform(0.01, 0.6))
        self._end()

    def _move(self, client: Client, chance: float) -> None:
        running = self.world.running
        if running and self.rng.random() < (0.4 if client.idle else chance):
            client.connect(self.rng.choice(running))

    def _device(self, device: Device) -> None:
        chance = self.rng.random()
        if chance < 0.06:
            device.leave(politely=chance < 0.03)
        elif chance < 0.12:
            device.slow = True
        elif chance < 0.3:
            device.confirm()
        else:
            self._move(device, 0.04)

    def _end(self) -> None:
        """Everybody is back, and confirms everything."""
        world, rng = self.world, self.rng
        world.trace("---- the end begins")
        world.network.heal()
        world.step(rng.choice((0.1, 2.0, 15.0)))
        for name in world.names:
            world.resume(name)

        def everybody() -> bool:
            for name in world.names:
                world.again(name)
            for device in world.devices:
                device.confirm()
            for client in world.clients:
                if client.idle and world.running:
                    client.connect(rng.choice(world.running))
            return len(world.running) == len(world.names) and all(client.connected for client in world.clients)

        if not world.until(everybody, 60.0):
            raise Broken("not everybody comes back")
        world.until(lambda: everybody() and world.all_over(), OVER_WITHIN)
        for _ in range(8):
            world.wait(0.5)
            everybody()
        world.close()
        world.leave()
