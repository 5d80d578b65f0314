"""A fault at every write point: each start succeeds, nothing acknowledged is missing, nothing comes twice at QoS 2.

Most points are tried in this process (``systemkit.disknode``): a load runs once, and behind each of its commits the
directory is copied together with what every client knows at that moment. Each copy is a life of its own: the commit
was not written, in part, or in whole; the node starts on it, all clients come back, and the ledger is settled.
A few dozen real processes then kill themselves at a counted write.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from ledger import Account, Ledger
from systemkit.disknode import Actor, DiskNode
from systemkit.process import MOSQUITTO, BrokerProcess, Options
from systemkit.waiting import until
from test_kill9 import Load

from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.values import ProtocolVersion
from tests.contract.logfile import logs, used

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5

#: Commits of the load; each gives a point for "not written", "in part" and "in whole".
COMMITS = 80
#: Damages to the end of the log.
DAMAGES = 80
#: Rounds of answers after which nobody can have anything to say any more.
MANY_ROUNDS = 1000
#: Lives of real processes; each comes about two writes further than the one before.
LIVES = 10
#: More writes than a life has.
NEVER = 1_000_000_000

PUBLISHERS = {"one-4": (V311, 1), "two-4": (V311, 2), "one-5": (V5, 1), "two-5": (V5, 2)}

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="counts the writes of our own engine")


class World:
    """Everything outside of the broker: clients, their sessions' halves, and the books."""

    def __init__(self) -> None:
        self.ledger, self.shared = Ledger(), Ledger()
        self.actors = {name: Actor(name, version, self.ledger) for name, (version, _) in PUBLISHERS.items()}
        for name, (_, qos) in PUBLISHERS.items():
            self.ledger.publisher(name, f"t/{qos}/{name}", qos)
        readers = {"here": (V5, ("t/#",)), "away": (V311, ("t/+/two-4", "t/1/#")), "flapping": (V5, ("t/2/+",))}
        for name, (version, filters) in readers.items():
            self.actors[name] = Actor(name, version, self.ledger, filters=filters)
        self.ledger.subscribe("here", list(PUBLISHERS))
        self.ledger.subscribe("away", ["two-4", "one-4", "one-5"])
        self.ledger.subscribe("flapping", ["two-4", "two-5"])
        self.actors["job"] = Actor("job", V5, self.shared)
        self.shared.publisher("job", "jobs/x", 2)
        self.shared.subscribe("group", ["job"])
        for name in ("m1", "m2"):
            self.actors[name] = Actor(name, V5, self.shared, filters=("$share/g/jobs/+",), reader="group")

    @property
    def faults(self) -> list[str]:
        return [fault for actor in self.actors.values() for fault in actor.faults]

    def work(self) -> None:
        """Until nobody has anything to do."""
        for _ in range(MANY_ROUNDS):
            if not sum(actor.work() for actor in self.actors.values()):
                return
        raise AssertionError("the broker sends for ever")

    def frozen(self) -> World:
        """As it is now, without connections."""
        connections = {actor: actor._client for actor in self.actors.values()}
        for actor in connections:
            actor.forget()
        twin = copy.deepcopy(self)
        for actor, connection in connections.items():
            actor._client = connection
        return twin

    def settle(self, node: DiskNode) -> str | None:
        """Everybody comes back to a new life of the node and finishes; what is wrong then, if anything."""
        for actor in self.actors.values():
            actor.enter(node)
            actor.work()
        self.work()
        account, shared = self.ledger.check(), self.shared.check()
        counts = (account.lost_acked, account.duplicate_qos2, account.reordered, account.unexplained)
        if any(counts) or account.acked != account.sent:
            return f"{account}\n{self.ledger.details()}"
        if shared.lost_acked or shared.duplicate_qos2 or shared.unexplained or shared.acked != shared.sent:
            return f"the group: {shared}\n{self.shared.details()}"
        damaged = node.damaged_pages()
        return "\n".join([*self.faults[:5], f"{damaged} damaged pages"]) if self.faults or damaged else None


