"""Conditions against any text, against any message, and against a small reference with Python's own operators."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.uplink.rules import NAMES, ExpressionError, parse

_SIGNS = ["(", ")", "[", "]", ",", ".", "==", "!=", "<", "<=", ">", ">=", "=", " ", "\\", "\n", "'", '"']
_NAMES = ["and", "or", "not", "in", "exists", "true", "null", "values", "payload", "qos", "device", "t", "é"]
_WORDS = st.sampled_from([*_SIGNS, *_NAMES, "'x'", "5", "-1.5e3", "1e999"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("tuvw"), inner, max_size=3),
    max_leaves=6,
)
_SCOPES = st.dictionaries(st.sampled_from(NAMES), _JSON, max_size=6)


@given(st.text(max_size=60) | st.lists(_WORDS, max_size=25).map(" ".join) | st.lists(_WORDS, max_size=25).map("".join))
def test_any_text_is_a_condition_or_the_one_error(text: str) -> None:
    """And the error's column is in the text, or just behind it."""
    error = refusal(text)
    if error is not None:
        assert 1 <= error.column <= len(text) + 1
        assert str(error).startswith(f"column {error.column}: ")


def refusal(text: str) -> ExpressionError | None:
    try:
        parse(text, NAMES)
    except ExpressionError as error:
        return error
    return None


# Conditions that are well formed, as trees: (how it is written, what the reference says of a message).

_LITERALS: list[tuple[str, Any]] = [
    ("0", 0), ("1", 1), ("2.5", 2.5), ("-3", -3), ("'a'", "a"), ('"b"', "b"), ("''", ""),
    ("true", True), ("false", False), ("null", None),
]  # fmt: skip
_GONE = object()
_OPERATORS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Tree = tuple[Any, ...]

_operands: st.SearchStrategy[Tree] = st.one_of(
    st.sampled_from(_LITERALS).map(lambda one: ("literal", *one)),
    st.sampled_from("tuv").map(lambda tag: ("tag", tag)),
)
_leaves: st.SearchStrategy[Tree] = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(sorted(_OPERATORS)), _operands, _operands),
    st.tuples(st.just("in"), st.sampled_from("tuv"), st.lists(st.sampled_from(_LITERALS), max_size=3), st.booleans()),
    st.sampled_from("tuv").map(lambda tag: ("exists", tag)),
    st.sampled_from("tuv").map(lambda tag: ("tag", tag)),
)
_trees: st.SearchStrategy[Tree] = st.recursive(
    _leaves,
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=8,
)
_tags = st.dictionaries(st.sampled_from("tuv"), st.sampled_from([value for _, value in _LITERALS] + [[1], {}]))


def written(tree: Tree) -> str:
    kind = tree[0]
    if kind == "literal":
        return str(tree[1])
    if kind == "tag":
        return f"values.{tree[1]}"
    if kind == "exists":
        return f"exists(values.{tree[1]})"
    if kind == "compare":
        return f"{written(tree[2])} {tree[1]} {written(tree[3])}"
    if kind == "in":
        return f"values.{tree[1]} {'not ' * tree[3]}in [{', '.join(text for text, _ in tree[2])}]"
    if kind == "not":
        return f"not ({written(tree[1])})"
    return f"({written(tree[1])}) {kind} ({written(tree[2])})"


def value_of(tree: Tree, tags: dict[str, Any]) -> Any:
    return tree[2] if tree[0] == "literal" else tags.get(tree[1], _GONE)


def kind_of(value: Any) -> str | None:
    """JSON's, as far as it can be compared."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return {str: "text", type(None): "null"}.get(type(value))


def said(tree: Tree, tags: dict[str, Any]) -> bool | None:
    """Kleene's logic over Python's operators, written down as plainly as can be."""
    kind = tree[0]
    if kind == "not":
        inner = said(tree[1], tags)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        both = (said(tree[1], tags), said(tree[2], tags))
        decides = kind == "or"
        return decides if decides in both else (None if None in both else not decides)
    if kind == "exists":
        return tags.get(tree[1], _GONE) is not _GONE
    if kind == "tag":
        found = tags.get(tree[1], _GONE)
        return found if isinstance(found, bool) else None
    if kind == "in":
        value = tags.get(tree[1], _GONE)
        if kind_of(value) is None:
            return None
        return any(kind_of(one) == kind_of(value) and one == value for _, one in tree[2]) is not tree[3]
    one, other = value_of(tree[2], tags), value_of(tree[3], tags)
    if kind_of(one) is None or kind_of(other) is None:
        return None
    same = kind_of(one) == kind_of(other)
    if tree[1] in ("==", "!="):
        return (same and one == other) is (tree[1] == "==")
    if not same or kind_of(one) not in ("number", "text"):
        return None
    return bool(_OPERATORS[tree[1]](one, other))


@given(tree=_trees, tags=_tags)
def test_it_says_what_the_reference_says(tree: Tree, tags: dict[str, Any]) -> None:
    """And the opposite of the opposite; what neither can tell is no match."""
    text, expected = written(tree), said(tree, tags)
    assert parse(text, NAMES).holds({"values": tags}) is (expected is True)
    assert parse(f"not ({text})", NAMES).holds({"values": tags}) is (expected is False)


@given(tree=_trees, scope=_SCOPES)
def test_no_message_makes_it_raise(tree: Tree, scope: dict[str, object]) -> None:
    """Whatever stands behind the names."""
    assert parse(written(tree), NAMES).holds(scope) in (True, False)


@pytest.mark.parametrize("huge", [10**400, -(10**400), float("inf")])
def test_numbers_without_bounds_are_compared(huge: float) -> None:
    """JSON has integers of any length; they are compared exactly, with floats too."""
    assert parse("values.t > 1.5", NAMES).holds({"values": {"t": huge}}) is (huge > 0)
