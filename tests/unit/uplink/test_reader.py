"""The reader between log and sink: only what is committed, in order, again when the sink fails, and honest figures."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.uplink import Rejected
from tests.unit.broker.harness import run
from tests.unit.uplink.sinkkit import UplinkedNode

HOURLY = LogSettings(generation_seconds=3600, retention_seconds=7200)


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_a_rule_matches_goes_up(qos: int) -> None:
    """Whatever its QoS, in order; other topics do not."""
    it = UplinkedNode()
    it.publish(*numbers(0, 5), qos=qos)
    it.publish(b"x", topic="other")
    it.publish(*numbers(5, 8), qos=qos)
    assert it.sink.payloads == numbers(0, 8)
    assert it.uplink.info().lag_messages == 0


def test_a_reader_that_keeps_up_does_not_read_the_log() -> None:
    """What was recorded is at hand when it is committed; only what was there before has to be read."""
    it = UplinkedNode()
    it.publish(*numbers(0, 5))
    it.publish(b"x", topic="other")
    it.publish(*numbers(5, 8))
    assert it.node.log.figures.pages_read == 0
    assert it.sink.payloads == numbers(0, 8)


@pytest.mark.interpreted
@pytest.mark.parametrize("limit", [0, 800, 2500])
def test_a_reader_that_is_behind_reads_the_log(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From where it is to where memory begins, and from there on out of memory; nothing twice, nothing left out."""
    monkeypatch.setattr("iot_mqtt.broker.uplink.fresh.Fresh.__init__.__defaults__", (limit,))
    it = UplinkedNode()
    it.sink.break_it()
    for number in range(0, 30, 3):
        it.publish(*numbers(number, number + 3), topic=f"up/{number % 2}")
        it.publish(b"x", topic="other")
    it.sink.trouble = None
    it.node.advance(1)
    it.publish(*numbers(30, 33))
    assert it.sink.payloads == numbers(0, 33)
    positions = [record.position for record in it.sink.kept]
    assert positions == sorted(set(positions))
    assert it.uplink.info().lag_messages == 0


def test_it_leaves_turns_to_others() -> None:
    """What is at hand is handed over in pieces, and time is looked at after each."""
    it = UplinkedNode()
    it.sink.at_once, it.sink.most = False, 1
    for number in range(8):
        it.publish(*numbers(number * 400, number * 400 + 400))
    it.sink.most = 1000
    clock = it.node.clock
    it.sink.settle()
    it.sink.ready()
    assert len(it.sink.sent) == 0, "not at once"
    took = clock.monotonic

    def slow() -> float:
        clock.advance(0.003)
        return took()

    clock.monotonic = slow  # type: ignore[method-assign]
    calls, it.node._soon[:] = it.node._soon[:], []
    for call in calls:
        call()
    assert len(it.sink.sent) == 2
    assert it.node._soon
    clock.monotonic = took  # type: ignore[method-assign]
    it.node.turn()
    it.sink.settle()
    assert it.sink.payloads == numbers(0, 3200)


def test_nothing_goes_up_before_it_is_committed() -> None:
    """After a crash its position would be another message's."""
    it = UplinkedNode()
    it.node.hold()
    it.publish(*numbers(0, 5))
    assert it.sink.payloads == []
    it.node.release()
    assert it.sink.payloads == numbers(0, 5)


def test_an_acknowledgement_waits_for_the_log_and_not_for_the_sink() -> None:
    """The sink is broken all the while; and somebody has it, so it is a success."""
    it = UplinkedNode()
    it.sink.break_it()
    writer = it.node.connect("writer")
    it.node.hold()
    writer.publish("up/x", b"1", qos=1)
    assert writer.acks(PacketType.PUBACK) == []
    it.node.release()
    (answer,) = writer.acks(PacketType.PUBACK)
    assert answer.reason is ReasonCode.SUCCESS  # type: ignore[union-attr]


def test_only_is_not_for_subscribers() -> None:
    """Neither now nor retained; ``also`` is."""
    it = UplinkedNode({"filter": "only/#", "mode": "only"}, {"filter": "also/#"})
    reader = it.node.connect("reader")
    reader.subscribe("#", qos=1)
    writer = it.node.connect("writer")
    writer.publish("only/x", b"1", qos=1, retain=True)
    writer.publish("also/x", b"2", qos=1)
    assert reader.payloads() == [b"2"]
    assert it.node.broker.publishing.retention.index.count == 0
    assert it.sink.payloads == [b"1", b"2"]
    assert it.node.counters.messages_unmatched == 0


