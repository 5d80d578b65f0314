"""Commands that come as letters: settled when they are committed and never before, in order, and done once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iot_mqtt.broker.settings import BudgetSettings
from iot_mqtt.devices import DevicesSettings
from iot_mqtt.devices.accepting import FORGOTTEN, LATE
from iot_mqtt.devices.letters import LONGEST_PAUSE, MAX_AHEAD, MAX_LETTER, MAX_LETTERS, place_id
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.disk import DiskUse
from tests.unit.broker.harness import run
from tests.unit.devices.devicekit import command_of, confirm, states, statuses
from tests.unit.devices.letterkit import MAX_AGE, LetterNode


def test_a_letter_becomes_a_command_and_is_settled_when_that_is_committed() -> None:
    """While the disk is slow nothing is settled; then the device gets it and the position moves."""
    node = LetterNode()
    device = node.device()
    node.order(body={"open": 1}, id="c1")
    node.hold()
    node.bring()
    assert node.inbox.kept == {}
    node.release()
    assert node.inbox.kept == {0: 1}
    (message,) = device.messages()
    assert (message.payload, command_of(message)) == (b'{"open":1}', "c1")


def test_what_was_not_settled_comes_again_and_is_the_same_command() -> None:
    """A life that is killed between the commit and the position; with an id, and with one made of its place."""
    node = LetterNode()
    node.device()
    first, second = node.order(id="mine"), node.order()
    node.bring()
    node.inbox.kept.clear()
    node.restart()
    node.bring()
    assert node.inbox.kept == {0: 2}
    assert node.count() == 2
    assert node.letters.info().repeated == 2
    assert {node.state("mine"), node.state(place_id(second))} == {"sent"}
    assert place_id(first) != place_id(second)


def test_what_is_over_is_recognised_too() -> None:
    """Acked, brought again by another life, and not sent again."""
    node = LetterNode()
    device = node.device()
    node.order(id="c1")
    node.bring()
    confirm(device, device.messages())
    node.inbox.kept.clear()
    node.restart()
    device = node.device()
    node.bring()
    assert device.messages() == []
    assert (node.state("c1"), node.inbox.kept, node.inbox.buried) == ("acked", {0: 1}, [])


def test_positions_move_only_over_what_is_settled_without_a_gap() -> None:
    """The one in the middle cannot be buried: what is behind it is done, and the position stays in front of it."""
    node = LetterNode()
    device = node.device()
    node.order(id="c1")
    node.inbox.write(node.clock.wall(), b"not JSON")
    node.order(id="c3")
    node.inbox.refusing = OSError("no such topic")
    node.bring()
    assert [command_of(message) for message in device.messages()] == ["c1", "c3"]
    assert node.inbox.kept == {0: 1}
    assert "no such topic" in node.letters.alarms[0].text
    node.inbox.refusing = None
    node.pass_time(LONGEST_PAUSE)
    assert node.inbox.kept == {0: 3}
    assert [reason for _, reason in node.inbox.buried] == ["the body is not JSON"]
    assert node.letters.alarms == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[" * 100_000, "the body is nested more than 64 levels deep"),
        ({"target": "d1", "body": json.loads("[" * 64 + "]" * 64)}, "the body is nested more than 64 levels deep"),
        (b'{"target":"d1","body":{"a":"\\ud800"}}', "the body holds a surrogate"),
        (b"[]", "the body must be a JSON object"),
        (b'{"target":"d1","target":"d2"}', "the body holds the name 'target' twice"),
        (b'{"target":"d1","body":{"a":[{"b":1,"\\u0062":1}]}}', "the body holds the name 'b' twice"),
        (b'{"target":"d1","body":' + b"9" * 5000 + b"}", "the body holds a number with more than 4300 digits"),
        ({"target": "d1", "expires_in": 10**30}, "expires_in must be seconds, from 0 to less than 1e12"),
        ({}, "target is missing"),
        ({"target": 7}, "target must be text"),
        ({"target": "d1", "bodies": 1}, "unknown field bodies"),
        ({"target": "d1", "expires_in": "soon"}, "expires_in must be seconds"),
        ({"target": "d1", "id": "no spaces"}, "a command id has 1 to 64"),
        ({"target": "#"}, "is no target"),
        ({"target": "d1/" + "x" * 70_000}, "the target is too long: 70003 bytes, more than 60000"),
        ({"target": "d1" + "/x" * 200}, "the target is too long: 201 levels, more than 126"),
        ({"target": "ghost"}, "ghost has no session here"),
        ({"target": "d1", "user": "x"}, "x may not send commands to 'd1'"),
        ({"target": "d1", "response_topic": "a\0b"}, "response_topic: U+0000"),
        ({"target": "d1", "response_topic": "a/#"}, "response_topic: wildcard"),
        ({"target": "d1", "user": "d", "response_topic": "t"}, "d may not subscribe to 't'"),
        ({"target": "d1", "user": ""}, "user is empty"),
        (b"x" * (MAX_LETTER + 1), f"it has {MAX_LETTER + 1} bytes"),
    ],
    ids=lambda value: None,
)
def test_what_nobody_can_do_is_buried_with_its_reason(value: object, reason: str) -> None:
    """And does not keep the others from being done."""
    node = LetterNode()
    device = node.device()
    letter = node.inbox.write(node.clock.wall(), value)
    node.order(id="good")
    node.bring()
    ((buried, why),) = node.inbox.buried
    assert buried == letter
    assert reason in why
    assert node.inbox.kept == {0: 2}
    assert [command_of(message) for message in device.messages()] == ["good"]
    assert (node.letters.info().buried, node.letters.info().accepted) == (1, 1)


def test_all_letters_may_need_a_users_right() -> None:
    """Beside that of whom a letter names."""
    node = LetterNode(letters_of="d")
    device = node.device()
    node.device("e1")
    node.order(id="good")
    node.order(id="both", user="d1")
    node.order(id="one", user="e")
    node.order("e1", id="other")
    node.bring()
    assert [command_of(message) for message in device.messages()] == ["good", "both"]
    assert sorted(why for _, why in node.inbox.buried) == [
        "d may not send commands to 'e1'",
        "e may not send commands to 'd1'",
    ]


def test_what_nobody_can_do_is_buried_though_its_record_was_there_before() -> None:
    """Killed when the record was committed, and the dead letter was not safe yet."""
    node = LetterNode()
    letter = node.inbox.write(node.clock.wall(), {"target": "ghost"})
    node.bring()
    node.inbox.kept.clear()
    node.inbox.buried.clear()
    node.restart()
    node.bring()
    ((buried, why),) = node.inbox.buried
    assert (buried, node.inbox.kept, node.count()) == (letter, {0: 1}, 1)
    assert "ghost has no session here" in why
    assert (node.letters.info().repeated, node.letters.info().buried) == (0, 1)


#: Letters of each kind that there is, as they are written at some time.
KINDS: dict[str, Callable[[LetterNode], object]] = {
    "new": lambda node: node.order(),
    "the same": lambda node: node.order(id="c1"),
    "the same, of another target": lambda node: node.order("d1/other", id="c1"),
    "too late": lambda node: node.order(expires_in=1),
    "too late, the same": lambda node: node.order(id="c2", expires_in=1),
    "to nobody": lambda node: node.order("ghost"),
    "to nobody, the same": lambda node: node.order("ghost", id="c3"),
    "no command": lambda node: node.inbox.write(node.clock.wall(), b"not JSON"),
}


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(st.sampled_from(sorted(KINDS)), max_size=12), lives=st.integers(1, 2), stuck=st.booleans())
def test_every_letter_is_counted_once(kinds: Sequence[str], lives: int, *, stuck: bool) -> None:
    """As one thing of five: accepted, known before, too late, a dead letter, or under way still."""
    node = LetterNode()
    node.device()
    for kind in kinds:
        KINDS[kind](node)
    node.advance(10)
    for _ in range(lives):
        node.inbox.kept.clear()
        node.restart()
        node.inbox.refusing = OSError("no such topic") if stuck else None
        node.bring()
        info = node.letters.info()
        assert info.received == len(kinds)
        assert info.received == info.accepted + info.repeated + info.expired + info.buried + info.under_way
        node.inbox.refusing = None
        node.advance(LONGEST_PAUSE)
        node.turn()
        info = node.letters.info()
        assert info.received == info.accepted + info.repeated + info.expired + info.buried


def test_a_deadline_counts_from_when_the_letter_was_written() -> None:
    """Ten minutes in the topic with half of one to live: never sent, told expired, and no dead letter."""
    node = LetterNode()
    listener, device = node.listener(), node.device()
    node.order(id="late", expires_in=30)
    node.order(id="early", expires_in=1200)
    node.advance(600)
    node.bring()
    assert [command_of(message) for message in device.messages()] == ["early"]
    told = {status["id"]: status["state"] for status in statuses(listener)}
    assert told == {"late": "expired", "early": "sent"}
    assert (node.letters.info().expired, node.inbox.buried, node.inbox.kept) == (1, [], {0: 2})


def test_a_clock_that_is_ahead_makes_no_command_live_longer() -> None:
    """The span counts from now, not from the future."""
    node = LetterNode()
    node.device()
    now = node.clock.wall()
    node.inbox.write(now + 250, {"target": "d1", "id": "c1", "expires_in": 30})
    node.bring()
    assert node.record("c1").deadline == pytest.approx(now + 30)


@pytest.mark.parametrize("ahead", [0, 100, MAX_AHEAD - 1])
@pytest.mark.parametrize("lives", [1, 2])
def test_what_was_done_is_recognised_for_as_long_as_it_could_be_done(ahead: float, lives: int) -> None:
    """The position is lost, and a record whose clock was ahead is not too old yet. In another life of the node, too."""
    node = LetterNode(devices=DevicesSettings(keep_commands=MAX_AGE))
    device = node.device()
    node.inbox.write(node.clock.wall() + ahead, {"target": "d1", "id": "c1"})
    node.bring()
    confirm(device, device.messages())
    for _ in range(lives - 1):
        node.restart()
        device = node.device()
    for seconds in (MAX_AGE - 10, ahead, 20):
        node.pass_time(seconds)
        node.inbox.kept.clear()
        node.inbox.begin(node.letters)
        node.bring()
    assert device.messages() == []


def test_a_time_that_is_far_ahead_is_not_believed() -> None:
    """It would never be too old, and be done whenever it comes."""
    node = LetterNode()
    device = node.device()
    node.inbox.write(node.clock.wall() + 86_400, {"target": "d1", "id": "c1"})
    node.bring()
    assert device.messages() == []
    ((_, why),) = node.inbox.buried
    assert why == "its time is 86400 s ahead of this node's clock, more than 300"


def test_what_was_done_and_forgotten_is_not_said_to_be_undone() -> None:
    """It comes again when nobody knows any more, and what has just come late does not."""
    node = LetterNode(devices=DevicesSettings(keep_commands=MAX_AGE))
    listener, device = node.listener(), node.device()
    node.order(id="done")
    node.bring()
    confirm(device, device.messages())
    node.pass_time(MAX_AGE + 600)
    node.inbox.kept.clear()
    node.inbox.begin(node.letters)
    node.inbox.write(node.clock.wall() - MAX_AGE / 2, {"target": "d1", "id": "late", "expires_in": 1})
    statuses(listener)
    node.bring()
    details = {status["id"]: (status["state"], status["detail"]) for status in statuses(listener)}
    assert details == {"done": ("expired", f"{LATE}; {FORGOTTEN}"), "late": ("expired", LATE)}


@pytest.mark.parametrize("expires_in", [None, 100_000])
def test_what_is_too_old_is_not_done(expires_in: int | None) -> None:
    """Whatever deadline it has, or none: a broker that comes back after days does not run last week's commands."""
    node = LetterNode()
    device = node.device()
    node.order(id="old", expires_in=expires_in)
    node.advance(MAX_AGE + 1)
    node.bring()
    assert device.messages() == []
    assert (node.state("old"), node.inbox.kept) == ("expired", {0: 1})


