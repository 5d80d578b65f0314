"""A whole node in this process on a real directory, every commit of which can be witnessed; and its clients.

A start costs some milliseconds instead of a second, so that hundreds of crash points can be tried. The state on disk
between two commits is what ``kill -9`` would leave: a copy of the directory is another life that begins there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from ledger import Ledger

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, Packet, PacketType, Publish
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import Grid, WriteBatch
from iot_mqtt.values import ProtocolVersion
from tests.contract.driving import Pump
from tests.contract.logkit import Between, Done
from tests.unit.broker.harness import ANSWERS, Client, CrashingGrid, Node, run

#: Short enough that the log's generations change under the load.
LOG = LogSettings(generation_seconds=20.0)


class Witnessed(Between):
    """A grid that shows every commit: ``before`` it is written, and when it is ``after`` that but not acknowledged."""

    def __init__(self, grid: Grid, pump: Pump) -> None:
        super().__init__(grid)
        self._pump = pump
        self.before: Callable[[], None] | None = None
        self.after: Callable[[], None] | None = None

    async def commit(self, batch: WriteBatch) -> None:
        # Whoever starts a node in a test does not wait.
        self._pump.run(self.grid.commit(batch))

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        if self.before is not None:
            self.before()
        self.grid.commit_soon(batch, partial(self._written, done))

    def _written(self, done: Done, error: BaseException | None) -> None:
        if self.after is not None:
            self.after()
        done(error)


class DiskNode(Node):
    """``tests.unit.broker.harness.Node`` on the embedded grid. A turn lasts until its commit is back."""

    def __init__(self, directory: Path, clock: ManualClock | None = None) -> None:
        self.pump = Pump()
        super().__init__(MqttSettings(max_inflight=16), log_settings=LOG)
        # Its first life was in memory and without clients; this is another one, on disk.
        self.witnessed = Witnessed(EmbeddedGrid(Engine(directory), self.pump.cross), self.pump)
        self.grid = cast(CrashingGrid, self.witnessed)
        self.clock = clock or ManualClock()
        self.pump.run(self.witnessed.open())
        self._begin()

    def turn(self) -> None:
        super().turn()
        while self.store.latest > self.store.committed:
            self.pump.calls.get(timeout=60)()
            super().turn()

    def close(self) -> None:
        self.pump.run(self.witnessed.close())

    def damaged_pages(self) -> int:
        """Pages of the log that cannot be read."""

        async def count() -> int:
            return len([damage async for damage in self.log.verify()])

        return run(count())


class Actor:
    """A client with a session, whose half of the session is here and can be copied."""

    def __init__(
        self,
        name: str,
        version: ProtocolVersion,
        ledger: Ledger,
        *,
        filters: tuple[str, ...] = (),
        reader: str | None = None,
    ) -> None:
        self.name, self.version, self.ledger, self.filters = name, version, ledger, filters
        #: Under which name its deliveries are booked; the members of a group share one.
        self.reader = reader or name
        self.unacked: dict[int, tuple[str, bytes, int]] = {}
        self.released: dict[int, None] = {}
        self.received: dict[int, bytes] = {}
        self.known = False
        self.faults: list[str] = []
        self._last_id = 0
        self._client: Client | None = None

    @property
    def connected(self) -> bool:
        return self._client is not None

    def enter(self, node: Node) -> None:
        """Connect, take up what is unfinished, subscribe if that was never confirmed."""
        self._client = client = node.connect(
            self.name,
            self.version,
            clean=False,
            expiry=3600 if self.version is ProtocolVersion.V5 else None,
        )
        assert client.connack is not None
        if self.known and not client.connack.session_present:
            self.faults.append(f"{self.name}: the session is gone")
        self.known = True
        if self.filters:
            client.subscribe(*self.filters, qos=2)
        packets: list[Packet] = [Ack(PacketType.PUBREL, packet_id) for packet_id in self.released]
        packets += [
            Publish(topic.encode(), payload, qos, retain=False, dup=True, packet_id=packet_id)
            for packet_id, (topic, payload, qos) in self.unacked.items()
        ]
        if packets:
            client.send(*packets)

    def lose(self) -> None:
        """The connection breaks."""
        if self._client is not None:
            self._client.lose()
            self._client = None

    def forget(self) -> None:
        """The broker died; the connection is of no use any more."""
        self._client = None

    def publish(self, topic: str, payloads: list[bytes], qos: int) -> None:
        """In one piece."""
        assert self._client is not None
        packets: list[Packet] = []
        for payload in payloads:
            self._last_id = self._last_id % 65_535 + 1
            self.unacked[self._last_id] = topic, payload, qos
            packets.append(Publish(topic.encode(), payload, qos, packet_id=self._last_id))
        self._client.send(*packets)

    def work(self) -> bool:
        """Deal with everything that came; whether there was anything."""
        if self._client is None:
            return False
        packets = self._client.take_all()
        answers = [answer for packet in packets if (answer := self._answer(packet)) is not None]
        if answers:
            self._client.send(*answers)
        return bool(packets)

    def _answer(self, packet: Packet) -> Packet | None:
        if isinstance(packet, Publish):
            return self._received(packet)
        if not isinstance(packet, Ack):
            return None
        if packet.type is PacketType.PUBREL:
            self.received.pop(packet.packet_id, None)
            return Ack(PacketType.PUBCOMP, packet.packet_id)
        if packet.type is PacketType.PUBCOMP:
            self.released.pop(packet.packet_id, None)
            return None
        entry = self.unacked.pop(packet.packet_id, None)
        if entry is not None:
            self.ledger.acked(entry[1])
        if packet.type is PacketType.PUBREC:
            self.released[packet.packet_id] = None
            return Ack(PacketType.PUBREL, packet.packet_id)
        return None

    def _received(self, packet: Publish) -> Packet | None:
        if packet.qos == 2 and packet.packet_id in self.received:
            if self.received[packet.packet_id] != packet.payload:
                self.faults.append(f"{self.name}: id {packet.packet_id} is in use for another message")
        else:
            self.ledger.delivered(self.reader, packet.topic.decode(), packet.payload)
            if packet.qos == 2:
                self.received[packet.packet_id] = packet.payload
        return Ack(ANSWERS[packet.qos], packet.packet_id) if packet.qos else None
