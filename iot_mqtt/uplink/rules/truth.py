"""What the parts of a condition do: closures over a message's names, and a logic that knows "unknown".

A value that is not there, or that cannot be compared with the other one, makes a comparison *unknown* (None). Unknown
goes through ``not``, ``and`` and ``or`` as far as it matters, and at the end it is no match. So ``not (values.t > 80)``
does not match messages that have no ``t``.

Nothing here raises, whatever a message holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: The names of one message.
Scope = Mapping[str, object]
#: True, False, or None: unknown.
Truth = bool | None
Test = Callable[[Scope], Truth]
Value = Callable[[Scope], object]


class Missing:
    """A value that is not there; null is one that is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()

#: Kinds of values: those of one kind can be compared. Lists and objects have none.
_KINDS: dict[type, str] = {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}
_ORDERED = ("number", "text")
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS = ("==", "!=", *_ORDERS)


def literal(value: object) -> Value:
    """Always the same."""
    return lambda _: value


def name(path: Sequence[str | int]) -> Value:
    """What a name stands for: ``("values", "t")``, ``("payload", 0)``."""
    root, rest = str(path[0]), tuple(path[1:])
    if not rest:
        return lambda scope: scope.get(root, MISSING)

    def look(scope: Scope) -> object:
        value = scope.get(root, MISSING)
        for part in rest:
            if isinstance(value, dict) and isinstance(part, str):
                value = value.get(part, MISSING)
            elif isinstance(value, list) and isinstance(part, int) and -len(value) <= part < len(value):
                value = value[part]
            else:
                return MISSING
        return value

    return look


def compared(sign: str, left: Value, right: Value) -> Test:
    """``left sign right``."""
    order = _ORDERS.get(sign)
    if order is None:
        return _same(left, right) if sign == "==" else negated(_same(left, right))

    def test(scope: Scope) -> Truth:
        one, other = left(scope), right(scope)
        kind = _KINDS.get(one.__class__)
        if kind not in _ORDERED or kind != _KINDS.get(other.__class__):
            return None
        return order(one, other)

    return test


def _same(left: Value, right: Value) -> Test:
    """Values of different kinds are not the same; of lists and objects nothing is said."""

    def test(scope: Scope) -> Truth:
        one, other = left(scope), right(scope)
        kind, kind_of_other = _KINDS.get(one.__class__), _KINDS.get(other.__class__)
        if kind is None or kind_of_other is None:
            return None
        return kind == kind_of_other and one == other

    return test


def one_of(value: Value, literals: Sequence[object]) -> Test:
    """``value in [...]``."""
    listed = frozenset((_KINDS[one.__class__], one) for one in literals)

    def test(scope: Scope) -> Truth:
        found = value(scope)
        kind = _KINDS.get(found.__class__)
        return None if kind is None else (kind, found) in listed

    return test


def exists(value: Value) -> Test:
    """Whether it is there, null or not."""
    return lambda scope: value(scope) is not MISSING


def is_true(value: Value) -> Test:
    """A name by itself: true or false as it says; unknown if it says neither."""

    def test(scope: Scope) -> Truth:
        found = value(scope)
        return found if isinstance(found, bool) else None

    return test


def negated(test: Test) -> Test:
    """``not``."""

    def other(scope: Scope) -> Truth:
        found = test(scope)
        return None if found is None else not found

    return other


def all_of(tests: Sequence[Test]) -> Test:
    """``and``: false as soon as one is."""
    return _until(tests, decides=False)


def any_of(tests: Sequence[Test]) -> Test:
    """``or``: true as soon as one is."""
    return _until(tests, decides=True)


def _until(tests: Sequence[Test], *, decides: bool) -> Test:
    listed = tuple(tests)

    def test(scope: Scope) -> Truth:
        result: Truth = not decides
        for one in listed:
            found = one(scope)
            if found is decides:
                return decides
            if found is None:
                result = None
        return result

    return test
