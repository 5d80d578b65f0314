"""Retention: what is due is dropped, whom that costs what is counted, and it is tried again when it fails."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.errors import Refused, Unavailable
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import Node, run

HOURLY = LogSettings(generation_seconds=3600, retention_seconds=7200)
LOST = "sessions have lost 3 messages: the log's retention was over before they were read"


def absent(node: Node, name: str = "reader", filter: str = "t") -> None:
    """A durable session that is away."""
    reader = node.connect(name, expiry=100_000)
    reader.subscribe(filter, qos=1)
    reader.lose()


def publish(node: Node, *payloads: bytes, topic: str = "t") -> None:
    writer = node.connect("writer")
    writer.publish(topic, *payloads, qos=1)
    writer.disconnect()


def keep_up(node: Node) -> None:
    """One round of upkeep, to its end."""
    node.broker.readers.upkeep.begin()
    node.turn()


def old_and_new(node: Node) -> None:
    """Three messages whose time is over, and two that are new."""
    publish(node, b"1", b"2", b"3")
    node.advance(3600)
    keep_up(node)
    node.advance(7200)
    publish(node, b"4", b"5")


def test_what_is_over_is_dropped_and_counted_for_its_session() -> None:
    """With its reason, for session and node; what is new still comes."""
    node = Node(log_settings=HOURLY)
    absent(node)
    old_and_new(node)
    keep_up(node)
    assert node.dropped() == node.session("reader").dropped == {"retention": 3}
    assert [one.messages for one in node.log.generations()] == [2]
    assert node.waiting == 2
    assert node.connect("reader", clean=False, expiry=100_000).drain() == [b"4", b"5"]
    assert node.counters.messages_matched == node.counters.messages_delivered + sum(node.dropped().values())


def test_a_loss_is_an_alarm_for_an_hour_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It says how many messages it was."""
    node = Node(log_settings=HOURLY)
    absent(node)
    old_and_new(node)
    assert not node.view.alarms
    with caplog.at_level(logging.INFO):
        keep_up(node)
    assert node.view.alarms == (Alarm(AlarmKind.RETENTION, LOST),)
    (line,) = [record for record in caplog.records if "was dropped" in record.message]
    assert (line.levelname, vars(line)["generation"], vars(line)["lost"]) == ("WARNING", 1, 3)
    node.advance(3590)
    assert node.view.alarms == (Alarm(AlarmKind.RETENTION, LOST),)
    node.advance(20)
    assert not node.view.alarms


def test_a_generation_that_nobody_wanted_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Its retention is over, and that is all."""
    node = Node(log_settings=HOURLY)
    absent(node)
    publish(node, b"1", b"2", b"3")
    assert node.connect("reader", clean=False, expiry=100_000).drain() == [b"1", b"2", b"3"]
    node.advance(10_800)
    with caplog.at_level(logging.INFO):
        keep_up(node)
    (line,) = [record for record in caplog.records if "was dropped" in record.message]
    assert (line.levelname, vars(line)["lost"], node.view.alarms) == ("INFO", 0, ())


def test_what_a_session_has_taken_costs_it_nothing() -> None:
    """Only what waits is lost."""
    node = Node(log_settings=HOURLY)
    absent(node)
    absent(node, "other")
    publish(node, b"1", b"2", b"3")
    reader = node.connect("reader", clean=False, expiry=100_000)
    assert reader.drain() == [b"1", b"2", b"3"]
    node.advance(3600)
    keep_up(node)
    node.advance(7200)
    keep_up(node)
    assert not node.session("reader").dropped
    assert node.session("other").dropped == {"retention": 3}


def test_a_group_loses_as_one() -> None:
    """It has no session to count it for."""
    node = Node(log_settings=HOURLY)
    absent(node, filter="$share/g/t")
    absent(node, "other", filter="$share/g/t")
    old_and_new(node)
    keep_up(node)
    assert node.dropped() == {"retention": 3}
    assert node.waiting == 2


def test_nothing_is_due_before_its_time() -> None:
    """A generation closes when its period is over, and goes when its retention is."""
    node = Node(log_settings=HOURLY)
    absent(node)
    publish(node, b"1")
    for _ in range(2):
        node.advance(3590)
        keep_up(node)
        assert len(node.log.generations()) == 1
    node.advance(3700)
    keep_up(node)
    assert node.log.generations() == []
    assert node.records(CacheName.LOG) == 0


def test_a_failure_is_logged_tried_again_and_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    """The grid refuses the removal; the loss is not counted a second time."""
    node = Node(log_settings=HOURLY)
    absent(node)
    old_and_new(node)
    node.fail()
    with caplog.at_level(logging.ERROR):
        keep_up(node)
    assert "retention failed" in caplog.text
    node.recover()
    keep_up(node)
    assert node.dropped() == {"retention": 3}
    assert [one.messages for one in node.log.generations()] == [2]


def test_there_are_never_two_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The next round waits until the one before is over."""
    node = Node(log_settings=HOURLY)
    absent(node)
    publish(node, b"1", b"2", b"3")
    node.advance(10_800)
    # That the first generation is closed is in a batch that waits.
    node.hold()
    publish(node, b"4")
    keep_up(node)
    keep_up(node)
    with pytest.raises(Unavailable, match="being dropped"):
        run(node.view.log.drop(1))
    with caplog.at_level(logging.INFO):
        node.release()
    assert [record.message for record in caplog.records].count("a generation of the log was dropped") == 1
    keep_up(node)
    assert node.dropped() == {"retention": 3}


def test_dropping_by_order() -> None:
    """A closed generation; an open one is refused, and one that is not there is told."""
    node = Node(log_settings=HOURLY)
    absent(node)
    publish(node, b"1", b"2")
    with pytest.raises(Refused, match="still takes messages"):
        run(node.view.log.drop(1))
    node.advance(3600)
    keep_up(node)
    publish(node, b"3")
    found: list[bool] = []
    drive(node.view.log.drop(1), found.append, lambda error: pytest.fail(str(error)))
    node.turn()
    assert found == [True]
    assert run(node.view.log.drop(1)) is False
    assert node.session("reader").dropped == {"retention": 2}
    assert node.view.info().alarms == (
        "sessions have lost 2 messages: an operator dropped them from the log before they were read",
    )
    assert node.connect("reader", clean=False, expiry=100_000).drain() == [b"3"]


def test_losses_by_retention_and_by_order_are_told_as_both() -> None:
    """Nobody knows any more how many of them were for which."""
    node = Node(log_settings=HOURLY)
    absent(node)
    old_and_new(node)
    keep_up(node)
    node.advance(3600)
    keep_up(node)
    run(node.view.log.drop(2))
    node.turn()
    keep_up(node)
    (alarm,) = node.view.info().alarms
    assert alarm == (
        "sessions have lost 5 messages: the log's retention was over, or an operator dropped them from the log before"
        " they were read"
    )


def test_too_many_bytes_are_dropped_too() -> None:
    """The oldest first, and no more than need be."""
    node = Node(log_settings=LogSettings(generation_seconds=3600, retention_seconds=0, retention_bytes=20_000))
    absent(node)
    for _ in range(4):
        publish(node, b"x" * 8000)
        node.advance(3600)
        keep_up(node)
    keep_up(node)
    assert len(node.log.generations()) == 2
    assert node.dropped() == {"retention": 2}
