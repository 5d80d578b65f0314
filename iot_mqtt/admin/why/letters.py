"""Names that differ in one letter by mistake, and not as things of one kind do (line1 and line2, pump-a and pump-b)."""

from __future__ import annotations

import unicodedata
from itertools import takewhile
from typing import Final

#: Letters that the word has at least in which they differ.
_SHORTEST: Final = 4
#: Alphabets whose letters look like Latin ones.
_ALIKE: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH")


def one_letter(one: str, other: str) -> bool:
    """Whether one has a letter too many, too few, another one, or two that have changed places."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    begin = one[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))]
    left, right = one[len(begin) :], other[len(begin) :]
    for here, there in ((1, 0), (0, 1), (1, 1), (2, 2)):
        if left[here:] == right[there:] and (here + there < 4 or left[:2] == right[1::-1]):
            return _is_slip(begin, left[:here], right[:there], left[here:])
    return False


def _is_slip(begin: str, left: str, right: str, end: str) -> bool:
    """It is within a word, and neither a number nor a letter that counts things."""
    if (left + right).isdigit() or (left.isupper() and right.isupper() and begin[-1:].islower()):
        return False
    around = _letters(begin[::-1]) + _letters(end)
    return around + max(len(left), len(right)) >= _SHORTEST


def _letters(text: str) -> int:
    """How many it begins with."""
    return sum(1 for _ in takewhile(str.isalpha, text))


def written(name: str) -> str:
    """In quotes; letters that look like Latin ones, among those, by their number."""
    if not any(letter.isascii() and letter.isalpha() for letter in name):
        return repr(name)
    return repr(name).translate({ord(one): f"\\u{ord(one):04x}" for one in name if _is_alike(one)})


def _is_alike(letter: str) -> bool:
    return not letter.isascii() and unicodedata.name(letter, "").startswith(_ALIKE)
