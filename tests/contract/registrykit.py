"""What the registry suite stands on: clocks, nodes that write down what they are told, and a bench to put them on."""

from __future__ import annotations

import gc
import heapq
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from queue import Empty
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.clock import Timer
from iot_mqtt.ports.registry import Lease, Member, Registry, RegistryState
from tests.contract.driving import Driver, Pump

CONNECTED, SUSPENDED, LOST = RegistryState.CONNECTED, RegistryState.SUSPENDED, RegistryState.LOST
T = TypeVar("T")


class _Call:
    """A timer of the pump's."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class TimedPump(Pump):
    """A pump that is a clock, too: real time, calls when they are due, for registries with threads."""

    patience = 30.0

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        timer = _Call(call)
        heapq.heappush(self._calls, (time.monotonic() + delay, next(self._numbers), timer))
        return timer

    def until(self, condition: Callable[[], bool]) -> None:
        """As a reactor does: what another thread has handed over, then what is due."""
        end = time.monotonic() + self.patience
        while not condition():
            now = time.monotonic()
            assert now < end, "what was waited for did not come"
            due = self._calls[0][0] if self._calls else end
            try:
                call: Callable[[], None] | None = self.calls.get(timeout=max(0.001, min(due - now, 0.25)))
            except Empty:
                call = None
            if call is not None:
                call()
            while self._calls and self._calls[0][0] <= time.monotonic():
                timer = heapq.heappop(self._calls)[2]
                if timer.call is not None:
                    timer.call()

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end)


class ManualPump(ManualClock):
    """A clock that is turned on while something is waited for: for registries without threads."""

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(coroutine)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(2000):
            if condition():
                return
            self.advance(0.05)
        raise AssertionError("what was waited for did not come")

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        results: list[T | Failure] = []
        self.start(coroutine).addBoth(results.append)
        self.until(lambda: bool(results))
        result = results[0]
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def pass_time(self, seconds: float) -> None:
        self.advance(seconds)


class BenchDriver(Driver, Protocol):
    """A driver that can let time pass."""

    def pass_time(self, seconds: float) -> None: ...


def member(node_id: str, boot: int = 1) -> Member:
    return Member(
        node_id=node_id,
        number=1 + "abcdefg".index(node_id[-1]),
        boot=boot,
        version="1.2.3",
        addresses={"tcp": f"{node_id}:1883"},
    )


class Node:
    """A registry and what it told, in order: the states, and the members' boots by node id."""

    def __init__(self, node_id: str, registry: Registry, driver: BenchDriver) -> None:
        self.node_id = node_id
        self.registry = registry
        self.driver = driver
        self.told: list[RegistryState | dict[str, int]] = []
        registry.on_state = self.told.append
        registry.on_members = lambda: self.told.append(self.boots)

    @property
    def boots(self) -> dict[str, int]:
        return {node_id: one.boot for node_id, one in self.registry.members.items()}

    @property
    def states(self) -> list[RegistryState]:
        return [one for one in self.told if isinstance(one, RegistryState)]

    def register(self, boot: int = 1) -> None:
        self.driver.run(self.registry.register(member(self.node_id, boot)))

    def acquire(self, name: str) -> Lease | None:
        return self.driver.run(self.registry.acquire(name))

    def until_state(self, state: RegistryState) -> None:
        self.driver.until(lambda: self.registry.state is state)

    def until_sees(self, **boots: int) -> None:
        self.driver.until(lambda: self.boots == boots)


class Faults(logging.Handler):
    """What went wrong where no test looks: errors that nobody took, and listeners that failed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        logging.getLogger("iot_mqtt.cluster.registry").addHandler(self)
        globalLogPublisher.addObserver(self.observe)  # type: ignore[arg-type]

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))

    def observe(self, event: LogEvent) -> None:
        if event.get("log_failure") is not None:
            self.found.append(event["log_failure"].getTraceback())

    def end(self) -> list[str]:
        gc.collect()  # an error that nobody took is told when its Deferred goes
        globalLogPublisher.removeObserver(self.observe)  # type: ignore[arg-type]
        logging.getLogger("iot_mqtt.cluster.registry").removeHandler(self)
        return self.found


class Bench:
    """Nodes ``a``, ``b``, … that are to know one another, each with a connection that can be cut."""

    #: After so many seconds without a word a node is gone.
    session_timeout = 6.0

    def __init__(self, driver: BenchDriver) -> None:
        self.driver = driver
        self.nodes: list[Node] = []
        self.faults = Faults()

    def node(self, node_id: str) -> Node:
        """Its process starts (again); an earlier one of that name has died without a word."""
        node = Node(node_id, self.make(node_id), self.driver)
        self.nodes.append(node)
        return node

    def make(self, node_id: str) -> Registry:
        raise NotImplementedError

    def suspend(self, node_id: str) -> None:
        """Its connection is cut."""
        raise NotImplementedError

    def heal(self, node_id: str) -> None:
        """Its connection can be made again."""
        raise NotImplementedError

    def close(self) -> None:
        for node in self.nodes:
            self.driver.run(node.registry.close())
        assert self.faults.end() == []

    def joined(self, *node_ids: str) -> list[Node]:
        """These nodes, registered and seeing each other."""
        nodes = [self.node(node_id) for node_id in node_ids]
        for node in nodes:
            node.register()
        for node in nodes:
            node.until_state(CONNECTED)
            node.until_sees(**dict.fromkeys(node_ids, 1))
        return nodes