def test_commands_to_one_target_keep_their_order_over_a_lack_of_room() -> None:
    """The disk is full for a while: nothing is lost, nothing overtakes, and an operator is told."""
    room = [0]
    node = LetterNode(budget=BudgetSettings(1000, 0), disk=lambda: DiskUse(room[0], 10**9))
    device = node.device()
    room[0] = 2000
    node.broker.publishing.budget.measure()
    for number in range(5):
        node.order(body=number)
    node.bring()
    assert node.inbox.kept == {}
    assert node.letters.info().postponed == 1
    node.pass_time(LONGEST_PAUSE)
    assert "the disk is full" in node.letters.alarms[0].text
    room[0] = 0
    node.broker.publishing.budget.measure()
    node.pass_time(LONGEST_PAUSE)
    assert [message.payload for message in device.messages()] == [b"0", b"1", b"2", b"3", b"4"]
    assert (node.inbox.kept, node.inbox.buried, node.letters.alarms) == ({0: 5}, [], ())


def test_too_many_commands_wait_in_the_topic() -> None:
    """``devices.max_commands`` is a lack of room, not a refusal."""
    node = LetterNode(devices=DevicesSettings(max_commands=2))
    device = node.device()
    for number in range(4):
        node.order(id=f"c{number}")
    node.bring()
    assert node.inbox.kept == {0: 2}
    confirm(device, device.messages())
    node.pass_time(LONGEST_PAUSE)
    assert node.inbox.kept == {0: 4}


