"""The words of a condition: names, literals and signs, each with the column where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

#: Of a condition; longer ones are refused unread.
MAX_LENGTH = 1000
#: Names that mean something by themselves.
WORDS = frozenset(("and", "or", "not", "in", "true", "false", "null", "exists"))

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[^\W\d]\w*)
      | (?P<sign>==|!=|<=|>=|[<>()\[\],.])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
#: What stands in a message of what was found; the rest is cut.
_SHOWN = 20


class ExpressionError(ValueError):
    """What is wrong with a condition, and where. The only error that a condition can make."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(f"column {column}: {text}")
        #: Counted from 1.
        self.column = column


class Token(NamedTuple):
    """One word. ``kind``: number, text, name, sign, or end."""

    kind: str
    #: As it is written.
    text: str
    column: int

    @property
    def shown(self) -> str:
        """For a message."""
        if self.kind == "end":
            return "the end"
        cut = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}..."
        return repr(cut)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words or signs."""
        return self.kind in ("name", "sign") and self.text in words


def tokens(expression: str) -> Iterator[Token]:
    """All words, and the end."""
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(MAX_LENGTH + 1, f"a condition has at most {MAX_LENGTH} characters")
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None or found.lastgroup is None:
            raise ExpressionError(at + 1, _unreadable(expression[at]))
        if found.lastgroup != "space":
            yield Token(found.lastgroup, found.group(), at + 1)
        at = found.end()
    yield Token("end", "", len(expression) + 1)


def _unreadable(character: str) -> str:
    if character in "\"'":
        return "expected the other quote of a text that begins here"
    if character == "=":
        return "expected '==' to compare"
    if character in "&|!":
        return f"expected and, or, not, found {character!r}"
    return f"expected a name, a number, a text or a sign, found {character!r}"


def number_of(token: Token) -> int | float:
    """The value of a number."""
    text = token.text
    return float(text) if any(sign in text for sign in ".eE") else int(text)


def text_of(token: Token) -> str:
    """The value of a text: a backslash takes quotes and backslashes as they are, and makes nothing else."""
    inner = token.text[1:-1]
    for found in _ESCAPE.finditer(inner):
        if found.group(1) not in "\"'\\":
            column = token.column + 1 + found.start()
            raise ExpressionError(
                column, f"expected a quote or a backslash behind a backslash, found {found.group(1)!r}"
            )
    return _ESCAPE.sub(r"\1", inner)
