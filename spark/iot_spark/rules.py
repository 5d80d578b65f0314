"""``rules.clean``: units, scales and ranges of values by gateway, device and tag.

::

    clean:
      - {match: {gateway: "gw-*", tag: "temp*"}, unit: "°C", scale: 0.1, min: -40, max: 400, outside: invalid}

The first entry that matches a value counts. In patterns ``*`` stands for anything and ``?`` for one character; what is
left out matches everything. ``value · scale + offset`` is what is kept and what ``min`` and ``max`` are about; beyond
them the value is a dead letter (``outside: invalid``, the default) or kept with the quality ``out_of_range``.

The caller has read the YAML. Errors name the entry. ``Entry`` reads one strictly, for rules of other kinds too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

OUTSIDE = ("invalid", "quality")
#: A longer list makes a plan that Spark compiles badly.
MAX_RULES = 500


class BadRule(ValueError):
    """What is wrong with an entry, and which."""


class Entry:
    """One entry of a list of rules, read key by key; ``done`` refuses what nobody has asked for."""

    def __init__(self, place: str, found: object) -> None:
        self.place = place
        if not isinstance(found, Mapping):
            raise BadRule(f"{place} must be a mapping, not {found!r}")
        self._found: Mapping[str, object] = found
        self._asked: list[str] = []

    def wrong(self, why: str) -> BadRule:
        """The error that says it of this entry."""
        return BadRule(f"{self.place}: {why}")

    def _take(self, key: str) -> object:
        self._asked.append(key)
        return self._found.get(key)

    def has(self, key: str) -> bool:
        """Whether it is written."""
        return self._found.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str | None:
        """A text."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{key} must be a text, not {value!r}")
        return value

    def number(self, key: str, default: float | None = None) -> float | None:
        """A finite number."""
        value = self._take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(f"{key} must be a number, not {value!r}")
        return float(value)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.text(key, default)
        if value not in choices:
            raise self.wrong(f"{key} must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    def entry(self, key: str) -> Entry:
        """A mapping inside; an empty one if it is not there."""
        value = self._take(key)
        return Entry(f"{self.place}.{key}", {} if value is None else value)

    def done(self) -> None:
        """Everything that there is was asked for."""
        for key in self._found:
            if key not in self._asked:
                raise self.wrong(f"{key} is not known; there are {', '.join(self._asked)}")


@dataclass(frozen=True, slots=True)
class Match:
    """Which values a rule is about."""

    gateway: str = "*"
    device: str = "*"
    tag: str = "*"

    def column(self, tag: Column) -> Column:
        """Whether a tag of a row with these columns matches."""
        found = F.lit(True)  # noqa: FBT003 - it is a value
        for name, asked in (("gateway", F.col("gateway")), ("device", F.col("device")), ("tag", tag)):
            pattern = getattr(self, name)
            if pattern != "*":
                found = found & asked.like(like(pattern))
        return found


@dataclass(frozen=True, slots=True)
class CleanRule:
    """One entry of ``rules.clean``."""

    match: Match
    unit: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    min: float | None = None
    max: float | None = None
    outside: str = "invalid"


def match_of(entry: Entry) -> Match:
    """``match`` of an entry."""
    said = entry.entry("match")
    found = Match(*(said.text(name, "*") or "*" for name in ("gateway", "device", "tag")))
    said.done()
    return found


def clean_rules(entries: Sequence[object]) -> tuple[CleanRule, ...]:
    """The entries of ``rules.clean``. ``BadRule`` says what is wrong with which."""
    if len(entries) > MAX_RULES:
        raise BadRule(f"rules.clean has {len(entries)} entries; at most {MAX_RULES}")
    return tuple(_clean_rule(Entry(f"rules.clean[{index}]", one)) for index, one in enumerate(entries))


def _clean_rule(entry: Entry) -> CleanRule:
    rule = CleanRule(
        match=match_of(entry),
        unit=entry.text("unit"),
        scale=_number(entry, "scale", 1.0),
        offset=_number(entry, "offset", 0.0),
        min=entry.number("min"),
        max=entry.number("max"),
        outside=entry.choice("outside", OUTSIDE, "invalid"),
    )
    entry.done()
    if rule.scale == 0:
        raise entry.wrong("scale must not be 0: every value would be the same")
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        raise entry.wrong(f"min {rule.min:g} is more than max {rule.max:g}")
    return rule


def _number(entry: Entry, key: str, default: float) -> float:
    value = entry.number(key, default)
    return default if value is None else value


def like(pattern: str) -> str:
    """A pattern with ``*`` and ``?`` in SQL's words."""
    words = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}
    return "".join(words.get(letter, letter) for letter in pattern)