@dataclass(frozen=True, slots=True)
class Moment:
    """Just behind a commit: the directory, the world that has not heard of it yet, and where the log was written.

    The file may be longer, with zeros.
    """

    directory: Path
    world: World
    clock: tuple[float, float]
    log: str
    start: int
    stop: int


class Recorder:
    """Runs the load and keeps a moment behind each commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.moments: list[Moment] = []
        self.world = World()
        self.node = DiskNode(folder / "live")
        self._sizes: dict[str, int] = {}
        self.node.witnessed.before = self._before
        self.node.witnessed.after = self._after

    def _logs(self) -> dict[str, int]:
        return {path.name: used(path) for path in logs(self.folder / "live")}

    def _before(self) -> None:
        self._sizes = self._logs()

    def _after(self) -> None:
        grown = [(name, size) for name, size in self._logs().items() if size > self._sizes.get(name, 0)]
        if not grown:
            return  # an empty batch is not written
        assert len(grown) == 1, "a commit is one write to one file"
        name, size = grown[0]
        directory = self.folder / f"moment-{len(self.moments)}"
        shutil.copytree(self.folder / "live", directory)
        clock = self.node.clock
        self.moments.append(
            Moment(
                directory,
                self.world.frozen(),
                (clock.monotonic(), clock.wall()),
                name,
                self._sizes.get(name, 0),
                size,
            )
        )

    def run(self, commits: int) -> None:
        """Publish, lag, go away, come back, while time passes; until there were so many commits."""
        dice, actors = random.Random(4), self.world.actors
        for actor in actors.values():
            actor.enter(self.node)
        for step in itertools.count():
            if len(self.moments) >= commits:
                break
            self._publish(dice)
            for actor in actors.values():
                if dice.random() < 0.6:
                    actor.work()
            for name, chance in (("away", 0.1), ("flapping", 0.3), ("m1", 0.15), ("one-5", 0.05)):
                if dice.random() < chance:
                    actor = actors[name]
                    actor.lose() if actor.connected else actor.enter(self.node)
            if step % 7 == 0:
                self.node.connect(f"visitor-{step % 3}", V5, clean=step % 2 == 0, expiry=5).subscribe("t/1/#", qos=1)
            self.node.advance(1.0)
        self.node.witnessed.before = self.node.witnessed.after = None
        self.node.close()

    def _publish(self, dice: random.Random) -> None:
        for name, (_, qos) in PUBLISHERS.items():
            actor = self.world.actors[name]
            if actor.connected and len(actor.unacked) < 20:
                payloads = [self.world.ledger.next(name) for _ in range(dice.randrange(6))]
                if payloads:
                    actor.publish(f"t/{qos}/{name}", payloads, qos)
        self.world.actors["job"].publish("jobs/x", [self.world.shared.next("job")], 2)


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> list[Moment]:
    """One load, with everything a crash behind each of its commits would leave."""
    recorder = Recorder(tmp_path_factory.mktemp("crash"))
    recorder.run(COMMITS)
    return recorder.moments


Damage = Callable[[bytearray], bytearray]


def _live_on(moment: Moment, target: Path, damage: Damage) -> str | None:
    """Start on a copy of the moment with its log damaged; what is wrong, if anything."""
    directory = target / "life"
    shutil.copytree(moment.directory, directory)
    log = directory / moment.log
    log.write_bytes(damage(bytearray(log.read_bytes())))
    node = DiskNode(directory, ManualClock(*moment.clock))
    try:
        return copy.deepcopy(moment.world).settle(node)
    finally:
        node.close()
        shutil.rmtree(directory)


def _zeroed(offset: int, log: bytearray) -> bytearray:
    """As if it had not been written from there on."""
    return log[:offset] + bytes(len(log) - offset)


def test_a_crash_at_every_write_point_loses_nothing_acknowledged(moments: list[Moment], tmp_path: Path) -> None:
    """Hundreds of points: before each commit, in its midst, and behind it when nobody had heard of it."""
    dice, tried, faults = random.Random(5), 0, list[str]()
    for number, moment in enumerate(moments):
        middle = dice.randrange(moment.start + 1, moment.stop)
        for name, cut in (("before", moment.start), ("in the midst", middle), ("behind", moment.stop)):
            fault = _live_on(moment, tmp_path, partial(_zeroed, cut))
            tried += 1
            if fault is not None:
                faults.append(f"{name} of write {number} ({cut} of {moment.start}..{moment.stop}): {fault}")
    print(f"{tried} points, {len(faults)} faults")
    assert tried >= 3 * COMMITS
    assert not faults, "\n\n".join(faults[:5])


def _spoilt(how: str, start: int, offset: int, dice: random.Random) -> Damage:
    """The end of the log from an offset on: gone, zeros, or with one bit turned there."""
    if how == "torn":
        return lambda log: log[:offset]
    if how == "zeroed":
        return partial(_zeroed, offset)
    mask = 1 << dice.randrange(8)

    def flip(log: bytearray) -> bytearray:
        log[offset] ^= mask
        return log

    return flip


def test_a_spoilt_tail_costs_only_what_was_not_acknowledged(moments: list[Moment], tmp_path: Path) -> None:
    """The last batch was on its way to the disk when the power went: every start succeeds all the same."""
    dice, faults = random.Random(6), list[str]()
    for number, how in zip(range(DAMAGES), itertools.cycle(("torn", "zeroed", "flipped"))):
        moment = moments[dice.randrange(len(moments))]
        offset = dice.randrange(moment.start, moment.stop)
        fault = _live_on(moment, tmp_path, _spoilt(how, moment.start, offset, dice))
        if fault is not None:
            faults.append(f"{number}: {how} at {offset} of {moment.start}..{moment.stop}: {fault}")
    print(f"{DAMAGES} damages, {len(faults)} faults")
    assert not faults, "\n\n".join(faults[:5])


class CrashingBroker(BrokerProcess):
    """Dies by its own hand at a counted write of its life."""

    number, when = NEVER, "before"

    def command(self) -> list[str]:
        words = super().command()
        script = Path(__file__).parent / "systemkit" / "crashing.py"
        return [sys.executable, str(script), str(self.number), self.when, *words[words.index("serve") :]]

    async def live_and_die(self) -> None:
        """One life, from the start to that write, which may be one of the start itself."""
        self.reap()
        process = self.process = self._spawn(self.command())
        assert await until(lambda: process.poll() is not None, 20), "it lives on: no load?"
        self.reap()


async def _lives(broker: CrashingBroker) -> tuple[Account, Load]:
    """One life after another under load; the last one is spared."""
    dice = random.Random(8)
    load = Load(broker.ports["mqtt"], dice)
    await load.start()
    try:
        for life in range(LIVES):
            # The first writes of a life are those of its start.
            broker.number, broker.when = 1 + 2 * life + dice.randrange(3), ("before", "after")[life % 2]
            await broker.live_and_die()
        broker.number = NEVER
        await asyncio.to_thread(broker.start)
        await load.drain()
    finally:
        await load.stop()
    return load.ledger.check(), load


def test_processes_that_die_at_a_write_come_back_with_everything(tmp_path: Path) -> None:
    """The same with ``kill -9`` in earnest: of the whole process, at the very call that writes."""
    broker = CrashingBroker(tmp_path / "broker", Options())
    try:
        broker.start()
        account, load = asyncio.run(_lives(broker))
    except BaseException:
        broker.reap()
        raise
    broker.close()
    print(f"{LIVES} lives: {account}")
    faults = [fault for client in load.clients for fault in client.faults]
    assert not faults, f"{len(faults)} faults: {faults[:10]}"
    assert account.acked > LIVES * 10, "hardly any load"
    assert load.ledger.missing() == 0, load.ledger.details()
    account.assert_clean()
