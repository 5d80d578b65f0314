"""Which rule says so: the same answer as the rules give, with its place."""

from __future__ import annotations

import pytest

from iot_mqtt.app.tools.acl import ACTIONS
from iot_mqtt.auth.acl import parse_brought, parse_rules
from iot_mqtt.auth.explaining import QUESTIONS, Question, answer
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


def test_the_command_knows_all_questions() -> None:
    """Without loading what answers them."""
    assert tuple(QUESTIONS) == ACTIONS
