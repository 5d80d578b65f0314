"""Conditions on what a message says: ``values.t > 80 and device in ["press-1", "press-2"]``.

::

    condition  = or
    or         = and { "or" and }
    and        = not { "and" not }
    not        = "not" not | comparison
    comparison = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=") operand | ["not"] "in" "[" literals "]" ]
    operand    = literal | name | "exists" "(" name ")" | "(" or ")"
    name       = word { "." word | "[" text or whole number "]" }

A parser by precedence (Pratt) that makes closures (``truth``). There are no calls but ``exists``, no arithmetic, and
nothing of Python behind a name: a name is looked up in the message and nowhere else. Length and depth are bounded, and
every mistake is an ``ExpressionError`` with its column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from iot_mqtt.uplink.rules import truth
from iot_mqtt.uplink.rules.tokens import WORDS, ExpressionError, Token, number_of, text_of, tokens
from iot_mqtt.uplink.rules.truth import Scope, Test, Value

#: Parentheses and ``not`` within one another.
MAX_DEPTH = 32

#: How strongly what stands between two operands binds them.
_OR, _AND, _NOT, _COMPARISON = 1, 2, 3, 4
_BINDING = {"or": _OR, "and": _AND, "in": _COMPARISON, "not": _COMPARISON}
_BINDING.update(dict.fromkeys(truth.COMPARISONS, _COMPARISON))

_CONSTANTS: dict[str, object] = {"true": True, "false": False, "null": None}


class _Part(NamedTuple):
    """What was read so far: a value to compare, or a test."""

    column: int
    value: Value | None = None
    test: Test | None = None
    #: A value that can't be a test by itself, in words.
    not_a_test: str | None = None


class Condition:
    """A condition, ready to be asked."""

    __slots__ = ("text", "_test")

    def __init__(self, text: str, test: Test) -> None:
        self.text = text
        self._test = test

    def holds(self, scope: Scope) -> bool:
        """Whether it is true of a message; unknown is not true. Never raises."""
        return self._test(scope) is True


def parse(text: str, names: Iterable[str]) -> Condition:
    """A condition as it is written; ``names`` are those that a message may have. Raises ``ExpressionError``."""
    return Condition(text, _Parser(text, tuple(names)).whole())


class _Parser:
    __slots__ = ("_tokens", "_at", "_names", "_depth")

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self._tokens = list(tokens(text))
        self._at = 0
        self._names = names
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _expect(self, sign: str, what: str) -> None:
        token = self._take()
        if not token.is_word(sign):
            raise ExpressionError(token.column, f"expected {what}, found {token.shown}")

    def whole(self) -> Test:
        test = _test(self._part(0))
        if self._next.kind != "end":
            raise ExpressionError(
                self._next.column, f"expected and, or, a comparison or the end, found {self._next.shown}"
            )
        return test

    def _part(self, binding: int) -> _Part:
        """What stands from here on, as far as it is bound more strongly than ``binding``."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(self._next.column, f"more than {MAX_DEPTH} levels within one another")
        left = self._first()
        while self._next.kind in ("name", "sign") and _BINDING.get(self._next.text, 0) > binding:
            left = self._further(left)
        self._depth -= 1
        return left

    def _further(self, left: _Part) -> _Part:
        """What comes behind a part and takes it as its left side."""
        token = self._take()
        if token.text in ("and", "or"):
            return self._joined(left, token.text)
        value = _value(left)
        if token.text in ("in", "not"):
            if token.text == "not":
                self._expect("in", "in behind not")
            test = truth.one_of(value, self._literals())
            part = _Part(left.column, test=truth.negated(test) if token.text == "not" else test)
        else:
            right = _value(self._part(_COMPARISON))
            part = _Part(left.column, test=truth.compared(token.text, value, right))
        if self._next.is_word("in", *truth.COMPARISONS):
            raise ExpressionError(self._next.column, "expected and or or: a comparison has two sides")
        return part

    def _joined(self, left: _Part, word: str) -> _Part:
        """All that the same word joins, side by side: a long condition is not a deep one."""
        binding, make = (_AND, truth.all_of) if word == "and" else (_OR, truth.any_of)
        tests = [_test(left), _test(self._part(binding))]
        while self._next.is_word(word):
            self._take()
            tests.append(_test(self._part(binding)))
        return _Part(left.column, test=make(tests))

    def _first(self) -> _Part:
        """An operand, or ``not`` and what it denies."""
        token = self._take()
        if token.is_word("not"):
            return _Part(token.column, test=truth.negated(_test(self._part(_NOT - 1))))
        if token.is_word("("):
            part = self._part(0)
            self._expect(")", "')'")
            return part._replace(column=token.column)
        if token.is_word("exists"):
            self._expect("(", "'(' behind exists")
            value = self._name(self._take())
            self._expect(")", "')' behind the name")
            return _Part(token.column, test=truth.exists(value))
        if token.kind == "name" and token.text not in WORDS:
            return _Part(token.column, value=self._name(token))
        found, what = self._literal(token, "a name, a literal, not, exists or '('")
        return _Part(token.column, value=truth.literal(found), not_a_test=what)

    def _literal(self, token: Token, expected: str) -> tuple[object, str | None]:
        """Its value, and what it is if it can't be true or false."""
        if token.kind == "number":
            return number_of(token), "a number"
        if token.kind == "text":
            return text_of(token), "a text"
        if token.kind == "name" and token.text in _CONSTANTS:
            return _CONSTANTS[token.text], "null" if token.text == "null" else None
        raise ExpressionError(token.column, f"expected {expected}, found {token.shown}")

    def _literals(self) -> list[object]:
        self._expect("[", "'[' behind in")
        found: list[object] = []
        if self._next.is_word("]"):
            self._take()
            return found
        while True:
            found.append(self._literal(self._take(), "a number, a text, true, false or null")[0])
            token = self._take()
            if token.is_word("]"):
                return found
            if not token.is_word(","):
                raise ExpressionError(token.column, f"expected ',' or ']', found {token.shown}")

    def _name(self, token: Token) -> Value:
        if token.kind != "name" or token.text in WORDS:
            raise ExpressionError(token.column, f"expected a name, found {token.shown}")
        if token.text not in self._names:
            known = ", ".join(self._names)
            raise ExpressionError(token.column, f"expected one of {known}, found {token.shown}")
        path: list[str | int] = [token.text]
        while self._next.is_word(".", "["):
            if self._take().text == ".":
                part = self._take()
                if part.kind != "name":
                    raise ExpressionError(part.column, f"expected a name behind '.', found {part.shown}")
                path.append(part.text)
            else:
                path.append(self._index())
                self._expect("]", "']'")
        return truth.name(path)

    def _index(self) -> str | int:
        token = self._take()
        if token.kind == "text":
            return text_of(token)
        if token.kind == "number" and isinstance(number := number_of(token), int):
            return number
        raise ExpressionError(token.column, f"expected a text or a whole number, found {token.shown}")


def _test(part: _Part) -> Test:
    """A part that is asked whether it is true."""
    if part.test is not None:
        return part.test
    assert part.value is not None
    if part.not_a_test is not None:
        raise ExpressionError(part.column, f"expected something true or false, found {part.not_a_test} by itself")
    return truth.is_true(part.value)


def _value(part: _Part) -> Value:
    """A part that is compared."""
    if part.value is None:
        raise ExpressionError(part.column, "expected a name or a literal to compare, found a condition")
    return part.value
