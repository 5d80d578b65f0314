"""Which rule says so: the same answer as the rules give, with its place."""

from __future__ import annotations

import pytest

from iot_mqtt.app.tools.acl import ACTIONS
from iot_mqtt.auth.acl import parse_brought, parse_rules
from iot_mqtt.auth.explaining import QUESTIONS, Question, answer
from iot_mqtt.auth.rights import RuleAuthorizer
from iot_mqtt.auth.sections import Book
from iot_mqtt.ports.access import Principal

FIRST = """[user ann]
deny publish retain up/#
allow publish qos<=1 up/#
allow command gw/#
allow client ann-*
[all]
allow shadow gw/press
"""
SECOND = "[group crew]\nallow all extra/#\n"
ANN = Principal("ann-1", "ann", groups=frozenset({"crew"}), brought_rules=("allow read brought",))
BOOK = Book([parse_rules(FIRST, "acl"), parse_rules(SECOND, "grid")], parse_brought)
NO_RULES = Book([], parse_brought)
BOB = Principal("bob-1", "bob")
ROOT = Principal("root-1", "root", superuser=True)


@pytest.mark.parametrize(
    ("question", "allowed", "place"),
    [
        (Question("publish", "up/1"), True, ("acl", 3)),
        (Question("publish", "up/1", 1, retain=True), False, ("acl", 2)),
        (Question("publish", "up/1", 2), False, None),
        (Question("publish", "other"), False, None),
        (Question("command", "gw/press"), True, ("acl", 4)),
        (Question("command", "gx/press"), False, None),
        (Question("shadow-read", "gw/press"), True, ("acl", 7)),
        (Question("shadow-write", "gw/press"), True, ("acl", 7)),
        (Question("subscribe", "extra/+"), True, ("grid", 2)),
        (Question("subscribe", "$share/g/extra/+"), True, ("grid", 2)),
        (Question("replay", "extra/+"), True, ("grid", 2)),
        (Question("receive", "brought"), True, ("token", 1)),
        (Question("client", "ann-7"), True, ("acl", 5)),
        (Question("client", "bob"), False, None),
        (Question("gateway", "bob"), True, None),
        (Question("publish", "$SYS/x"), False, None),
    ],
)
def test_an_answer_has_its_rule(question: Question, allowed: bool, place: tuple[str, int] | None) -> None:
    """File, grid and token, whichever speaks first."""
    found = answer(BOOK.of(ANN), ANN, question)
    assert found.allowed is allowed
    assert (found.source, found.line) == (place or (None, None))
    assert (found.rule is None) is (place is None)
    assert found.detail


@pytest.mark.parametrize(
    "question",
    [Question("fly", "a"), Question("publish", "a/#"), Question("subscribe", "a/#/b"), Question("client", "")],
)
def test_a_question_that_makes_no_sense(question: Question) -> None:
    """It gets no verdict."""
    with pytest.raises(ValueError, match=r"\w"):
        answer(BOOK.of(ANN), ANN, question)


@pytest.mark.parametrize(("book", "who"), [(BOOK, ANN), (BOOK, ROOT), (NO_RULES, BOB)], ids=["rules", "root", "none"])
@pytest.mark.parametrize(
    ("topic", "hint"),
    [("status/x", False), ("shadow/x/delta", False), ("$SYS/broker/connection/plant/state", True)],
)
def test_where_only_the_broker_publishes_nobody_else_does(book: Book, who: Principal, topic: str, hint: bool) -> None:
    """Whatever rules there are or are not. A bridge can be given another topic for what it says."""
    found = RuleAuthorizer(lambda: book).explain(who, Question("publish", topic))
    assert not found.allowed
    assert found.detail.startswith("only the broker publishes there")
    assert ("notification_topic" in found.detail) is hint


@pytest.mark.parametrize("action", ["subscribe", "receive"])
def test_what_only_the_broker_publishes_can_be_read(action: str) -> None:
    """As any topic, if no rule speaks of it."""
    assert RuleAuthorizer(lambda: NO_RULES).explain(BOB, Question(action, "status/x")).allowed


@pytest.mark.parametrize("who", [BOB, ROOT])
def test_a_question_makes_no_sense_without_rules_either(who: Principal) -> None:
    """The broker would refuse that filter whoever asks for it."""
    with pytest.raises(ValueError, match=r"\w"):
        RuleAuthorizer(lambda: NO_RULES).explain(who, Question("subscribe", "$share/g"))


def test_the_command_knows_all_questions() -> None:
    """Without loading what answers them."""
    assert tuple(QUESTIONS) == ACTIONS
