"""What each key means, what a value may be beyond its type, and what it goes with: ``keys.yaml``, read once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

#: The one in C takes 3 ms for the file, the other one 50.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


#: Bytes of each, as Java has them.
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_AMOUNT = re.compile(r"([0-9]{1,7})([kmgKMG])")


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds; ``highest`` None: no upper bound. Numbers, or amounts of bytes with a unit, such as 512m."""

    lowest: float | str
    highest: float | str | None = None

    def __str__(self) -> str:
        if self.highest is None:
            bounds = f"{_shown(self.lowest)} or more"
        else:
            bounds = f"{_shown(self.lowest)} to {_shown(self.highest)}"
        return f"{bounds}, with k, m or g" if isinstance(self.lowest, str) else bounds

    def holds(self, value: float | str) -> bool:
        number = _number(value)
        return _number(self.lowest) <= number and (self.highest is None or number <= _number(self.highest))


def _shown(bound: float | str) -> str:
    return bound if isinstance(bound, str) else f"{bound:.15g}"


def _number(value: float | str) -> float:
    """Of an amount its bytes. A text that is none is in no range."""
    if not isinstance(value, str):
        return value
    found = _AMOUNT.fullmatch(value)
    return math.nan if found is None else int(found[1]) * _UNITS[found[2].lower()]


@dataclass(frozen=True, slots=True)
class Condition:
    """Keys with values that something depends on: one of them is enough. The word ``set`` stands for any value but
    nothing.
    """

    any_of: Mapping[str, tuple[object, ...]]
    #: What else can be done, in words.
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """One key, or a section. ``keys.yaml`` says what the fields are."""

    means: str
    range: Range | None = None
    looks_like: tuple[str, str] | None = None
    one_of: tuple[str, ...] = ()
    #: Of mappings, those of these names are.
    is_path: bool | tuple[str, ...] = False
    needs: Condition | None = None
    live: bool | None = None
    hint: str = ""
    hint_with: Condition | None = None
    hint_without: Condition | None = None


def _key(told: str | dict[str, Any]) -> Key:
    if isinstance(told, str):
        return Key(told)
    bounds, looks_like = told.get("range"), told.get("looks_like")
    return Key(
        told["means"],
        None if bounds is None else Range(*bounds),
        None if looks_like is None else (looks_like[0], looks_like[1]),
        tuple(told.get("one_of", ())),
        tuple(paths) if isinstance(paths := told.get("is_path", False), list) else bool(paths),
        _condition(told.get("needs"), told.get("instead", "")),
        told.get("live"),
        told.get("hint", ""),
        _condition(told.get("hint_with")),
        _condition(told.get("hint_without")),
    )


def _condition(told: dict[str, list[object]] | None, instead: str = "") -> Condition | None:
    return None if told is None else Condition({key: tuple(values) for key, values in told.items()}, instead)


_TOLD = yaml.load((Path(__file__).parent / "keys.yaml").read_text(encoding="utf-8"), _LOADER)  # noqa: S506 - both are safe
SECTIONS = {section: _key(told) for section, told in _TOLD["sections"].items()}
KEYS = {key: _key(told) for key, told in _TOLD["keys"].items()}
#: Names of before, with those of now.
RENAMED: dict[str, str] = _TOLD["renamed"]

LISTENER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def pattern_of(key: str) -> str:
    """The key as ``keys.yaml`` spells it: ``listeners.mqtt.port`` is ``listeners.*.port``."""
    parts = key.split(".")
    if parts[0] == "listeners" and len(parts) > 1:
        parts[1] = "*"
    return ".".join(parts)


def around(key: str) -> Iterator[Key]:
    """What is said of a key, and of the sections that it is in, the innermost first."""
    pattern = pattern_of(key)
    if pattern in KEYS:
        yield KEYS[pattern]
    while pattern := pattern.rpartition(".")[0]:
        if pattern in SECTIONS:
            yield SECTIONS[pattern]


@cache
def is_live(key: str) -> bool:
    """Whether a change of this key takes effect in a node that runs."""
    return next((known.live for known in around(key) if known.live is not None), False)


def complaint(key: str, value: object) -> str | None:
    """What is wrong with a well-typed value, or None."""
    known = KEYS[pattern_of(key)]
    if known.range is not None and isinstance(value, int | float | str) and not known.range.holds(value):
        return f"must be {known.range}, not {value!r}"
    if known.one_of and value not in known.one_of:
        return f"must be one of {', '.join(known.one_of)}, not {value!r}"
    if known.looks_like is not None and isinstance(value, str) and not re.fullmatch(known.looks_like[0], value):
        return f"must be {known.looks_like[1]}, not {value!r}"
    return None