@pytest.mark.parametrize("filter", ["#", "only/x", "$share/g/#", "$replay/1h/#"])
def test_only_is_not_for_those_who_come_later(filter: str) -> None:
    """It stands in the log among what they read there, and is not counted as theirs."""
    it = UplinkedNode({"filter": "only/#", "mode": "only"}, {"filter": "also/#"})

    def come(*wanted: bytes) -> None:
        reader = it.node.connect("reader", clean=False, expiry=1000)
        assert reader.drain() == list(wanted)
        assert it.node.counters.unconfirmed == 0
        reader.disconnect()

    it.node.connect("reader", clean=False, expiry=1000).subscribe(filter, qos=1)
    come()
    it.publish(b"1", topic="only/x")
    it.publish(b"2", topic="also/x")
    it.publish(b"3", topic="only/x")
    come(*([] if filter == "only/x" else [b"2"]))
    it.publish(b"4", topic="only/x")
    it.node.advance(2)
    it.restart()
    it.node.broker.readers.census.begin()
    it.node.advance(2)
    come()
    assert it.sink.payloads == [b"1", b"2", b"3", b"4"]


def test_a_message_that_a_session_wants_too_is_recorded_once() -> None:
    """The log is one for all."""
    it = UplinkedNode()
    reader = it.node.connect("reader", expiry=1000)
    reader.subscribe("up/#", qos=1)
    it.publish(*numbers(0, 3))
    assert sum(one.messages for one in it.node.log.generations()) == 3
    assert reader.payloads() == it.sink.payloads == numbers(0, 3)


@pytest.mark.parametrize("written", [False, True])
def test_after_a_kill_it_goes_on_at_its_place(*, written: bool) -> None:
    """What was safe and is known to be so is not sent again; what was not is, with the same id."""
    it = UplinkedNode()
    it.publish(*numbers(0, 3))
    it.node.advance(2)
    it.sink.at_once = False
    it.publish(*numbers(3, 6))
    assert it.sink.payloads == numbers(0, 3)
    first = [record.position for record in it.sink.sent[0][0]]
    it.restart(written=written)
    assert it.sink.payloads == numbers(0, 6)
    assert [record.position for record in it.sink.kept[3:6]] == first
    assert it.uplink.info().lag_messages == 0


def test_a_sink_that_knows_better_decides() -> None:
    """The place is written a little later than files are."""
    it = UplinkedNode()
    it.publish(*numbers(0, 3))
    it.sink.knows = True
    it.node.restart()
    it.begin()
    assert it.sink.payloads == numbers(0, 3)
    assert it.uplink.info().lag_messages == 0


def test_a_log_that_is_gone_begins_a_new_spool() -> None:
    """Positions begin anew: nothing may be taken for something that was sent."""
    it = UplinkedNode()
    it.publish(*numbers(0, 3))
    it.node.advance(2)
    before = it.uplink.info().spool
    for cache in CacheName:
        if cache.value.startswith("log"):
            run(it.node.grid.remove_prefix(cache, b""))
    it.restart()
    assert it.uplink.info().spool != before
    it.publish(*numbers(3, 6))
    assert it.sink.payloads == numbers(0, 6)


def test_the_first_start_begins_at_the_end_of_the_log() -> None:
    """What was recorded before anybody asked for an uplink does not go up, also if it is killed at once."""
    it = UplinkedNode(log_use=LogUse(record=("#",)))
    it.publish(*numbers(0, 3))
    # As if there had been none so far.
    run(it.node.grid.remove_prefix(CacheName.META, b"uplink/"))
    it.sink.kept.clear()
    it.restart()
    assert it.sink.payloads == []
    it.publish(*numbers(3, 6))
    it.restart()
    assert it.sink.payloads[:3] == numbers(3, 6)


def test_a_sink_that_fails_gets_it_all_again() -> None:
    """From the place on, in order, when it can be opened; meanwhile the alarm says so."""
    it = UplinkedNode()
    it.sink.at_once = False
    it.publish(*numbers(0, 3))
    it.publish(*numbers(3, 6))
    it.sink.settle(1)
    it.sink.break_it("disk on fire")
    it.publish(*numbers(6, 9))
    info = it.uplink.info()
    assert (info.state, info.trouble, info.failures, info.lag_messages) == ("alarm", "disk on fire", 1, 6)
    assert any("disk on fire" in alarm.text for alarm in it.node.view.alarms)
    it.node.advance(30)
    it.sink.trouble = None
    it.sink.at_once = True
    it.node.advance(1)
    assert it.sink.payloads == numbers(0, 9)
    assert it.uplink.info().state == "ok"
    assert it.node.view.alarms == ()


