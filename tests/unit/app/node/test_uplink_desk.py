"""What operators do with rules, on a node: reload them from the configuration, and try them on its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from iot_mqtt.app.config.errors import DEFAULT, ConfigError, Problem
from iot_mqtt.app.config.reading import LoadedConfig, read_config
from iot_mqtt.app.node.rule_desk import Read, RuleDesk
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.uplink.desk import RulesRefused
from tests.unit.broker.harness import run
from tests.unit.uplink.test_rulebook import DOWN, UP, BookedNode

HOT: dict[str, object] = {"filter": "up/#", "when": "payload > 5", "to": "hot"}


class DeskNode(BookedNode):
    """With a desk; ``written`` is what stands in its configuration."""

    def __init__(self, *entries: dict[str, object], **options: Any) -> None:
        super().__init__(*entries, **options)
        self.written: tuple[Mapping[str, object], ...] = self.entries
        self.kind = "file"
        self.desk = self.make_desk(self._read)

    def make_desk(self, read: Read | None) -> RuleDesk:
        node, turn, reserved = self.node, self.node.broker.turn, ["iot.commands"]
        return RuleDesk(self.book, self.uplink, node.log, turn, node.clock, read, kind="file", reserved=reserved)

    async def _read(self) -> LoadedConfig:
        return read_config(None, [f"uplink.kind={self.kind}", f"uplink.rules={list(self.written)}"], {})

    def wait(self, coroutine: Any) -> Any:
        """Until it has its answer, turn by turn."""
        answers: list[Any] = []

        async def answered() -> None:
            try:
                answers.append(await coroutine)
            except RulesRefused as error:
                answers.append(error)

        ensureDeferred(answered())
        for _ in range(1000):
            if answers:
                break
            self.node.turn()
        if isinstance(answers[0], RulesRefused):
            raise answers[0]
        return answers[0]


def test_a_reload_changes_the_rules_and_says_what() -> None:
    """From the next message on; what waits stays with the rules of before."""
    it = DeskNode(UP)
    it.away()
    it.publish(b"1")
    it.written = (HOT, DOWN)
    found = it.wait(it.desk.reload())
    assert (found.changed, found.rules, found.waiting) == (True, 2, 1)
    assert found.removed == ('{"filter": "up/#"}',)
    assert found.added[0] == '{"filter": "up/#", "to": "hot", "when": "payload > 5"}'
    assert any("recorded before" in note for note in found.notes)
    it.publish(b"9")
    it.publish(b"2")
    assert it.desk.rules().earlier == 1
    it.back()
    assert it.arrived == [("iot.readings", 1), ("hot", 9)]
    items = it.desk.rules().items
    assert [(item.number, item.to, item.when, item.matched, item.sent) for item in items] == [
        (1, "hot", "payload > 5", 2, 1),
        (2, "iot.other", None, 0, 0),
    ]
    assert it.desk.rules().earlier == 0


def test_a_reload_is_committed_when_it_is_answered() -> None:
    """Killed then, the node begins with it."""
    it = DeskNode(UP)
    it.written = (DOWN,)
    it.wait(it.desk.reload())
    it.entries = (DOWN,)
    it.restart()
    assert it.book.earlier == 0
    assert it.book.rules.rules[0].to == "iot.other"


def test_a_reload_of_the_same_says_so() -> None:
    """And what needs a restart."""
    it = DeskNode(UP)
    it.kind = "none"
    found = it.wait(it.desk.reload())
    assert not found.changed
    assert found.notes == ("uplink.kind is file until the node is restarted",)


def test_a_topic_that_was_published_to_before_goes_by_the_new_rules() -> None:
    """Whoever publishes there has found it before the reload, when nothing of it was recorded."""
    it = DeskNode(DOWN)
    client = it.node.connect("other")
    client.publish("up/x", b"1", qos=1)
    it.written = (UP,)
    it.wait(it.desk.reload())
    client.publish("up/x", b"2", qos=1)
    it.node.turn()
    assert it.arrived == [("iot.readings", 2)]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"filter": "up/#", "when": "values.t >"}], "entry 1: when: column 11: expected a name"),
        ([{"filter": "a"}, {"to": "x"}], "entry 2: needs a filter"),
        ([], "must say what goes up"),
    ],
)
def test_rules_with_mistakes_change_nothing(rules: list[dict[str, object]], words: str) -> None:
    """And it is said why, as at the start."""
    it = DeskNode(UP)
    before, it.written = it.book.rules, tuple(rules)
    with pytest.raises(RulesRefused, match=words):
        it.wait(it.desk.reload())
    assert it.book.rules is before


def test_a_configuration_that_cannot_be_read_changes_nothing() -> None:
    """Nor does one that there is not."""
    it = DeskNode(UP)

    async def fails() -> LoadedConfig:
        raise ConfigError([Problem(DEFAULT, "mqtt", "is broken")])

    for read in (fails, None):
        desk = it.make_desk(read)
        with pytest.raises(RulesRefused):
            it.wait(desk.reload())


def test_a_dry_run_reads_the_end_of_the_log() -> None:
    """The last so many messages, whoever they were kept for, and nothing is sent or counted."""
    it = DeskNode(UP, log_use=LogUse(record=("#",)))
    for number in range(20):
        it.publish(*(b"%d" % (number * 10 + one) for one in range(10)))
        it.node.advance(5)
    it.publish(b"1", topic="other/x")
    sent = list(it.sink.kept)
    found = it.wait(it.desk.test([HOT, DOWN], 25, None))
    assert (found.messages, found.changed) == (25, 25)
    assert [rule.sent for rule in found.rules] == [24, 1]
    assert {(one.now, one.then) for one in found.differences} == {
        ("iot.readings", "hot"), ("does not go up", "iot.other"),
    }  # fmt: skip
    assert it.sink.kept == sent
    assert it.book.rules.rules[0].figures.sent == 200
    everything = it.wait(it.desk.test(None, 1000, None))
    assert (everything.messages, everything.changed) == (201, 0)
    assert it.wait(it.desk.test(None, 1000, 0.26)).messages == 31


def test_a_dry_run_lets_others_have_their_turn() -> None:
    """And there is one at a time."""
    it = DeskNode(UP)
    for _ in range(5):
        it.publish(*(b"%d" % number for number in range(100)))
    turns, call_soon = list[object](), it.node.broker.turn.call_soon
    it.node.broker.turn.call_soon = lambda call: (turns.append(call), call_soon(call))[1]  # type: ignore[func-returns-value]
    first: Any = ensureDeferred(it.desk.test(None, 1000, None))
    with pytest.raises(RulesRefused, match="another dry run"):
        run(it.desk.test(None, 1000, None))
    assert not first.called
    it.node.turn()
    assert len(turns) >= 5
    assert first.result.messages == 500


def test_a_dry_run_of_rules_with_mistakes_says_so() -> None:
    """As a reload does."""
    it = DeskNode(UP)
    with pytest.raises(RulesRefused, match="entry 1: needs a filter"):
        run(it.desk.test([{}], 10, None))
