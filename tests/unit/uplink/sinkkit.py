"""A sink in memory, whose answers a test decides, and a node that feeds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.uplink import Holding, Ledger, Uplink
from iot_mqtt.codec.runs import run_of
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.ports.uplink import Done, Place, Places, Plan, Record, Rejected, Sink
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rules, rule_of
from tests.unit.broker.harness import Node, run


def logged(position: int, length: int) -> LogRun:
    """A run of so many messages, as the log has it."""
    payloads = [b"%d" % number for number in range(position, position + length)]
    return LogRun(Reference(0, 0, position, length), run_of(b"up/x", payloads, []), b"up/x", "c", 1.0)


class MemorySink:
    """``ports.uplink.Sink``. What is safe outlives it: hand ``kept`` to the next one."""

    kind = "memory"

    def __init__(self, kept: list[Record] | None = None) -> None:
        self.kept = [] if kept is None else kept
        self.trouble: str | None = None
        self.lacks_room = False
        self.notes: tuple[str, ...] = ()
        self.dead = self.dropped = 0
        self.rejected: list[Rejected] = []
        #: Batches that wait for ``settle``.
        self.sent: deque[tuple[Sequence[Record], Done]] = deque()
        self.at_once = True
        self.gathers = False
        #: Batches that it takes before it says that it has enough.
        self.most = 1000
        self.knows = False
        self.ready: Callable[[], None] = _nobody
        self.opened: list[Place] = []
        self.closed = False

    async def open(self, place: Place) -> int:
        self.opened.append(place)
        if self.trouble is not None:
            raise Unavailable(self.trouble)
        self.sent.clear()
        return max(place.position, self.kept[-1].position + 1) if self.knows and self.kept else place.position

    def send(self, records: Sequence[Record], done: Done) -> bool:
        if self.trouble is not None:
            done(Unavailable(self.trouble))
            return True
        self.sent.append((records, done))
        if self.at_once:
            self.settle()
        return len(self.sent) < self.most

    def settle(self, count: int | None = None) -> None:
        """Make safe what was sent."""
        for _ in range(len(self.sent) if count is None else count):
            records, done = self.sent.popleft()
            self.kept += records
            done(None)

    def break_it(self, why: str = "broken") -> None:
        """Everything that is not safe is lost, and it can't be opened for now."""
        self.trouble = why
        sent, self.sent = self.sent, deque()
        for _, done in sent:
            done(Unavailable(why))

    async def close(self) -> None:
        self.settle()
        self.closed = True

    def abandon(self) -> None:
        self.closed = True

    @property
    def payloads(self) -> list[bytes]:
        """Of the plain messages that are safe."""
        return [record.value.partition(b'"payload":')[2][:-1] for record in self.kept]


def _nobody() -> None:
    """The reader puts its own there."""


def make_uplink(broker: Composition, plan: Plan, sink: Sink, places: Places, *, hold: bool = False) -> Uplink:
    """What a node composes; ``hold``: acknowledgements wait for the sink."""
    log, clock, turn = broker.log, broker.clock, broker.turn
    ledger = Ledger(places, log, clock, turn.reserve)
    holding = (
        Holding(ledger, broker.publishing.budget, turn.call_soon, broker.settings.receive_maximum) if hold else None
    )
    return Uplink(plan, sink, ledger, log, clock, turn.call_soon, holding)


class UplinkedNode:
    """A node with an uplink; ``restart`` gives it another life and another sink on what is safe."""

    def __init__(self, *rules: dict[str, object], hold: bool = False, **options: Any) -> None:
        self.node = Node(**options)
        #: Acknowledgements wait for the sink.
        self._hold = hold
        self._rules = Rules([rule_of(rule) for rule in rules or ({"filter": "up/#"},)])
        self.sink = MemorySink()
        self.begin()

    def begin(self, *, feed: bool = True) -> None:
        node = self.node
        plan, places = RulePlan(self._rules, "n1"), GridPlaces(node.grid, node.number)
        self.uplink = make_uplink(node.broker, plan, self.sink, places, hold=self._hold)
        run(self.uplink.attach())
        node.broker.feed(self.uplink)
        node.turn()
        if feed:
            self.uplink.begin()
            node.turn()

    def restart(self, *, written: bool = False) -> None:
        """Killed and started again."""
        self.sink = MemorySink(self.sink.kept)
        self.node.restart(written=written)
        self.begin()

    def publish(self, *payloads: bytes, topic: str = "up/x", qos: int = 1) -> None:
        writer = self.node.connect("writer")
        writer.publish(topic, *payloads, qos=qos)
        writer.disconnect()