def test_no_more_than_a_thousand_are_under_way() -> None:
    """The inbox is held, and goes on when half of them are settled."""
    node = LetterNode()
    node.device()
    node.hold()
    for number in range(MAX_LETTERS):
        node.order(f"d1/{number}")
    node.bring()
    assert node.inbox.held
    assert node.letters.info().under_way == MAX_LETTERS
    node.release()
    assert not node.inbox.held
    assert node.letters.info().under_way == 0
    assert node.inbox.kept == {0: MAX_LETTERS}


def test_a_partition_goes_when_nothing_of_it_is_under_way() -> None:
    """What is submitted is finished and kept; what is behind it is left to the next node."""
    node = LetterNode()
    device = node.device()
    done: list[bool] = []
    node.hold()
    for name in ("c1", "c2"):
        node.order(id=name)
    node.order("d2", id="other", partition=1)
    node.bring()
    node.inbox.take_away(0, done=lambda: done.append(True))
    assert not done
    node.release()
    assert done == [True]
    assert node.inbox.kept == {0: 1, 1: 1}
    assert [command_of(message) for message in device.messages()] == ["c1"]
    assert node.letters.info().under_way == 0
    node.bring()
    assert [command_of(message) for message in device.messages()] == ["c2"]
    assert node.inbox.kept == {0: 2, 1: 1}


