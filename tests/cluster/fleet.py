"""Devices that take commands, behind gateways and by themselves: they drop, move, and write down what came.

What is written down is what came over the wire, on any connection, whether the device then confirmed it or not: a
command that must not be sent twice must not come twice even on a connection that was left behind.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from systemkit import wire
from systemkit.wire import Received, Splitter

from iot_mqtt.custom_protocols.gateway.wire import Code, Type
from tests.cluster.roving import AGAIN, PATIENCE, RovingClient
from tests.doubles import gateway as client

#: What a device does with a command, one time in so many, while it is unsettled.
DROPS, IGNORES, REFUSES, HESITATES = 8, 20, 12, 4
#: The word of a device that refuses.
JAMMED = "jammed"
#: Seconds for which one that dropped stays away, at most.
LONGEST_AWAY = 3.0


class Ledger:
    """What the devices of one test say for themselves."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        #: Command id → how often it came.
        self.came: Counter[str] = Counter()
        #: What was answered with a refusal, at least once.
        self.jammed: set[str] = set()
        #: Commands that want to be replied to.
        self.wants_reply: set[str] = set()
        #: Devices drop, move and ignore; false: all of them do as they are told.
        self.unsettled = True

    def once_in(self, times: int) -> bool:
        return self.unsettled and self.dice.randrange(times) == 0


class MqttDevice(RovingClient):
    """A device that speaks MQTT 5; its commands come with the QoS that it asks for."""

    def __init__(self, name: str, qos: int, ports: Sequence[int], ledger: Ledger) -> None:
        super().__init__(name, ports, ledger.dice, version=5, filters=((f"down/{name}/#", qos),))
        self._ledger = ledger
        self._pause = 0.0

    def stay_away(self) -> None:
        """Drop without a word, and come back after a while, anywhere."""
        self._pause = self._ledger.dice.uniform(0, LONGEST_AWAY)
        self.drop()

    async def _somewhere(self) -> bool:
        pause, self._pause = self._pause, 0.0
        await asyncio.sleep(pause)
        try:
            return await super()._somewhere()
        finally:
            self.fixed = None

    def hop(self) -> None:
        """Everything that still comes on the connection that is left behind is written down, too."""
        transport = self._transport
        super().hop()
        assert transport is not None
        transport.set_protocol(_Behind(self._splitter, self._ledger))

    def _handle(self, received: Received, replies: list[bytes]) -> None:
        if received.kind == wire.PUBLISH:
            command = _write_down(received, self._ledger)
            if self._ledger.once_in(DROPS):
                # Before its PUBACK is written.
                self.stay_away()
            if command in self._ledger.wants_reply:
                self._reply(command)
        super()._handle(received, replies)

    def _reply(self, command: str) -> None:
        """Kept until it is acknowledged: over as many connections as that takes."""
        packet_id = self._next_id()
        frame = wire.publish(f"reply/{command}", b"", qos=1, packet_id=packet_id, version=5)
        self._unacked[packet_id] = frame, b""
        if self.is_up and self._transport is not None:
            self._transport.write(frame)


class _Behind(asyncio.Protocol):
    """An MQTT connection that was left: nothing on it is answered."""

    def __init__(self, splitter: Splitter, ledger: Ledger) -> None:
        self._splitter, self._ledger = splitter, ledger

    def data_received(self, data: bytes) -> None:
        for received in self._splitter.feed(data):
            if received.kind == wire.PUBLISH:
                _write_down(received, self._ledger)


def _write_down(received: Received, ledger: Ledger) -> str:
    command = wire.publication(received, 5).payload.decode()
    ledger.came[command] += 1
    return command


class Gateway:
    """Stands for several devices. ``run`` keeps it connected until cancelled."""

    def __init__(self, name: str, devices: int, ports: Sequence[int], ledger: Ledger) -> None:
        self.name = name
        self.ports = ports
        self.port = 0
        self.devices = [f"plc-{number}" for number in range(devices)]
        #: Its first readings are safe: by then the whole cluster knows where its commands go.
        self.known = asyncio.Event()
        self._ledger = ledger
        self._link: _Link | None = None
        self._next: int | None = None
        self._pause = 0.0
        self._gone = asyncio.Event()

    @property
    def is_up(self) -> bool:
        return self._link is not None and self._link.welcome

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is gone."""
        dice = self._ledger.dice
        try:
            while True:
                self.port, self._next = self._next or dice.choice(self.ports), None
                self._gone.clear()
                link = self._link = _Link(self)
                await self._connect(link)
                if link.welcome:
                    await self._gone.wait()
                if link is self._link:
                    link.cut()
                pause, self._pause = self._pause, 0.0
                await asyncio.sleep(pause or (0.0 if link.welcome else dice.uniform(*AGAIN)))
        finally:
            self.drop()

    async def _connect(self, link: _Link) -> None:
        """A node that is paused, or that cannot let anybody in, says nothing."""
        with suppress(OSError):
            async with asyncio.timeout(2 * PATIENCE):
                await asyncio.get_running_loop().create_connection(lambda: link, "127.0.0.1", self.port)
                await link.let_in.wait()

    def drop(self) -> None:
        """Cut the connection without a word."""
        if self._link is not None:
            self._link.cut()

    def stay_away(self) -> None:
        """And come back after a while, anywhere."""
        self._pause = self._ledger.dice.uniform(0, LONGEST_AWAY)
        self.drop()

    def hop(self) -> None:
        """Connect to the next port while the old connection is still there."""
        self._next = self.ports[(self.ports.index(self.port) + 1) % len(self.ports)]
        self._link = None
        self._gone.set()

    def lost(self, link: _Link) -> None:
        """The connection is over."""
        link.let_in.set()
        if link is self._link:
            self._gone.set()

    def ordered(self, link: _Link, order: client.Ordered) -> None:
        """A command came."""
        ledger, command = self._ledger, order.body.decode()
        ledger.came[command] += 1
        if link is not self._link:
            return
        if ledger.once_in(DROPS):
            self.stay_away()
        elif ledger.once_in(IGNORES):
            return
        elif ledger.once_in(HESITATES):
            pause = ledger.dice.uniform(0, 0.5)
            asyncio.get_running_loop().call_later(pause, self._answer, link, order.number, command)
        else:
            self._answer(link, order.number, command)

    def _answer(self, link: _Link, number: int, command: str) -> None:
        if link is not self._link:
            return
        jammed = self._ledger.once_in(REFUSES)
        if jammed:
            self._ledger.jammed.add(command)
        link.say(client.answer(number, not jammed, JAMMED if jammed else ""))


class _Link(asyncio.Protocol):
    """One connection of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.welcome = False
        self.let_in = asyncio.Event()
        self._gateway = gateway
        self._inbox = client.Inbox()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        gateway = self._gateway
        readings = [(device, [("n", Type.U32, 1)]) for device in gateway.devices]
        data = client.data(readings, sequence=round(time.time() * 1e6), wants_ack=True)
        self.say(client.login(gateway.name, heartbeat=60) + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gateway.lost(self)

    def data_received(self, data: bytes) -> None:
        for message in self._inbox.feed(data):
            match message:
                case client.LoginAnswer(code=code):
                    self.welcome = code is Code.WELCOME
                    self.let_in.set()
                case client.Ack():
                    self._gateway.known.set()
                case client.Ordered():
                    self._gateway.ordered(self, message)
                case client.Ping(answer=False):
                    self.say(client.heartbeat_answer())
                case _:
                    pass

    def say(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()