def test_a_sink_that_has_enough_is_left_alone() -> None:
    """Until it says that it is ready."""
    it = UplinkedNode()
    it.sink.at_once, it.sink.most = False, 2
    for number in range(5):
        it.publish(b"%d" % number)
    assert len(it.sink.sent) == 2
    it.sink.settle()
    it.sink.ready()
    it.node.turn()
    assert len(it.sink.sent) == 1
    it.sink.settle()
    assert it.sink.payloads == numbers(0, 5)


def test_the_lag_is_known_after_a_kill() -> None:
    """It is kept with the log, so nothing has to be counted."""
    it = UplinkedNode()
    it.sink.break_it()
    it.publish(*numbers(0, 7))
    it.sink = type(it.sink)(it.sink.kept)
    it.node.restart()
    it.begin(feed=False)
    assert it.uplink.info().lag_messages == 7


def test_a_backlog_that_grows_is_an_alarm() -> None:
    """Within five seconds, and over when it shrinks."""
    it = UplinkedNode()
    it.sink.at_once, it.sink.most = False, 1
    for _ in range(6):
        it.publish(*numbers(0, 100))
        it.node.advance(1)
    assert any(alarm.kind is AlarmKind.UPLINK_BEHIND for alarm in it.node.view.alarms)
    it.sink.at_once, it.sink.most = True, 1000
    it.sink.settle()
    it.sink.ready()
    it.node.turn()
    it.node.advance(5)
    assert it.node.view.alarms == ()


@pytest.mark.parametrize("gathers", [False, True])
def test_what_a_sink_has_and_does_not_make_safe_is_a_backlog_as_well(*, gathers: bool) -> None:
    """Unless it makes records safe together, as files are finished; then it is its way."""
    it = UplinkedNode()
    it.sink.at_once, it.sink.gathers = False, gathers
    for _ in range(6):
        it.publish(*numbers(0, 100))
        it.node.advance(1)
    assert it.uplink.info().in_flight_messages == 600
    assert [alarm for alarm in it.node.view.alarms if "600 messages wait in the log" in alarm.text] == (
        [] if gathers else [*it.node.view.alarms]
    )
    assert bool(it.node.view.alarms) is not gathers


def test_retention_counts_what_the_uplink_has_not_taken() -> None:
    """And says so; what is kept still goes up."""
    it = UplinkedNode(log_settings=HOURLY)
    it.publish(b"taken")
    it.sink.break_it()
    it.publish(*numbers(0, 3))
    it.publish(b"nothing to it", topic="other")
    it.node.advance(3600)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    it.node.advance(7200)
    it.publish(*numbers(3, 5))
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    info = it.uplink.info()
    assert (info.lost, info.lag_messages) == (3, 2)
    assert any("lost 3 messages" in alarm.text for alarm in it.node.view.alarms)
    it.sink.trouble = None
    it.node.advance(1)
    assert it.sink.payloads[1:] == numbers(3, 5)
    assert it.uplink.info().lag_messages == 0


def test_what_an_operator_drops_is_told_as_such() -> None:
    """Retention had nothing to do with it."""
    it = UplinkedNode(log_settings=HOURLY)
    it.publish(b"taken")
    it.sink.break_it()
    it.publish(*numbers(0, 3))
    it.node.advance(3600)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    run(it.node.view.log.drop(1))
    by_order = "an operator dropped them from the log"
    text = f"the uplink has lost 3 messages: {by_order} before they were taken"
    assert Alarm(AlarmKind.UPLINK_LOST, text) in it.node.view.alarms


def dropped(it: UplinkedNode, *payloads: bytes) -> None:
    """The sink is away, these are published, memory has room for the last few, and retention takes them all."""
    it.sink.break_it()
    for payload in payloads:
        it.publish(payload)
        it.publish(b"for weeks", topic="other")
    it.node.advance(3600)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    it.node.advance(7200)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()


