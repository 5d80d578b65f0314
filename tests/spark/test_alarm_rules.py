"""Alarm rules: what is read, and what is refused with which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from iot_spark.alarm_rules import AlarmRule, CommandRule, Match, read_alarms
from iot_spark.rules import BadRule

HOT: Mapping[str, Any] = {"name": "hot", "kind": "threshold", "above": 90}
COMMAND: Mapping[str, Any] = {"target": "{gateway}/{device}", "body": {"speed": 0}}


def test_a_rule_with_everything_is_read() -> None:
    """All keys of a threshold rule."""
    rule = read_alarms(
        [
            {
                **HOT,
                "match": {"gateway": "line-*", "device": "press", "tag": ["t", "u?"]},
                "clear": 80,
                "hold": 10,
                "severity": "critical",
                "command": {**COMMAND, "expires_in": 60, "retry": True},
                "clear_command": {"target": "gw7/lamp"},
            }
        ]
    )
    command = CommandRule("{gateway}/{device}", '{"speed":0}', 60.0, retry=True)
    assert rule == (
        AlarmRule(
            "hot",
            "threshold",
            Match(("line-*",), ("press",), ("t", "u?")),
            above=90.0,
            clear=80.0,
            hold=10.0,
            severity="critical",
            command=command,
            clear_command=CommandRule("gw7/lamp"),
        ),
    )


def test_no_rules_are_none() -> None:
    """A missing list and an empty one."""
    assert read_alarms(None) == read_alarms([]) == ()


REFUSED: Mapping[str, tuple[object, str]] = {
    "no list": ({"name": "hot"}, "write a list"),
    "no mapping": (["hot"], "rule 1: write keys and values"),
    "no name": ([{"kind": "threshold"}], "rule 1, name: is missing"),
    "twice the same name": ([HOT, HOT], "two rules named 'hot'"),
    "an unknown kind": ([{**HOT, "kind": "hot"}], "'hot' is none of threshold, rate, missing"),
    "an unknown key": ([{**HOT, "abvoe": 1}], "there is no 'abvoe' here"),
    "a key of another kind": ([{**HOT, "missing": 5}], "there is no 'missing' here"),
    "both ends": ([{**HOT, "below": 1}], "for both ends write two rules"),
    "no end": ([{"name": "hot", "kind": "rate"}], "say from where on"),
    "a clear above above": ([{**HOT, "clear": 91}], "91 is more than above: 90"),
    "a clear below below": ([{"name": "low", "kind": "threshold", "below": 5, "clear": 4}], "4 is less than below: 5"),
    "a bool for a number": ([{**HOT, "above": True}], "above: write a number"),
    "no number at all": ([{**HOT, "above": float("nan")}], "above: write a number"),
    "a negative hold": ([{**HOT, "hold": -1}], "hold: -1 is not between 0 and"),
    "too long a span": ([{"name": "r", "kind": "rate", "above": 1, "per": 4000}], "per: 4000 is not between"),
    "no time of silence": ([{"name": "s", "kind": "missing"}], "missing: is missing"),
    "an unknown severity": ([{**HOT, "severity": "bad"}], "severity: 'bad' is none of info, warning, critical"),
    "an unknown part of match": ([{**HOT, "match": {"topic": "a"}}], "there is no 'topic' here"),
    "an empty pattern": ([{**HOT, "match": {"tag": ""}}], "tag: write a pattern"),
    "a command without target": ([{**HOT, "command": {"body": 1}}], "command, target: is missing"),
    "a wildcard as target": ([{**HOT, "command": {"target": "gw/#"}}], "'gw/#' is no target"),
    "an unknown place": ([{**HOT, "command": {"target": "{node}/x"}}], "{node} is none of"),
    "half a place": ([{**HOT, "command": {"target": "{gateway/x"}}], "a brace without its other half"),
    "a body that is no JSON": (
        [{**HOT, "command": {**COMMAND, "body": {1, 2}}}],
        "body: it must be what JSON can hold",
    ),
    "a command that is over at once": ([{**HOT, "command": {**COMMAND, "expires_in": 0}}], "expires_in: 0 is not"),
    "a flag that is none": ([{**HOT, "command": {**COMMAND, "retry": "yes"}}], "retry: write true or false"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_that_cannot_be_meant_is_refused(name: str) -> None:
    """One case of the table."""
    entry, why = REFUSED[name]
    with pytest.raises(BadRule) as caught:
        read_alarms(entry)
    assert why in str(caught.value)
