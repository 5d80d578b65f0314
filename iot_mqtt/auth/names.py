"""Rules about names: which client ids a user may have, and which gateways it may be. ``acl`` has their grammar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape

from iot_mqtt.ports.access import Action, Principal

_USER = "%u"


@dataclass(frozen=True, slots=True)
class NameRule:
    """One line about names. Two rules that say the same are equal, wherever they stand."""

    allow: bool
    action: Action
    pattern: str
    line: int = field(default=0, compare=False)

    def fits(self, who: Principal, name: str) -> bool:
        """True if this rule speaks of the name."""
        # A bracket is no sign of these patterns.
        pattern = self.pattern.replace("[", "[[]")
        if _USER in pattern:
            if not who.owner and self.allow:
                return False
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