@pytest.mark.interpreted
@pytest.mark.parametrize(("limit", "lost"), [(0, 6), (2200, 3), (10**6, 1)])
def test_what_memory_still_has_is_not_lost(limit: int, lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Safe, lost and waiting are what was published, before and after the sink is back. What the sink was given when
    it failed is in memory no more.
    """
    monkeypatch.setattr("iot_mqtt.broker.uplink.fresh.Fresh.__init__.__defaults__", (limit,))
    it = UplinkedNode(log_settings=HOURLY)
    dropped(it, *numbers(0, 6))
    info = it.uplink.info()
    assert (info.lost, info.lag_messages) == (lost, 6 - lost)
    assert any(alarm.kind is AlarmKind.UPLINK_LOST for alarm in it.node.view.alarms) == bool(lost)
    it.sink.trouble = None
    it.node.advance(1)
    assert it.sink.payloads == numbers(lost, 6)
    info = it.uplink.info()
    assert (info.safe, info.lost, info.lag_messages) == (6 - lost, lost, 0)


@pytest.mark.interpreted
def test_what_memory_had_alone_and_has_no_room_for_any_more_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted when it goes."""
    monkeypatch.setattr("iot_mqtt.broker.uplink.fresh.Fresh.__init__.__defaults__", (2200,))
    it = UplinkedNode(log_settings=HOURLY)
    dropped(it, *numbers(0, 6))
    it.publish(*numbers(6, 7))
    info = it.uplink.info()
    assert (info.lost, info.lag_messages) == (4, 3)
    it.sink.trouble = None
    it.node.advance(1)
    assert it.sink.payloads == numbers(4, 7)
    assert it.uplink.info().lag_messages == 0


def test_what_the_sink_alone_has_is_lost_when_the_sink_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention has dropped it while it was under way."""
    it = UplinkedNode(log_settings=HOURLY)
    it.sink.at_once = False
    it.publish(*numbers(0, 3))
    it.sink.settle(1)
    it.publish(*numbers(3, 5))
    it.node.advance(3600)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    it.node.advance(7200)
    it.node.broker.readers.upkeep.begin()
    it.node.turn()
    assert it.uplink.info().lost == 0
    it.publish(*numbers(5, 6))
    it.sink.break_it()
    info = it.uplink.info()
    assert (info.safe, info.lost, info.lag_messages) == (3, 2, 1)
    it.sink.trouble, it.sink.at_once = None, True
    it.node.advance(1)
    assert it.sink.payloads == [*numbers(0, 3), *numbers(5, 6)]
    assert it.uplink.info().lag_messages == 0


def test_the_age_of_the_oldest_is_known_after_a_kill() -> None:
    """The log has the time of each message."""
    it = UplinkedNode()
    it.sink.break_it()
    it.publish(*numbers(0, 3))
    it.node.advance(600)
    it.publish(*numbers(3, 4))
    it.sink = type(it.sink)(it.sink.kept)
    it.sink.trouble = "broken"
    it.node.restart()
    it.begin()
    it.node.advance(10)
    assert it.uplink.info().lag_seconds == pytest.approx(610, abs=5)


def test_stopping_keeps_the_place_of_what_got_safe() -> None:
    """The next life sends nothing again."""
    it = UplinkedNode()
    it.sink.at_once = False
    it.publish(*numbers(0, 3))
    run(it.uplink.stop())
    it.node.turn()
    it.publish(*numbers(3, 4))
    it.restart()
    assert it.sink.payloads == numbers(0, 4)


def test_a_full_disk_refuses_what_goes_up() -> None:
    """QoS 0 is counted, QoS 1 of version 5 is told."""
    it = UplinkedNode()
    it.node.broker.publishing.budget.full = True
    writer = it.node.connect("writer")
    writer.publish("up/x", b"1", b"2", qos=0)
    (answer,) = writer.publish("up/x", b"3", qos=1)
    assert answer.reason is ReasonCode.QUOTA_EXCEEDED  # type: ignore[union-attr]
    assert it.node.counters.messages_refused == {"disk_full": 3}
    assert it.sink.payloads == []


def test_what_the_platform_rejects_is_told() -> None:
    """Dead letters are a figure; a record that is nowhere is an alarm."""
    it = UplinkedNode()
    it.sink.dead = 2
    it.sink.rejected = [
        Rejected("s-2", "t", "too large", 9, 1.0, "iot.dead"),
        Rejected("s-1", "t", "old", 9, 1.0, None),
    ]
    assert (it.uplink.info().dead, it.uplink.info().alarms) == (2, ())
    assert it.uplink.info().rejected == tuple(it.sink.rejected)
    it.sink.dropped = 1
    assert any("rejected 1 records" in alarm for alarm in it.uplink.info().alarms)