def test_a_stop_finishes_what_is_under_way() -> None:
    """And closes the inbox after that."""
    node = LetterNode()
    node.device()
    node.order(id="c1")
    node.bring()
    run(node.letters.stop())
    assert node.inbox.closed
    assert node.inbox.kept == {0: 1}
    node.order(id="c2")
    node.bring()
    assert node.inbox.kept == {0: 1}


def test_the_reason_that_a_device_refuses_is_no_dead_letter() -> None:
    """It was done as far as the platform is concerned: its state says the rest."""
    node = LetterNode()
    listener, device = node.listener(), node.device()
    node.order(id="c1", wants_reply=True)
    node.bring()
    confirm(device, device.messages())
    device.publish("reply/c1", json.dumps({"ok": False, "detail": "stuck"}).encode(), qos=1)
    node.inbox.kept.clear()
    node.restart()
    node.bring()
    assert states(listener)[-1] == "failed"
    assert (node.inbox.buried, node.inbox.kept) == ([], {0: 1})


def test_trouble_of_the_inbox_is_an_alarm() -> None:
    """In the words of the inbox, whatever they are about, and in the figures."""
    node = LetterNode()
    assert node.letters.info().state == "ok"
    node.inbox.trouble = "Kafka's certificate has expired"
    info = asdict(node.letters.info())
    assert (info["state"], info["trouble"]) == ("alarm", "Kafka's certificate has expired")
    text = "commands do not come from Kafka: Kafka's certificate has expired"
    assert node.letters.alarms == (Alarm(AlarmKind.COMMANDS, text),)
