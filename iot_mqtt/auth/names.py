"""Rules about names: which client ids a user may have, and which gateways it may be. ``acl`` has their grammar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape
from typing import Generic, TypeVar

from iot_mqtt.ports.access import Action, Principal
from iot_mqtt.wildcards import for_fnmatch

T = TypeVar("T")

_USER = "%u"
#: What in a pattern stands for more than itself.
_SIGNS = ("*", "?", _USER)


@dataclass(frozen=True, slots=True)
class NameRule:
    """One line about names. Two rules that say the same are equal, wherever they stand."""

    allow: bool
    action: Action
    pattern: str
    line: int = field(default=0, compare=False)
    #: As it was written, and where.
    text: str = field(default="", compare=False)
    source: str = field(default="", compare=False)

    def fits(self, who: Principal, name: str) -> bool:
        """True if this rule speaks of the name."""
        if _USER in self.pattern and not who.owner and self.allow:
            return False
        return is_called(name, self.pattern, who)


def is_called(name: str, pattern: str, who: Principal) -> bool:
    """Whether a pattern fits a name. ``%u`` is the verified user name sign for sign, or any text if there is none."""
    pattern = for_fnmatch(pattern)
    if _USER in pattern:
        # What a user is called must not reach beyond the rule.
        pattern = pattern.replace(_USER, escape(who.owner) if who.owner else "*")
    return fnmatchcase(name, pattern)


def decide_name(rules: Iterable[NameRule], who: Principal, action: Action, name: str) -> bool:
    """The first rule that speaks of the name decides. Where none does, a name is free unless an allow rule of
    this kind says that the user's names are numbered.
    """
    enumerated = False
    for rule in rules:
        if rule.action is action:
            if rule.fits(who, name):
                return rule.allow
            enumerated = enumerated or rule.allow
    return not enumerated


def checked_pattern(pattern: str) -> str:
    """The pattern; ``ValueError`` if it has a placeholder that means nothing here."""
    if "%c" in pattern:
        raise ValueError("%c says nothing about a name; %u stands for the user name")
    return pattern


class Prefixes(Generic[T]):
    """What belongs to patterns, found by what names begin with: ``candidates`` has all whose pattern may fit."""

    __slots__ = ("_by_length",)

    def __init__(self, items: Iterable[tuple[str, T]]) -> None:
        self._by_length: dict[int, dict[str, list[T]]] = {}
        for pattern, item in items:
            places = [place for sign in _SIGNS if (place := pattern.find(sign)) >= 0]
            prefix = pattern[: min(places, default=None)]
            self._by_length.setdefault(len(prefix), {}).setdefault(prefix, []).append(item)

    def candidates(self, name: str) -> list[T]:
        """In no order."""
        found: list[T] = []
        for length, items in self._by_length.items():
            found += items.get(name[:length], ())
        return found
