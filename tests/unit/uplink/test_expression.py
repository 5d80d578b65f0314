"""Conditions: what can be written, what they mean, and what is said about mistakes."""

from __future__ import annotations

import pytest

from iot_mqtt.uplink.rules import NAMES, ExpressionError, parse
from iot_mqtt.uplink.rules.expression import MAX_DEPTH
from iot_mqtt.uplink.rules.tokens import MAX_LENGTH

SCOPE: dict[str, object] = {
    "topic": "up/gw/press",
    "client": "gw",
    "qos": 1,
    "device": "press",
    "values": {"t": 80.5, "n": 3, "on": True, "off": False, "word": "good", "in": 1, "nothing": None, "a b": 7},
    "payload": {"list": [1, {"x": "deep"}], "n": 3},
}


def holds(text: str) -> bool:
    return parse(text, NAMES).holds(SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "values.t > 80",
        "values.t>80and qos>=1",
        "values.t >= 80.5 and values.t <= 80.5",
        "8.05e1 == values.t",
        "-1 < values.n",
        'device == "press"',
        "device == 'press'",
        "device != 'other'",
        "'a' < device",
        "values.on",
        "not values.off",
        "true",
        "not false",
        "values.on == true",
        "values.nothing == null",
        "values.nothing != 1",
        "values.in == 1",
        'values["a b"] == 7',
        "payload.list[0] == 1",
        "payload.list[-1].x == 'deep'",
        "values.n == payload.n",
        "values.n in [1, 2, 3]",
        "values.n not in [1, '3']",
        "not values.n in []",
        "device in ['press', null, true]",
        "exists(values.t)",
        "exists(values.nothing)",
        "not exists(values.none)",
        "(values.t) > 80",
        "((values.t > 80))",
        "not (values.t < 80) and (qos == 0 or qos == 1)",
        "false or true and true",
        "true or false and false",
        "not false and true",
        "not not true",
        "values.none > 1 or values.n == 3",
        "values.n == 3 or values.none > 1",
        "'it\\'s' != \"\\\\\"",
    ],
)
def test_a_condition_that_holds(text: str) -> None:
    """Of one and the same reading."""
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "values.t > 81",
        "false",
        "values.n in []",
        "(true or false) and false",
        "values.word and true",
        "values.n == 3 and values.none > 1",
    ],
)
def test_a_condition_that_does_not_hold(text: str) -> None:
    """The same reading."""
    assert not holds(text)


@pytest.mark.parametrize(
    "comparison",
    [
        "values.none > 1",
        "values.none == 1",
        "values.none != 1",
        "values.none in [1]",
        "values.none not in [1]",
        "values.none",
        "gateway == 'x'",
        "payload.list > 1",
        "payload.list == 1",
        "payload == payload",
        "payload.list in [1]",
        "payload.list[7] == 1",
        "payload.n.deeper == 1",
        "values.word < 5",
        "values.t < 'a'",
        "values.on < 5",
        "values.nothing < 5",
        "values.word",
    ],
)
def test_what_cannot_be_told_is_no_match_either_way(comparison: str) -> None:
    """A name that is not there, or values that cannot be compared: neither it nor its opposite holds."""
    assert not holds(comparison)
    assert not holds(f"not ({comparison})")


@pytest.mark.parametrize(
    "text", ["values.word == 5", "values.on == 1", "true == 1", "values.nothing == false", "'1' == 1"]
)
def test_values_of_different_kinds_are_different(text: str) -> None:
    """So their being equal is false, and its opposite is true."""
    assert not holds(text)
    assert holds(f"not ({text})")
    assert holds(text.replace("==", "!="))


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected a name, a literal, not, exists or '(', found the end"),
        ("values.t >", 11, "expected a name, a literal, not, exists or '(', found the end"),
        ("values.t = 5", 10, "expected '==' to compare"),
        ("values.t > 5 && true", 14, "expected and, or, not, found '&'"),
        ("values.t > 5 values.n", 14, "expected and, or, a comparison or the end, found 'values'"),
        ("temperature > 5", 1, "expected one of topic, client, qos, payload, gateway, device"),
        ("values. > 5", 9, "expected a name behind '.', found '>'"),
        ("values[t] > 5", 8, "expected a text or a whole number, found 't'"),
        ("values[1.5] > 5", 8, "expected a text or a whole number"),
        ("values['t' > 5", 12, "expected ']', found '>'"),
        ("(values.t > 5", 14, "expected ')', found the end"),
        ("values.t > 5)", 13, "found ')'"),
        ("1 < values.t < 5", 14, "a comparison has two sides"),
        ("(qos > 1) == true", 1, "expected a name or a literal to compare, found a condition"),
        ("qos and 'x'", 9, "expected something true or false, found a text by itself"),
        ("5", 1, "found a number by itself"),
        ("null", 1, "found null by itself"),
        ("qos in 5", 8, "expected '[' behind in, found '5'"),
        ("qos in [qos]", 9, "expected a number, a text, true, false or null, found 'qos'"),
        ("qos in [1 2]", 11, "expected ',' or ']', found '2'"),
        ("qos in [1,]", 11, "found ']'"),
        ("qos not 5", 9, "expected in behind not, found '5'"),
        ("exists qos", 8, "expected '(' behind exists"),
        ("exists(5)", 8, "expected a name, found '5'"),
        ("exists(values.t", 16, "expected ')' behind the name"),
        ("device == 'x", 11, "expected the other quote"),
        (r"device == 'a\n'", 13, "expected a quote or a backslash behind a backslash, found 'n'"),
        ("len(values)", 1, "expected one of"),
        ("values.t()", 9, "found '('"),
        ("__import__('os')", 1, "expected one of"),
        ("values.__class__.__init__", 0, ""),
        ("and", 1, "found 'and'"),
        ("(" * (MAX_DEPTH + 1), MAX_DEPTH + 1, f"more than {MAX_DEPTH} levels"),
        ("not " * 60 + "true", 4 * MAX_DEPTH + 1, f"more than {MAX_DEPTH} levels"),
        ("x" * (MAX_LENGTH + 1), MAX_LENGTH + 1, f"at most {MAX_LENGTH} characters"),
    ],
)
def test_a_mistake_has_a_column_and_what_was_expected(text: str, column: int, words: str) -> None:
    """Columns are counted from 1. What looks like an attribute is a name in the message, and is not there."""
    if not column:
        assert not holds(text)
        return
    with pytest.raises(ExpressionError) as caught:
        parse(text, NAMES)
    assert caught.value.column == column
    assert words in str(caught.value)


def test_a_long_condition_is_not_a_deep_one() -> None:
    """As many comparisons as the length has room for, asked without going deeper."""
    text = " or ".join(["qos==9"] * ((MAX_LENGTH - 6) // 10) + ["qos==1"])
    assert holds(text)
