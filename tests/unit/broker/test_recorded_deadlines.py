"""What records say is over, after a start and at another node: a clock that is wrong for a while ends nothing."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest

from iot_mqtt.app.node.clock_file import FILE, ClockFile
from iot_mqtt.broker.retention_clock import HOLD, RetentionClock
from iot_mqtt.broker.sessions.recorded_deadlines import ENDS_A_SECOND, RecordedDeadlines
from iot_mqtt.codec import ConnectWill, Properties
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.alarms import AlarmKind
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import Node, run

HOUR = 3600
DAY = 86_400.0
#: Seconds of the wheel's ticks where days go by.
COARSE = 30.0
WEEK = int(7 * DAY)


class Unready(Node):
    """Its start gets as far as ``ready`` says."""

    ready = True

    def serve(self) -> None:
        if self.ready:
            super().serve()


def away(node: Node, *payloads: bytes, expiry: int = WEEK, delay: int | None = None) -> None:
    """A session whose client is away, and what was acknowledged for it."""
    will = (
        None if delay is None else ConnectWill(b"wills", b"gone", 1, properties=Properties(will_delay_interval=delay))
    )
    reader = node.connect("c", expiry=expiry, will=will)
    reader.subscribe("t", qos=1)
    reader.lose()
    if payloads:
        node.connect("writer").publish("t", *payloads, qos=1)


def watched(node: Node) -> None:
    watcher = node.connect("watcher", expiry=2 * WEEK)
    watcher.subscribe("wills", qos=1)
    watcher.lose()


def wills(node: Node) -> list[bytes]:
    watcher = node.connect("watcher", clean=False, expiry=2 * WEEK)
    came = watcher.drain()
    watcher.lose()
    return came


def pass_time(node: Node, seconds: float, step: float = 60.0) -> None:
    """With a look at the clock now and then."""
    for _ in range(int(seconds / step)):
        node.advance(step)
        node.broker.readers.upkeep.begin()
        node.broker.lifecycle.deadlines.look()
        node.turn()


def turn_clock(node: Node, seconds: float) -> None:
    node.clock._wall += seconds


def alarmed(node: Node) -> bool:
    return any("sessions or delays of wills" in one.text for one in node.view.alarms)


def there(node: Node) -> bool:
    return node.broker.sessions.get("c") is not None


@pytest.mark.parametrize("payloads", [(b"1", b"2"), ()], ids=["with-messages", "with-nothing-in-the-log"])
def test_a_start_with_the_clock_ahead_ends_no_session(payloads: tuple[bytes, ...]) -> None:
    """It is set right within the hour: the client finds its session, and everything that waits."""
    node = Node(tick=COARSE)
    away(node, *payloads)
    turn_clock(node, 10 * DAY)
    node.restart()
    pass_time(node, HOLD - 60)
    turn_clock(node, -10 * DAY)
    pass_time(node, 2 * HOLD)
    client = node.connect("c", clean=False, expiry=WEEK)
    assert client.connack is not None
    assert client.connack.session_present
    assert client.drain() == list(payloads)
    assert node.dropped() == {}


def test_starts_one_after_the_other_with_the_clock_ahead_end_no_session() -> None:
    """Whoever sees the alarm and starts the node anew loses nothing."""
    node = Node(tick=COARSE)
    away(node, b"1")
    turn_clock(node, 10 * DAY)
    for _ in range(3):
        node.restart()
        pass_time(node, HOLD / 2)
    turn_clock(node, -10 * DAY)
    node.restart()
    pass_time(node, 2 * HOLD)
    assert node.connect("c", clean=False, expiry=WEEK).drain() == [b"1"]


def test_a_node_that_was_off_for_long_ends_sessions_in_an_hour() -> None:
    """Its clock is right, and goes on saying so."""
    node = Node(tick=COARSE)
    away(node, b"1")
    node.clock.advance(10 * DAY)
    node.restart()
    pass_time(node, HOLD - 60)
    assert there(node)
    pass_time(node, 180)
    assert not there(node)
    assert sum(node.dropped().values()) == 1


@pytest.mark.parametrize("off", [60, 10 * DAY])
def test_no_doubt_makes_an_absence_longer_than_its_interval(off: float) -> None:
    """That much the monotonic clock says by itself."""
    node = Node()
    away(node, expiry=100)
    node.clock.advance(off)
    node.restart()
    node.advance(99)
    assert there(node)
    node.advance(2)
    assert not there(node)


def test_a_clock_that_steps_after_the_start_counts_in_an_hour() -> None:
    """For sessions that were away before; set back before that it never was."""
    node = Node(tick=COARSE)
    away(node, b"1")
    node.restart()
    pass_time(node, 2 * HOLD)
    turn_clock(node, 10 * DAY)
    pass_time(node, HOLD - 60)
    turn_clock(node, -10 * DAY)
    pass_time(node, 2 * HOLD)
    assert there(node)
    turn_clock(node, 10 * DAY)
    pass_time(node, HOLD - 60)
    assert there(node)
    pass_time(node, 180)
    assert not there(node)


def test_a_first_clock_far_behind_makes_no_session_stay() -> None:
    """A machine without a clock of its own: as soon as the time is known, and has held, it counts."""
    node = Node(tick=COARSE)
    away(node, b"1")
    node.clock.advance(6 * DAY)
    turn_clock(node, -300 * DAY)
    node.restart()
    pass_time(node, 60)
    turn_clock(node, 300 * DAY)
    pass_time(node, DAY + 2 * HOLD, step=600)
    assert not there(node)


def test_nothing_is_over_before_the_node_serves() -> None:
    """A start that fails, however long it takes, leaves everything to the next one."""
    node = Unready()
    watched(node)
    away(node, b"1", expiry=100, delay=50)
    node.ready = False
    node.restart()
    node.advance(1000)
    assert there(node)
    assert node.records(CacheName.WILLS) == 1
    node.ready = True
    node.restart()
    node.advance(49)
    assert wills(node) == []
    node.advance(2)
    assert wills(node) == [b"gone"]
    node.advance(50)
    assert not there(node)


def test_a_delayed_will_waits_for_the_same_time() -> None:
    """It goes out when its delay is over by a clock that has held, and in its whole delay at the latest."""
    node = Node(tick=COARSE)
    watched(node)
    away(node, delay=int(DAY))
    turn_clock(node, 10 * DAY)
    node.restart()
    pass_time(node, HOLD / 2)
    turn_clock(node, -10 * DAY)
    pass_time(node, 2 * HOLD)
    assert wills(node) == []
    turn_clock(node, 2 * DAY)
    pass_time(node, HOLD + 120)
    assert wills(node) == [b"gone"]


@pytest.mark.parametrize("told", [False, True], ids=["by-itself", "by-the-others"])
def test_a_node_with_a_wrong_clock_ends_nothing_that_it_takes_over(told: bool) -> None:
    """Neither a new one, nor one that the others disagree with, for however long."""
    node = Node(number=1)
    away(node, b"1")
    other = Node(grid=node.grid, number=2, follows=(1,), at_home=lambda _: False)
    turn_clock(other, 10 * DAY)
    if told:
        other.broker.time.ahead = lambda: 10 * DAY
        pass_time(other, 3 * HOLD)
    run(other.broker.lifecycle.loading.load_session("c", inherited=True))
    pass_time(other, 1800)
    assert other.connect("c", clean=False, expiry=WEEK).drain() == [b"1"]


def test_what_would_be_over_by_a_doubted_clock_is_an_alarm(caplog: pytest.LogCaptureFixture) -> None:
    """From the start on, and until the clock is set or has held; the log says both."""
    node = Node()
    away(node, b"1")
    turn_clock(node, 10 * DAY)
    with caplog.at_level(logging.WARNING, "iot_mqtt.broker.sessions.recorded_deadlines"):
        node.restart()
        [alarm] = node.view.alarms
        assert alarm.kind is AlarmKind.CLOCK
        assert alarm.text.startswith("the clock of this node says that 1 sessions or delays of wills")
        pass_time(node, 600)
        assert len(caplog.records) == 1
        turn_clock(node, -10 * DAY)
        pass_time(node, 60)
    assert node.view.alarms == ()
    assert len(caplog.records) == 2


def test_there_is_no_alarm_where_nothing_would_be_over() -> None:
    """A node that was off for a while, as nearly every one that starts."""
    node = Node()
    away(node, b"1")
    node.clock.advance(DAY)
    node.restart()
    pass_time(node, 60)
    assert node.view.alarms == ()


@pytest.mark.parametrize("life", [60, 3 * HOUR], ids=["in-the-first-hour-of-the-log", "later"])
@pytest.mark.parametrize("off", [20, 1800])
def test_a_restart_alone_is_no_alarm(life: int, off: float, caplog: pytest.LogCaptureFixture) -> None:
    """What was over meanwhile, and what is over soon, says nothing of the clock."""
    node = Node(tick=COARSE)
    away(node, b"1", expiry=3600)
    pass_time(node, life)
    away(node, b"1", expiry=10)
    node.clock.advance(off)
    node.restart()
    assert node.view.alarms == ()
    pass_time(node, 600, step=5)
    assert node.view.alarms == ()
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_a_step_after_a_restart_counts_only_what_is_over_by_the_step() -> None:
    """Not what was over while the node was off."""
    node = Node(tick=COARSE)
    away(node, b"1", expiry=600)
    node.clock.advance(700)
    node.restart()
    pass_time(node, 60)
    turn_clock(node, DAY)
    pass_time(node, 60)
    assert not alarmed(node)


def test_a_client_that_comes_and_goes_has_its_whole_interval() -> None:
    """The record that was read at the start says nothing of it any more."""
    node = Node(tick=COARSE)
    away(node)
    node.clock.advance(6 * DAY)
    node.restart()
    node.connect("c", clean=False, expiry=WEEK).lose()
    pass_time(node, 6 * DAY, step=600)
    assert there(node)


def test_many_that_are_over_at_once_end_in_their_turn() -> None:
    """Clients that are connected are served meanwhile."""
    clock = ManualClock()
    deadlines = RecordedDeadlines(RetentionClock(clock, clock.wall), clock, TimingWheel(clock))
    met: list[int] = []
    for number in range(3 * ENDS_A_SECOND):
        deadlines.add(clock.wall() - 1, DAY, partial(met.append, number))
    deadlines.look()
    clock.advance(1)
    assert ENDS_A_SECOND / 2 < len(met) < 2 * ENDS_A_SECOND
    clock.advance(3)
    assert met == list(range(3 * ENDS_A_SECOND))


# --- machines that were not started again ---


class OnMachine(Node):
    """It has a data directory, on a machine that is started when ``boot`` is another."""

    folder: Path
    boot = "1"

    def _starting(self) -> None:
        (self.folder / "boot_id").write_text(self.boot)
        self.file = ClockFile(self.folder, self.clock, self.folder / "boot_id")
        self.broker.time.earlier = self.broker.lifecycle.deadlines.earlier = self.file.earlier()

    def serve(self) -> None:
        self.file.look()
        super().serve()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnMachine:
    monkeypatch.setattr(OnMachine, "folder", tmp_path, raising=False)
    found = OnMachine()
    watched(found)
    found.advance(5)
    return found


@pytest.mark.parametrize("step", [0, 10 * DAY, -10 * DAY], ids=["right", "set-ahead", "set-back"])
def test_what_began_before_a_start_of_the_node_ends_in_its_time(node: OnMachine, step: float) -> None:
    """Whatever is done to the wall clock while it is off."""
    away(node, expiry=100, delay=50)
    node.advance(10)
    node.clock.advance(20)
    turn_clock(node, step)
    node.restart()
    node.advance(9)
    if not step:
        node.restart()
    node.advance(10)
    assert (wills(node), there(node)) == ([], True)
    if step >= 0:
        node.advance(2)
        assert wills(node) == [b"gone"]
        node.advance(48)
        assert there(node)
        node.advance(2)
        assert not there(node)


def test_what_was_over_while_the_node_was_off_waits_for_its_client_once_more(node: OnMachine) -> None:
    """It could not come."""
    away(node, expiry=100)
    node.clock.advance(200)
    node.restart()
    node.advance(99)
    assert there(node)
    node.advance(2)
    assert not there(node)


def test_what_began_before_a_start_of_the_machine_says_nothing_of_its_clock(node: OnMachine) -> None:
    """It is ahead from then on: also the next start of the node ends nothing by it."""
    away(node, expiry=HOUR)
    for boot in ("2", "2"):
        node.boot = boot
        turn_clock(node, 1800 if node.clock.wall() < 1_700_001_000 else 0)
        node.restart()
        pass_time(node, 600)
    pass_time(node, 2400)
    assert there(node)


def test_a_long_time_off_is_no_alarm_on_a_machine_that_was_not_started_again(node: OnMachine) -> None:
    """The monotonic clock says that the time has passed."""
    away(node, b"1", expiry=HOUR)
    node.clock.advance(10 * DAY)
    node.restart()
    pass_time(node, 600)
    assert node.view.alarms == ()


def test_a_clock_that_was_set_ahead_while_the_node_was_off_is_an_alarm(node: OnMachine) -> None:
    """And at the next start within the hour, until it is set right."""
    away(node, b"1", expiry=HOUR)
    turn_clock(node, DAY)
    node.restart()
    pass_time(node, 600)
    assert alarmed(node)
    node.restart()
    assert alarmed(node)
    turn_clock(node, -DAY)
    pass_time(node, 60)
    assert not alarmed(node)


def test_a_small_step_while_the_node_was_off_is_an_alarm_where_it_is_known(node: OnMachine) -> None:
    """The monotonic clock says that it was set."""
    away(node, b"1", expiry=HOUR)
    turn_clock(node, HOUR + 60)
    node.restart()
    assert alarmed(node)


def test_a_step_of_the_clock_begins_the_file_anew(node: OnMachine, tmp_path: Path) -> None:
    """What was recorded before it is by another clock."""
    away(node, expiry=100)
    turn_clock(node, -60)
    node.file.look()
    known = ClockFile(tmp_path, node.clock, tmp_path / "boot_id").earlier()
    assert known is not None
    assert known.since == node.clock.monotonic()
    node.restart()
    node.advance(99)
    assert there(node)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"boot": "1"}', '{"boot": "1", "offset": "x", "since": 1}'])
def test_a_file_that_says_nothing_is_none(node: OnMachine, tmp_path: Path, content: str) -> None:
    """A node starts whatever is in it."""
    (tmp_path / FILE).write_text(content)
    assert ClockFile(tmp_path, node.clock, tmp_path / "boot_id").earlier() is None


def test_what_cannot_be_written_is_known_no_more(node: OnMachine, tmp_path: Path) -> None:
    """The old one would be wrong."""
    (tmp_path / f".{FILE}.part").mkdir()
    turn_clock(node, 60)
    node.file.look()
    assert not (tmp_path / FILE).exists()
