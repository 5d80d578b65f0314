"""Shell-like patterns, ``*`` for any text and ``?`` for any character, in time that grows with the text alone."""

from __future__ import annotations

import re

#: Longer texts match no pattern but ``*``: they are no names of anything.
MAX_TEXT = 4096


class Pattern:
    """A pattern, ready to be asked; everything but ``*`` and ``?`` stands for itself."""

    __slots__ = ("text", "_match")

    def __init__(self, text: str) -> None:
        self.text = text
        first, *rest = (_of_fixed(part) for part in re.split(r"\*+", text))
        if rest:
            # Each part where it stands first: there is nothing to be gained by looking further, so nothing is tried
            # twice (a group that is not given up, "?>").
            between = "".join(f"(?>.*?{part})" for part in rest[:-1] if part)
            first += f"{between}.*{rest[-1]}"
        self._match = re.compile(first, re.DOTALL).fullmatch

    def matches(self, value: object) -> bool:
        """Whether it is a text like this; a number counts as it is written."""
        if value is None or isinstance(value, bool | list | dict):
            return False
        if self.text == "*":
            return True
        found = str(value)
        return len(found) <= MAX_TEXT and self._match(found) is not None


def _of_fixed(part: str) -> str:
    return "".join("." if character == "?" else re.escape(character) for character in part)
