"""Commands to a fleet that never stands still, posted over MQTT and REST; and the judgement of what became of each.

One run: ``Crowd`` connects its devices, posts its commands while they drop and move, and waits until every command is
over; ``judge`` compares what the broker says of each with what the devices wrote down and with what was told.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from systemkit import wire
from systemkit.process import BrokerProcess

from iot_mqtt.admin.token import read_token
from tests.cluster.fleet import JAMMED, Gateway, Ledger, MqttDevice
from tests.cluster.roving import RovingClient, stop

FINAL = {"acked", "failed", "expired", "uncertain"}
#: Devices behind one gateway.
BEHIND_ONE = 20
SENDERS, POSTERS = 4, 4
#: Deadlines, in seconds, and how many commands of a hundred have one of these.
SHORT, LONG, WITH_DEADLINE = (1, 3), (8, 12), 30


@dataclass(frozen=True, slots=True)
class Order:
    """One command."""

    id: str
    target: str
    retry: bool
    #: Seconds; 0: none.
    deadline: int
    wants_reply: bool
    qos: int

    def properties(self) -> bytes:
        """As MQTT has them."""
        said = {"command-id": self.id}
        if self.retry:
            said["retry"] = "yes"
        if self.wants_reply:
            said["wants-reply"] = "yes"
        written = b"".join(b"\x26" + wire.text(name) + wire.text(value) for name, value in said.items())
        return written + (b"\x02" + self.deadline.to_bytes(4, "big") if self.deadline else b"")

    def body(self) -> bytes:
        """As REST has it."""
        said: dict[str, object] = {"target": self.target, "id": self.id, "body": self.id, "retry": self.retry}
        said["wants_reply"] = self.wants_reply
        if self.deadline:
            said["expires_in"] = self.deadline
        return json.dumps(said).encode()


class Sender(RovingClient):
    """Sends commands, each until it is acknowledged, over as many connections as that takes."""

    def order(self, order: Order) -> None:
        packet_id, topic, body = self._next_id(), f"down/{order.target}", order.id.encode()
        frame = wire.publish(topic, body, qos=order.qos, packet_id=packet_id, version=5, properties=order.properties())
        self._unacked[packet_id] = frame, body
        if self._transport is not None:
            self._transport.write(frame)


@dataclass(slots=True)
class Outcome:
    """What a run has shown."""

    records: list[dict[str, Any]]
    states: Counter[str] = field(default_factory=Counter)
    twice: int = 0

    def __str__(self) -> str:
        return f"commands={len(self.records)} {dict(sorted(self.states.items()))} came_more_than_once={self.twice}"


class Crowd:
    """Devices, senders and a listener, and what they saw. ``brokers`` are the nodes of one broker."""

    def __init__(
        self,
        brokers: Sequence[BrokerProcess],
        dice: random.Random,
        *,
        devices: int,
        commands: int,
    ) -> None:
        self.brokers, self.dice = brokers, dice
        self.ledger = Ledger(dice)
        ports = [broker.ports["mqtt"] for broker in brokers]
        half = devices // 2
        self.mqtt = [MqttDevice(f"d{number}", number % 2 + 1, ports, self.ledger) for number in range(half)]
        links = [broker.ports["gateway"] for broker in brokers]
        behind = [min(BEHIND_ONE, devices - half - at) for at in range(0, devices - half, BEHIND_ONE)]
        self.gateways = [Gateway(f"g{number}", count, links, self.ledger) for number, count in enumerate(behind)]
        targets = [f"{device.client_id}/x" for device in self.mqtt]
        targets += [f"{gateway.name}/{device}" for gateway in self.gateways for device in gateway.devices]
        self.orders = [self._order(number, targets[number % len(targets)]) for number in range(commands)]
        self.by_id = {order.id: order for order in self.orders}
        self.ledger.wants_reply.update(order.id for order in self.orders if order.wants_reply)
        self.accepted: set[str] = set()
        #: (command id, state) that was told.
        self.told: set[tuple[str, str]] = set()
        self.listener = RovingClient(
            "listener", ports, dice, version=5, filters=(("status/#", 1),), on_delivery=self._heard
        )
        self.senders = [
            Sender(f"sender-{number}", ports, dice, version=5, on_acked=self._was_accepted) for number in range(SENDERS)
        ]
        #: What REST refused, which nobody expects.
        self.refused: list[str] = []
        self.moves = 0

    def _order(self, number: int, target: str) -> Order:
        dice = self.dice
        deadline = dice.randint(*dice.choice((SHORT, LONG))) if dice.randrange(100) < WITH_DEADLINE else 0
        # A gateway's answer is a reply; a device that speaks MQTT is asked for one.
        wants_reply = target.startswith("d") and dice.randrange(5) == 0
        return Order(f"fleet-{number}", target, dice.randrange(10) < 3, deadline, wants_reply, dice.choice((1, 2)))

    def _was_accepted(self, body: bytes) -> None:
        self.accepted.add(body.decode())

    def _heard(self, _: str, topic: str, payload: bytes) -> None:
        status = json.loads(payload)
        assert topic == f"status/{status['target']}/{status['id']}"
        self.told.add((status["id"], status["state"]))

    # One run.

    async def run(self, seconds: float, moves: float, trouble: Callable[[], None] | None = None) -> Outcome:
        """Commands are posted within so many seconds, with so many moves in each; ``trouble`` happens meanwhile, in a
        thread.
        """
        movers: list[MqttDevice | Gateway] = [*self.mqtt, *self.gateways]
        tasks = [asyncio.create_task(one.run()) for one in (*movers, self.listener, *self.senders)]
        try:
            clients = (*self.mqtt, self.listener, *self.senders)
            async with asyncio.timeout(60 + len(movers) / 10):
                await asyncio.gather(
                    *(one.connected() for one in clients), *(one.known.wait() for one in self.gateways)
                )
            moving = asyncio.create_task(self._move(movers, moves))
            tasks.append(moving)
            troubling = asyncio.create_task(asyncio.to_thread(trouble or _nothing))
            await self._post(seconds)
            await troubling
            await self._until(lambda: len(self.accepted) >= len(self.orders), 120, "not every command was accepted")
            # What would drop or be ignored from now on would do so for ever.
            self.ledger.unsettled = False
            moving.cancel()
            for one in movers:
                one.drop()
            found = await self._over(60 + len(self.orders) / 200)
            for broker in self.brokers:
                await self._until(partial(self._all_online, broker), 10, "not every gateway is called online")
            return found
        finally:
            self.ledger.unsettled = False
            await stop(tasks)

    async def _move(self, movers: Sequence[MqttDevice | Gateway], rate: float) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            while self.moves < (time.monotonic() - began) * rate:
                self.moves += 1
                one = self.dice.choice(movers)
                if not one.is_up:
                    continue
                if self.dice.randrange(2):
                    one.hop()
                else:
                    one.stay_away()
            if self.dice.randrange(100) == 0:
                self.dice.choice(self.senders).drop()

    async def _post(self, seconds: float) -> None:
        """In the order of their numbers, seven of ten over MQTT."""
        waiting: asyncio.Queue[Order | None] = asyncio.Queue()
        posters = [asyncio.create_task(self._rest(waiting)) for _ in range(POSTERS)]
        began = time.monotonic()
        for number, order in enumerate(self.orders):
            await asyncio.sleep(max(0.0, began + number / len(self.orders) * seconds - time.monotonic()))
            if self.dice.randrange(10) < 3:
                waiting.put_nowait(order)
                continue
            await self._until(lambda: any(one.room for one in self.senders), 60, "no sender can send")
            self.dice.choice([one for one in self.senders if one.room]).order(order)
        for _ in posters:
            waiting.put_nowait(None)
        await asyncio.gather(*posters)

    async def _rest(self, waiting: asyncio.Queue[Order | None]) -> None:
        while (order := await waiting.get()) is not None:
            while True:
                if await asyncio.to_thread(self._posted, order, self.dice.choice(self.brokers)):
                    break
                await asyncio.sleep(0.1)
            self.accepted.add(order.id)

    def _posted(self, order: Order, broker: BrokerProcess) -> bool:
        """Whether it was accepted; what was not, because a node is not there or not ready, is posted again."""
        try:
            record = api(broker, "commands", order.body())
        except urllib.error.HTTPError as error:
            if error.code < 500:
                self.refused.append(f"{order.id}: {error.code} {error.read().decode()}")
            return error.code < 500
        except OSError:
            return False
        assert record["id"] == order.id
        return True

    async def _over(self, seconds: float) -> Outcome:
        """Until no command is under way any more, and everything was told."""
        deadline = time.monotonic() + seconds
        while True:
            # The grid may have commands of others.
            listed = await asyncio.to_thread(everything, self.brokers[0])
            records = [one for one in listed if one["id"] in self.by_id]
            over = all(one["state"] in FINAL and (one["id"], one["state"]) in self.told for one in records)
            if over or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.5)
        found = Outcome(records)
        found.states.update(one["state"] for one in records)
        found.twice = sum(count > 1 for count in self.ledger.came.values())
        return found

    def _all_online(self, broker: BrokerProcess) -> bool:
        names = [gateway.name for gateway in self.gateways]
        return all(api(broker, f"devices/{name}")["online"] for name in names)

    async def _until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, what
            await asyncio.sleep(0.01)

    def judge(self, found: Outcome) -> None:
        """Nothing silent, nothing twice without leave, and what the broker says is what the devices wrote down."""
        came, records = self.ledger.came, found.records
        faults = [fault for one in (*self.mqtt, *self.senders, self.listener) for fault in one.faults]
        assert not faults, faults[:5]
        assert not self.refused, self.refused[:5]
        assert self.accepted == self.by_id.keys()
        listed = Counter(one["id"] for one in records)
        assert listed.keys() == self.by_id.keys(), f"not accepted: {listed.keys() ^ self.by_id.keys()}"
        assert (several := [one for one in records if listed[one["id"]] > 1]) == [], several[:4]
        wrong: dict[str, list[dict[str, Any]]] = {}

        def rule(name: str, broken: Callable[[Mapping[str, Any]], bool]) -> None:
            if some := [one for one in records if broken(one)]:
                wrong[name] = some

        rule("not over", lambda one: one["state"] not in FINAL)
        rule("its end was not told", lambda one: (one["id"], one["state"]) not in self.told)
        rule("came twice without leave", lambda one: came[one["id"]] > 1 and not self.by_id[one["id"]].retry)
        rule("acked, and never came", lambda one: one["state"] == "acked" and not came[one["id"]])
        rule("expired, and came", lambda one: one["state"] == "expired" and came[one["id"]] > 0)
        rule("failed, and the device did not say so", self._failed_by_itself)
        rule("without deadline, and expired", lambda one: one["state"] == "expired" and not one["deadline"])
        rule("may be sent again, no deadline, and is not over", self._given_up)
        assert not wrong, "\n".join(
            f"{name}: {len(some)}, such as {some[0]}, came {came[some[0]['id']]} times" for name, some in wrong.items()
        )
        assert sum(found.states.values()) == len(self.orders)

    def _failed_by_itself(self, one: Mapping[str, Any]) -> bool:
        return one["state"] == "failed" and (one["detail"] != JAMMED or one["id"] not in self.ledger.jammed)

    def _given_up(self, one: Mapping[str, Any]) -> bool:
        order = self.by_id[one["id"]]
        return order.retry and not order.deadline and one["state"] == "uncertain"


def api(broker: BrokerProcess, path: str, body: bytes | None = None) -> Any:
    """What the admin API answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{broker.ports['admin']}/api/v1/{path}", body)
    request.add_header("Authorization", f"Bearer {read_token(str(broker.data_dir))}")
    with urllib.request.urlopen(request, timeout=50) as answer:
        return json.loads(answer.read())


def everything(broker: BrokerProcess) -> list[dict[str, Any]]:
    """All commands."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = api(broker, f"commands?limit=1000{after}")
        found += page["items"]
        if page["after"] is None:
            return found
        after = f"&after={page['after']}"


def _nothing() -> None:
    """No trouble."""
