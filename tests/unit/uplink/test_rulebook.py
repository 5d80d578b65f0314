"""Rules that change while messages wait: what was recorded goes by those that were in force, whatever happens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec.runs import run_of
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.ports.store import CommitOrder
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rulebook import MAX_STRETCHES, RuleBook, difference
from iot_mqtt.uplink.rules import Rule, Rules, rule_of
from iot_mqtt.values import CodecId, Origin
from tests.unit.broker.harness import run
from tests.unit.uplink.sinkkit import UplinkedNode, make_uplink

UP: dict[str, object] = {"filter": "up/#"}
DOWN: dict[str, object] = {"filter": "other/#", "to": "iot.other"}
BOTH: dict[str, object] = {"filter": "#", "to": "iot.all"}


class BookedNode(UplinkedNode):
    """Its rules can change, by ``change`` or by ``restart`` with others."""

    def __init__(self, *entries: dict[str, object], **options: Any) -> None:
        self.entries = entries or (UP,)
        super().__init__(*self.entries, **options)

    def begin(self, *, feed: bool = True) -> None:
        broker = self.node.broker
        self.book = RuleBook(self.node.grid, self.node.number, "n1")
        self.uplink = make_uplink(broker, self.book, self.sink, GridPlaces(self.node.grid, self.node.number))
        run(self.book.load([rule_of(entry) for entry in self.entries], broker.log.end))
        broker.store.enlist(CommitOrder.RULES, self.book)
        self.book.changed = broker.routing.steps.changed
        run(self.uplink.attach())
        broker.feed(self.uplink)
        self.book.safe = lambda: self.uplink.safe_position
        self.node.turn()
        if feed:
            self.uplink.begin()
            self.node.turn()

    def change(self, *entries: dict[str, object]) -> None:
        """As a reload does."""
        self.book.change([rule_of(entry) for entry in entries], self.node.broker.log.end)
        self.node.broker.turn.reserve()
        self.entries = entries

    def away(self) -> None:
        self.sink.break_it("away")

    def back(self) -> None:
        self.sink.trouble = None
        self.node.advance(1)

    @property
    def arrived(self) -> list[tuple[str, object]]:
        return [(record.topic, json.loads(record.value)["payload"]) for record in self.sink.kept]


def messages(it: BookedNode, *payloads: str) -> None:
    for payload in payloads:
        it.publish(json.dumps(payload).encode(), topic=f"{payload.partition('-')[0]}/x")


@pytest.mark.parametrize("killed", [False, True])
def test_what_waits_goes_by_the_rules_it_was_recorded_under(killed: bool) -> None:
    """Nothing is lost that only the old rules match, and nothing goes up that only the new ones would have."""
    it = BookedNode(UP, log_use=LogUse(record=("#",)))
    it.away()
    messages(it, "up-1", "other-1")
    it.change(DOWN)
    messages(it, "up-2", "other-2")
    it.change(BOTH)
    messages(it, "up-3")
    assert it.book.earlier == 2
    if killed:
        it.restart()
    else:
        it.back()
    assert it.arrived == [("iot.readings", "up-1"), ("iot.other", "other-2"), ("iot.all", "up-3")]
    assert it.uplink.info().lag_messages == 0
    messages(it, "other-4")
    assert it.arrived[3:] == [("iot.all", "other-4")]
    assert it.book.earlier == 0
    assert it.book.filters == ["#"]


def test_another_configuration_at_the_start_is_a_change_as_well() -> None:
    """What the life before has recorded goes by the rules of that life."""
    it = BookedNode(UP)
    it.away()
    messages(it, "up-1")
    it.entries = (DOWN,)
    it.restart()
    messages(it, "up-2", "other-2")
    assert it.arrived == [("iot.readings", "up-1"), ("iot.other", "other-2")]


def test_a_change_that_was_not_committed_is_made_again() -> None:
    """Killed before its batch: the rules of the file are in force at the next start, from there on."""
    it = BookedNode(UP)
    it.away()
    messages(it, "up-1")
    it.node.hold()
    it.change(DOWN)
    it.restart(written=False)
    messages(it, "other-2")
    assert it.arrived == [("iot.readings", "up-1"), ("iot.other", "other-2")]


def test_rules_are_kept_until_the_sink_is_safe() -> None:
    """What it was sent and has not made safe is read again after a failure, by the same rules."""
    it = BookedNode(UP)
    it.sink.at_once = False
    messages(it, "up-1")
    it.change(DOWN)
    messages(it, "other-1")
    assert it.book.earlier == 1
    it.away()
    it.sink.at_once = True
    it.back()
    assert it.arrived == [("iot.readings", "up-1"), ("iot.other", "other-1")]
    assert it.book.earlier == 0


def test_the_same_rules_again_change_nothing() -> None:
    """And those that stay go on counting."""
    it = BookedNode(UP, DOWN)
    messages(it, "up-1", "other-1", "other-2")
    assert not it.book.change([rule_of(UP), rule_of(DOWN)], it.node.broker.log.end)
    it.change(DOWN)
    messages(it, "other-3")
    (rule,) = it.book.rules.rules
    assert (rule.to, rule.figures.matched, rule.figures.sent) == ("iot.other", 3, 3)


def test_changes_without_messages_between_leave_no_trace() -> None:
    """However many."""
    it = BookedNode(UP)
    it.away()
    messages(it, "up-1")
    for _ in range(MAX_STRETCHES * 2):
        it.change(DOWN)
        it.change(BOTH)
    assert it.book.earlier == 1


def test_changes_while_nothing_is_taken_are_bounded() -> None:
    """The one that is too many is refused, and changes nothing."""
    it = BookedNode(UP)
    it.away()
    for number in range(MAX_STRETCHES - 1):
        messages(it, "up-x")
        it.change({"filter": "up/#", "to": f"t{number}"})
    messages(it, "up-x")
    before = it.book.rules
    with pytest.raises(ValueError, match="let the sink take them first"):
        it.change(DOWN)
    assert it.book.rules is before
    it.back()
    it.change(DOWN)
    assert it.book.rules.rules[0].to == "iot.other"


def test_rules_are_forgotten_when_all_that_was_recorded_under_them_is_safe() -> None:
    """Not one message earlier, and not one later: ``safe`` is the first position that the sink may not have."""
    it = BookedNode(UP)
    it.away()
    messages(it, "up-1")
    since = it.node.broker.log.end
    it.change(DOWN)
    it.book.safe = lambda: since - 1
    assert (it.book.earlier, it.book.filters) == (1, ["up/#", "other/#"])
    it.book.safe = lambda: since
    assert (it.book.earlier, it.book.filters) == (0, ["other/#"])


@pytest.mark.parametrize(
    "record", [b"{", b"[]", b'{"v": 0}', b'{"v": 1, "stretches": [{"since": 0, "rules": [{"x": 1}]}]}']
)
def test_a_history_that_is_unreadable_gives_way_to_the_present(record: bytes) -> None:
    """As before there was one: what waits goes by the rules in force."""
    it = BookedNode(UP)
    it.away()
    messages(it, "up-1")

    spoilt = WriteBatch()
    spoilt.put(CacheName.META, b"uplink/%d/rules" % it.node.number, record)
    run(it.node.grid.commit(spoilt))
    it.entries = (BOTH,)
    it.restart()
    assert it.arrived == [("iot.all", "up-1")]


def test_a_log_that_has_lost_its_end_keeps_no_rules_for_it() -> None:
    """What is recorded there next goes by the rules in force."""
    it = BookedNode(UP)
    messages(it, "up-1")
    it.book.change([rule_of(DOWN)], it.node.broker.log.end + (1 << 60))
    it.node.broker.turn.reserve()
    it.node.turn()
    it.entries = (DOWN,)
    it.restart()
    messages(it, "other-1")
    assert it.arrived[-1] == ("iot.other", "other-1")


# Rules that look into messages.


def test_conditions_are_asked_message_by_message() -> None:
    """Of one run some go up, in order and with their own ids; what waits is still counted exactly."""
    it = BookedNode(
        {"filter": "up/#", "when": "payload >= 3", "to": "big", "key": "{topic[1]}"},
        {"filter": "up/#", "when": "payload == 1"},
    )
    it.sink.at_once = False
    it.publish(*(b"%d" % number for number in range(6)))
    it.sink.settle()
    assert it.arrived == [("iot.readings", 1), ("big", 3), ("big", 4), ("big", 5)]
    assert [record.key for record in it.sink.kept] == ["writer", "x", "x", "x"]
    assert [json.loads(one.value)["id"].rpartition("-")[2] for one in it.sink.kept] == [
        str(one.position) for one in it.sink.kept
    ]
    info = it.uplink.info()
    assert (info.recorded, info.lag_messages, info.sent, info.safe) == (6, 0, 4, 4)


def test_messages_that_pass_do_not_wait() -> None:
    """Neither alone nor behind what the sink has: no lag is left, at any load."""
    it = BookedNode({"filter": "up/#", "when": "payload > 0"})
    it.publish(b"0", b"0")
    assert it.uplink.info().lag_messages == 0
    it.sink.at_once = False
    it.publish(b"1")
    it.publish(b"0", b"0", b"0")
    assert it.uplink.info().lag_messages == 4
    it.sink.settle()
    assert it.uplink.info().lag_messages == 0
    it.node.advance(2)
    it.restart()
    assert it.uplink.info().lag_messages == 0
    assert [payload for _, payload in it.arrived] == [1]


def test_what_passes_is_read_again_with_what_failed() -> None:
    """It is not counted twice."""
    it = BookedNode({"filter": "up/#", "when": "payload > 0"})
    it.sink.at_once = False
    it.publish(b"1")
    it.publish(b"0", b"0")
    it.away()
    it.sink.at_once = True
    it.back()
    info = it.uplink.info()
    assert (info.recorded, info.lag_messages, info.safe) == (3, 0, 1)


def test_a_qos_that_is_too_low_is_not_recorded() -> None:
    """For nobody, if nobody else wants it."""
    it = BookedNode({"filter": "up/#", "qos": 1})
    before = it.node.broker.log.end
    it.publish(b"0", qos=0)
    assert it.node.broker.log.end == before
    it.publish(b"1", qos=1)
    it.publish(b"2", qos=2)
    assert [payload for _, payload in it.arrived] == [1, 2]


def test_a_gateways_reading_goes_by_what_it_says() -> None:
    """By device, codec and values."""
    reading = {"id": "1", "node": "n", "gateway": "gw", "device": "d1", "ts": 5, "codec": "acme", "values": {"t": 9}}
    rule = rule_of({"codec": "ac*", "when": "values.t in [8, 9]", "to": "iot.{codec}"})
    payload = json.dumps(reading).encode()
    run = run_of(b"up/gw/d1", [payload], [1])
    logged = LogRun(Reference(0, 0, 1000, 1), run, run.topic, "gw", 1_790_000_000.5, Origin(codec=CodecId("acme", "3")))
    (found,) = RulePlan(Rules([rule]), "n1").records(logged, "0.a")
    assert (found.topic, found.key, found.value) == ("iot.acme", "gw/d1", payload[:-1] + b',"record":"0.a-1000"}')
    assert dict(found.headers)["codec"] == b"acme"


def test_differences_between_rules() -> None:
    """What came, what went, and whether the rest is in another order."""
    one, two, three = Rule("a"), Rule("b"), Rule("c")
    assert difference([one, two], [one, two]) == ([], [], False)
    assert difference([one, two], [two, one]) == ([], [], True)
    assert difference([one, two], [three, one]) == ([three], [two], False)
    assert difference([one], [one, one]) == ([one], [], True)
